"""Settings: composed by Hydra from `conf/` and the command line, checked before anything heavy is imported."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from sentattn.config.arguments import Argument, Faults, read, split_folders
from sentattn.config.checks import Composition, check_settings
from sentattn.config.groups import Choices, at
from sentattn.config.overrides import first_line, lay, literal, pick, pick_quirks, with_size
from sentattn.config.rules import check_combinations
from sentattn.config.schema import OF_THE_TRAINING, WITHOUT_EFFECT_ON_RESULT
from sentattn.config.targets import admit, stable
from sentattn.errors import Fault, SettingError


def compose(args: Sequence[str], *, config: str = "train") -> dict[str, Any]:
    """Composes settings from `conf/` and what was typed.

    Args:
        args: Settings such as `model=mean`, `loss.penalty=0.3`; `--config-dir FOLDER` adds a folder of choices.
        config: Name of the primary file in the configuration folder.

    Returns:
        Plain nested dictionaries, references resolved.

    Raises:
        SettingError: With all faults, in the order in which they were typed.
    """
    typed, choices, faults = _read(args)
    picks, values = pick(typed, choices, faults)
    settings, chosen = _composed(config, picks | pick_quirks(picks, values, choices, faults), choices)
    settings, written = lay(settings, with_size(settings, values, choices, faults), choices, faults)
    composition = Composition(settings, written, choices, chosen, typed, faults)
    check_settings(composition)
    check_combinations(composition)
    faults.raise_any()
    return settings


def override(
    settings: Mapping[str, Any], args: Sequence[str], *, only: Sequence[str] | None = None, trust: bool = False
) -> dict[str, Any]:
    """Lays typed settings over saved ones; a choice such as `data=imdb` replaces the node.

    Args:
        settings: Resolved settings, such as a run's `config.yaml`. They stay as they are.
        args: What was typed, as for `compose`.
        only: Top-level keys that may be changed; None for all.
        trust: Whether the saved settings may name any class; see `sentattn.config.targets`.

    Raises:
        SettingError: With all faults, in the order in which they were typed.
    """
    typed, choices, faults = _read(args)
    # Argument values follow references; what was saved is text, also where it looks like a reference.
    changed = literal(admit(settings, choices, trust=trust))
    for one in typed:
        if only is not None and one.key.replace("/", ".").partition(".")[0] not in only:
            message = f"{one}: only {' and '.join(only)} can be changed here."
            faults.add(Fault(one.key, "unsupported", message), one.position)
        elif only is not None and one.key in OF_THE_TRAINING:
            message = f"{one}: {one.key} is fixed by the training of the model; leave it out."
            faults.add(Fault(one.key, "unsupported", message), one.position)
    typed = [t for t in typed if only is None or t.key.replace("/", ".").partition(".")[0] in only]
    picks, values = pick(typed, choices, faults)
    if "experiment" in picks:
        message = f"experiment={picks.pop('experiment')} cannot be laid over saved settings; type its settings."
        faults.add(Fault("experiment", "unsupported", message))
    values = _without_faithful(values, changed, faults)
    chosen = choices.chosen(changed)
    if picks:
        chosen |= _graft(changed, picks, choices)
    if only is None:  # otherwise the model is trained, and its vectors are its own
        values = with_size(changed, values, choices, faults)
    changed, written = lay(changed, values, choices, faults)
    if "model" in picks and "faithful" in changed:
        changed["faithful"] = False  # the quirks are those of the variant that was replaced
    composition = Composition(changed, written, choices, chosen, typed, faults)
    check_settings(composition)
    if only is None:  # otherwise they are those of a trained model, whose length and classes go before the data's
        check_combinations(composition)
    faults.raise_any()
    return changed


def _graft(settings: dict[str, Any], picks: Mapping[str, str], choices: Choices) -> dict[str, str]:
    """Replaces nodes by choices, references unresolved; returns which choice each group of them has."""
    fresh, fresh_chosen = _composed("train", picks, choices)
    chosen: dict[str, str] = {}
    for group in sorted(picks, key=lambda name: name.count("/")):
        parent, _, key = group.replace("/", ".").rpartition(".")
        (at(settings, parent) if parent else settings)[key] = at(fresh, group.replace("/", "."))
        chosen |= {g: n for g, n in fresh_chosen.items() if g == group or g.startswith(f"{group}/")}
    return chosen


def _without_faithful(values: Sequence[Argument], settings: Mapping[str, Any], faults: Faults) -> list[Argument]:
    """Refuses to switch quirks on or off in settings that were composed with or without them."""
    for one in values:
        if one.key == "faithful" and one.value != settings.get("faithful", False):
            message = f"{one} cannot be laid over saved settings; type the settings that it stands for."
            faults.add(Fault(one.key, "unsupported", message), one.position)
    return [one for one in values if one.key != "faithful"]


def _read(args: Sequence[str]) -> tuple[list[Argument], Choices, Faults]:
    """Reads what was typed: the settings, the choices there are, and the faults so far."""
    words, folders = split_folders(args)
    choices = Choices.of(*folders)
    faults = Faults()
    return read(words, choices, faults), choices, faults


def setting_hash(settings: Mapping[str, Any], *, vectors: str | None = None) -> str:
    """Returns the hash by which runs are seeds of one setting: without seed, paths, logger and devices.

    Args:
        settings: The resolved settings.
        vectors: Hash of the vectors that the words start from: their file may have any name on another machine.
    """
    kept = _without(stable(settings), "")
    if vectors is not None:
        kept["vectors"] = vectors
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:12]


def _without(value: Any, path: str) -> Any:
    """Drops what does not count in the hash, and makes 1 and 1.0 one number."""
    if isinstance(value, Mapping):
        inner = {key: f"{path}.{key}" if path else key for key in value}
        return {key: _without(value[key], p) for key, p in inner.items() if p not in WITHOUT_EFFECT_ON_RESULT}
    if isinstance(value, list | tuple):
        return [_without(item, path) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _composed(config: str, picks: Mapping[str, str], choices: Choices) -> tuple[dict[str, Any], dict[str, str]]:
    """Composes the choices: the settings, references unresolved, and which choice each group of them has."""
    folders = tuple(str(folder) for folder in choices.folders)
    # Composing takes as long as a hundred calls of stat, and a sweep composes again and again.
    written = tuple(file.stat().st_mtime_ns for folder in choices.folders for file in sorted(folder.rglob("*.yaml")))
    settings, chosen = _compose_once(config, tuple(picks.items()), folders, written)
    return copy.deepcopy(settings), dict(chosen)


@functools.lru_cache(maxsize=256)
def _compose_once(
    config: str, picks: tuple[tuple[str, str], ...], folders: tuple[str, ...], written: tuple[int, ...]
) -> tuple[dict[str, Any], dict[str, str]]:
    paths = ",".join("'file://{}'".format(folder.replace("'", "\\'")) for folder in folders[1:])
    overrides = [f"hydra.searchpath=[{paths}]", *(f"{group}={name}" for group, name in picks)]
    try:
        with initialize_config_dir(config_dir=folders[0], version_base="1.3"):
            composed = hydra_compose(config, overrides, return_hydra_config=True)
        chosen = {str(group): str(name) for group, name in composed.hydra.runtime.choices.items() if name is not None}
        kept = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
        settings = OmegaConf.to_container(kept, resolve=False)
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:
        reason = " ".join(str(error).split()) if isinstance(error, YAMLError) else first_line(error)
        shown = " ".join(f"{group}={name}" for group, name in picks) or config
        raise SettingError(Fault("", "unreadable", f"{shown} cannot be composed: {reason}")) from error
    assert isinstance(settings, dict)
    return {str(key): value for key, value in settings.items()}, chosen
