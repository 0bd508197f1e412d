"""What a training command asks for: settings, typed or saved, and what is to be done with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from sentattn import run
from sentattn.config import command_line, types
from sentattn.config.arguments import closest, split_folders
from sentattn.config.command_line import CONFIG_DIR
from sentattn.config.compose import compose, override
from sentattn.config.groups import Choices
from sentattn.config.schema import TOP
from sentattn.config.targets import TARGET
from sentattn.errors import Fault, SettingError, UserError

AUTO = "auto"
OVERRIDES = "overrides"
"""A saved file with this key holds a list of a training's arguments; without it, it holds all settings."""


@dataclass(frozen=True)
class Own:
    """A key of the command itself: no setting, so no run keeps it.

    Attributes:
        type: Its type.
        default: Its default.
        about: What it does.
        example: How it is typed.
    """

    type: Any
    default: object
    about: str
    example: str


OWN: dict[str, Own] = {
    "seeds": Own(
        types.Count,
        1,
        "Runs to train, one after another: with the seeds from `seed` on, a run directory each.",
        "seeds=3",
    ),
    "from": Own(
        str,
        None,
        "Whose settings to start from: a run directory, `latest`, a run's `config.yaml`, or a file with training "
        "arguments as a list under `overrides`. What is typed as well changes them.",
        "from=DIR",
    ),
    "check": Own(
        bool,
        False,
        "Stop before the training: the data, the shapes, and what memory and time to expect.",
        "check=true",
    ),
    "resume": Own(
        str,
        None,
        "An interrupted run directory that is continued with its own settings; `auto` continues the newest "
        "interrupted run of the settings typed, or begins one.",
        "resume=DIR",
    ),
    "trust": Own(
        bool,
        False,
        "Let `from` and `resume` load classes of your own that the saved settings name; they can run any code. Those "
        "of a `--config-dir` that is typed need no trust.",
        "trust=true",
    ),
}
TYPES = {key: own.type for key, own in OWN.items()}


@dataclass(frozen=True)
class Request:
    """What is to be trained, and how.

    Attributes:
        settings: The resolved settings of the first run.
        seeds: Number of runs; each has the seed after that of the one before.
        check: Whether to stop before the training, with what is to be expected of it.
        resume: The run directory to continue, or `auto`; None begins anew.
    """

    settings: dict[str, Any]
    seeds: int = 1
    check: bool = False
    resume: str | None = None

    def runs(self) -> list[dict[str, Any]]:
        """The settings of each run."""
        first = self.settings["seed"]
        return [{**self.settings, "seed": seed} for seed in range(first, first + self.seeds)]


def read_request(arguments: Sequence[str]) -> Request:
    """Reads the arguments of a training.

    Args:
        arguments: Settings as for `compose`, and `seeds=N`, `from=DIR`, `check=true`, `resume=DIR`, `trust=true`.

    Raises:
        SettingError: With all faults, those of the command's own keys first.
        RunError: If a run directory that was named is none.
    """
    faults: list[Fault] = []
    words, rest = command_line.take(arguments, list(OWN))
    rest = [word for word in rest if not _is_own_misspelt(word, faults)]
    own = _read_own(words, faults)
    faults += _conflicts(own, rest)
    settings: dict[str, Any] = {}
    try:
        settings = _settings(own, rest)
    except UserError as error:
        if not faults:
            raise
        faults += error.faults
    last = settings.get("seed", 0) + own.get("seeds", 1) - 1
    if last > types.LARGEST_SEED:
        message = f"seeds={own['seeds']}: the last seed would be {last}, and none is above {types.LARGEST_SEED}."
        faults.append(Fault("seeds", "range", message))
    if faults:
        raise SettingError(*dict.fromkeys(faults))
    return Request(settings, own.get("seeds", 1), own.get("check", False), own.get("resume"))


def read_single(arguments: Sequence[str]) -> Request:
    """Reads the arguments of one run, as `sentattn.fit` takes them.

    Raises:
        SettingError: As `read_request` does, and for `seeds` and `check`.
    """
    faults = [
        Fault(key, "unsupported", f"{word}: sentattn.fit trains one run and returns it; {instead}.")
        for key, instead in (("seeds", "call it with seed=0, seed=1, ..."), ("check", "`sentattn train` has it"))
        for word in arguments
        if word.partition("=")[0] == key
    ]
    if faults:
        raise SettingError(*faults)
    return read_request(arguments)


def _read_own(words: Sequence[str], faults: list[Fault]) -> dict[str, Any]:
    """Returns the command's own keys; of faulty ones, those that can be read, so that the rest can be checked."""
    faults += [Fault(w, "missing", f"{w} has no value: type {OWN[w].example}.") for w in words if w in OWN]
    words = [word for word in words if word not in OWN]
    try:
        return command_line.raw_arguments(words, TYPES)
    except SettingError as error:
        faults += error.faults
    readable: dict[str, Any] = {}
    for word in words:
        with suppress(SettingError):
            readable |= command_line.raw_arguments([word], TYPES)
    return readable


