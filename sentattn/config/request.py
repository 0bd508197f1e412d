"""Reads the arguments of a training: settings, typed or saved, and the keys of the command itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from sentattn import run
from sentattn.config import command_line, types
from sentattn.config.arguments import split_folders
from sentattn.config.command_line import CONFIG_DIR
from sentattn.config.compose import ENCODER_KEY, compose, override
from sentattn.config.schema import AUTO_RESUME, COMMAND_KEYS, INIT_FROM, Settings
from sentattn.config.types import Node, Tree
from sentattn.errors import MALFORMED, Fault, SettingError, UserError

OVERRIDES_KEY = "overrides"
"""A saved file with this key holds a list of a training's arguments; without it, it holds all settings."""


@dataclass(frozen=True)
class Request:
    """What is to be trained: the settings of the first run, and the command's own keys.

    `resume` is the run directory to continue, or `auto`; None begins anew. `origin` is the run directory that the
    settings are from, unless another encoder was typed. `match_parameters` is a run whose number of parameters a check
    matches.
    """

    settings: Settings
    seeds: int = 1
    check: bool = False
    resume: str | None = None
    origin: Path | None = None
    match_parameters: str | None = None

    def runs(self) -> list[Settings]:
        """The settings of each run: of each seed from the first on, and of each fold unless one is chosen."""
        settings, data = self.settings, self.settings.data
        seeds = range(settings.seed, settings.seed + self.seeds)
        if data.get("folds") is None or data.get("fold") is not None:
            return [replace(settings, seed=seed) for seed in seeds]
        folds = [{**data, "fold": fold} for fold in range(data["folds"])]
        return [replace(settings, seed=seed, data=each) for seed in seeds for each in folds]


def read_request(arguments: Sequence[str]) -> Request:
    """Reads the arguments of a training: settings as for `compose`, and the keys of `COMMAND_KEYS`.

    Raises:
        SettingError: With all faults, those of the command's own keys first.
        RunError: If a run directory that was named is none.
    """
    words, rest = command_line.take(arguments, list(COMMAND_KEYS))
    keys, faults = command_line.read_values(words, COMMAND_KEYS)
    words, paths = split_folders(rest)
    folders = [f"{CONFIG_DIR}={path}" for path in paths]
    faults += _conflicts(keys, words)
    resume, trust = keys.get("resume", AUTO_RESUME), keys.get("trust", False)
    settings: Tree = {}
    try:
        if resume != AUTO_RESUME:
            settings = override(run.load(resume).settings, folders, trust=trust)
        elif "from" in keys:
            keys["from"] = keys["from"].removesuffix(f"/{run.CONFIG_FILE}")
            if not Path(keys["from"]).is_file():  # looked up once: another run may be the latest the next time
                keys["from"] = str(run.load(keys["from"]).path)
            settings = override(read_saved(keys["from"], folders, trust), [*folders, *words], trust=trust)
        else:
            settings = compose([*folders, *words], trust=trust)
    except UserError as error:
        if not faults:
            raise
        faults += error.faults
    if resume == AUTO_RESUME and (path := settings.get(INIT_FROM)):  # a run that is resumed has weights of its own
        settings[INIT_FROM] = _read_start(path, faults)
    last = settings.get("seed", 0) + keys.get("seeds", 1) - 1
    if last > types.LARGEST_SEED:
        message = f"seeds={keys['seeds']}: the last seed would be {last}, and none is above {types.LARGEST_SEED}."
        faults.append(Fault("seeds", "range", message))
    if faults:
        raise SettingError(*dict.fromkeys(faults))
    own = {key: value for key, value in keys.items() if key in Request.__dataclass_fields__}
    has_encoder = any(word.startswith(f"{ENCODER_KEY}=") for word in words)
    origin = None if has_encoder or "from" not in keys or Path(keys["from"]).is_file() else Path(keys["from"])
    return Request(Settings.of(settings), origin=origin, **own)