def _is_own_misspelt(word: str, faults: list[Fault]) -> bool:
    """Whether a word is one of the command's own keys in another spelling; adds a fault with the right one."""
    bare, equals, text = word.lstrip("-+").partition("=")
    if not word.startswith(("-", "+")) and (not equals or "." in bare or "/" in bare):
        return False
    near = closest(bare, [*OWN, *TOP, *Choices.of().groups(), "help", "cfg", CONFIG_DIR.lstrip("-")])
    if near not in OWN:
        return False
    if near == bare:
        right = f"{bare}={text}" if equals else OWN[bare].example
        message = f"{word}: settings are written without dashes and plus signs; type {right}."
    else:
        message = f"{word}: there is no setting {bare!r}. Did you mean {near!r}?"
    faults.append(Fault(bare, "unknown", message))
    return True


def _conflicts(own: Mapping[str, Any], rest: Sequence[str]) -> list[Fault]:
    """What does not go together with `resume`, and `trust` without anything to load."""
    resume = own.get("resume")
    faults = []
    if resume is not None and own.get("check"):
        message = f"check=true looks at a training before it begins: leave out resume={resume}."
        faults.append(Fault("check", "conflict", message))
    if own.get("trust") and resume in (None, AUTO) and "from" not in own:
        message = "trust=true has no effect without from= or resume=DIR: leave it out."
        faults.append(Fault("trust", "no_effect", message))
    if resume in (None, AUTO):
        return faults
    for key, reason in (("from", "which has its own settings"), ("seeds", "which is one run")):
        if key in own:
            message = f"{key}={own[key]} does not go together with resume={resume}, {reason}."
            faults.append(Fault(key, "conflict", message))
    typed = " ".join(_without_folders(rest)[0])
    if typed:
        message = (
            f"resume={resume} continues with the run's own settings, so leave out {typed}; "
            f"to train anew with other settings: from={resume} {typed}."
        )
        faults.append(Fault("resume", "conflict", message))
    return faults


def _settings(own: Mapping[str, Any], rest: Sequence[str]) -> dict[str, Any]:
    words, folders = _without_folders(rest)
    resume, trust = own.get("resume", AUTO), own.get("trust", False)
    if resume != AUTO:
        return override(completed(run.load(resume).settings), folders, trust=trust)
    if "from" in own:
        return override(read_saved(own["from"], folders), [*folders, *words], trust=trust)
    return compose(rest)


def _without_folders(rest: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits the settings from `--config-dir FOLDER`, which names no setting."""
    words, folders = split_folders(rest)
    return words, [f"{CONFIG_DIR}={folder}" for folder in folders]


def read_saved(path: str, folders: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the settings at a path. Classes in them are not checked yet; see `override`.

    Args:
        path: A run directory, `latest` for the newest finished run, or a YAML file: with all settings as in a run's
            `config.yaml`, or with a list of training arguments under `overrides` and, next to it, what people should
            know, which is not read.
        folders: `--config-dir FOLDER` as it was typed: where else the arguments of such a list find choices.

    Raises:
        SettingError: If the file holds no settings, or unknown ones.
        RunError: If there is no run directory at the path.
    """
    file = Path(path)
    if not file.is_file():
        return _completed_run(run.find(path))
    try:
        loaded = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        message = f"from={file} cannot be read as YAML: {' '.join(str(error).split())}."
        raise SettingError(Fault("from", "unreadable", message)) from error
    if isinstance(loaded, dict) and OVERRIDES in loaded:
        return _composed(loaded[OVERRIDES], file, folders)
    if isinstance(loaded, dict) and all(isinstance(loaded.get(group), dict) for group in ("data", "model")):
        return _completed_run(run.Run(file.parent)) if file.name == run.CONFIG else completed(loaded)
    message = (
        f"from={file} holds no settings of a training: it needs all of them, as a run's {run.CONFIG}, "
        f"or a list such as {OVERRIDES}: [model=structured, data=imdb]."
    )
    raise SettingError(Fault("from", "unreadable", message))


def _completed_run(saved: run.Run) -> dict[str, Any]:
    """Returns the settings of a run. A trial of a sweep is not tested, but a training that starts from it is."""
    settings = dict(saved.settings)
    if saved.is_trial:
        settings.pop("test", None)
    return completed(settings)


def completed(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Adds what has become a setting since: its default is what an older version did."""
    settings = dict(saved)
    for key, default in compose([]).items():
        own = settings.setdefault(key, default)
        if isinstance(default, Mapping) and isinstance(own, Mapping) and TARGET not in default:
            settings[key] = {**default, **own}
    return settings


def _composed(arguments: Any, file: Path, folders: Sequence[str]) -> dict[str, Any]:
    if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
        message = f"from={file}: {OVERRIDES} is a list of arguments such as [model=structured, data=imdb]."
        raise SettingError(Fault(OVERRIDES, "type", message))
    if options := [word for word in arguments if word.startswith("-")]:
        # A folder of choices can name any class, so only the user names one.
        message = f"from={file}: {OVERRIDES} holds {options[0]}; options belong on the command line."
        raise SettingError(Fault(OVERRIDES, "unsafe", message))
    try:
        return compose([*arguments, *folders])
    except SettingError as error:
        raise SettingError(*(replace(one, message=f"from={file}: {one}") for one in error.faults)) from error