def _conflicts(keys: Node, words: Sequence[str]) -> list[Fault]:
    """Returns the faults of keys that cannot be combined with `resume`, and of a check that is not asked for."""
    resume = keys.get("resume", AUTO_RESUME)
    faults = []
    if "match_parameters" in keys and not keys.get("check"):
        message = f"match_parameters={keys['match_parameters']} has no effect without check=true: type both, or none."
        faults.append(Fault("match_parameters", "no_effect", message))
    clashing = ["check"] if keys.get("check") and "resume" in keys else []
    for key in [*clashing, *(key for key in ("from", "seeds") if key in keys and resume != AUTO_RESUME)]:
        message = f"{key}={types.as_typed(keys[key])} cannot be combined with resume={resume}: leave one of them out."
        faults.append(Fault(key, "conflict", message))
    if (typed := " ".join(words)) and resume != AUTO_RESUME:
        message = (
            f"resume={resume} continues with the run's own settings, so leave out {typed}; "
            f"to train anew with other settings: from={resume} {typed}."
        )
        faults.append(Fault("resume", "conflict", message))
    return faults


def read_saved(path: str, folders: Sequence[str] = (), trust: bool = False) -> Tree:
    """Returns the settings of a run directory or a YAML file. Classes in them are not checked yet; see `override`.

    Args:
        path: A run directory, `latest`, or a file with all settings or a list of training arguments under `overrides`.
        folders: `--config-dir FOLDER` as it was typed: where else the arguments of such a list find choices.
        trust: Whether they may name the class of a callback.

    Raises:
        SettingError: If the file holds no settings, or unknown ones.
        RunError: If there is no run directory at the path.
    """
    file = Path(path)
    if not file.is_file():
        saved = run.load(path)
        # A trial of a sweep is not tested, but a training that starts from it is.
        return saved.settings | ({"test": True} if saved.is_trial else {})
    try:
        loaded = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (*MALFORMED, yaml.YAMLError) as error:
        message = f"from={file} cannot be read as YAML: {' '.join(str(error).split())}."
        raise SettingError(Fault("from", "unreadable", message)) from error
    if isinstance(loaded, dict) and OVERRIDES_KEY in loaded:
        return _composed(loaded[OVERRIDES_KEY], file, folders, trust)
    if isinstance(loaded, dict) and all(isinstance(loaded.get(group), dict) for group in ("data", "model")):
        return run.take_format(file, loaded)
    message = (
        f"from={file} does not contain the settings of a training: it needs all of them, as a run's {run.CONFIG_FILE}, "
        f"or a list such as {OVERRIDES_KEY}: [model=structured, data=imdb]."
    )
    raise SettingError(Fault("from", "unreadable", message))


def _read_start(path: str, faults: list[Fault]) -> str:
    """Returns the directory of the run in `init_from`, once it has a model; otherwise adds why it has none."""
    try:
        path = str(run.load(path).path)
        if not Path(path, run.MODEL_FOLDER, run.WEIGHTS_FILE).is_file():
            faults.append(Fault(INIT_FROM, "missing", f"{INIT_FROM}={path}: its training has not finished."))
    except UserError as error:
        faults += (replace(fault, key=INIT_FROM, message=f"{INIT_FROM}: {fault}") for fault in error.faults)
    return path


def _composed(arguments: object, file: Path, folders: Sequence[str], trust: bool) -> Tree:
    if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
        message = f"from={file}: {OVERRIDES_KEY} is a list of arguments such as [model=structured, data=imdb]."
        raise SettingError(Fault(OVERRIDES_KEY, "type", message))
    if options := [word for word in arguments if word.startswith("-")]:
        # A folder of choices can name any class, so only the user names one.
        message = f"from={file}: {OVERRIDES_KEY} holds {options[0]}; options belong on the command line."
        raise SettingError(Fault(OVERRIDES_KEY, "unsafe", message))
    try:
        return compose([*arguments, *folders], trust=trust)
    except SettingError as error:
        raise SettingError(*(replace(fault, message=f"from={file}: {fault}") for fault in error.faults)) from error
