"""Settings: composed by Hydra from `conf/` and the command line, checked before anything heavy is imported."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from sentattn import kinds
from sentattn.errors import SettingError
from sentattn.settings.arguments import Faults, Typed, read, split_folders
from sentattn.settings.checks import Check
from sentattn.settings.choices import Choices, at
from sentattn.settings.picks import pick
from sentattn.settings.schema import RAW, WITHOUT_EFFECT_ON_RESULT
from sentattn.settings.settable import annotation


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
    settings, chosen = _composed(config, picks, choices)
    _place(settings, [t for t in values if t.key not in RAW], choices, faults)
    settings = _resolved(settings)
    _place(settings, [t for t in values if t.key in RAW], choices, faults)
    Check(settings, choices, chosen, typed, faults).run()
    faults.tell()
    return settings


def override(settings: Mapping[str, Any], args: Sequence[str], *, only: Sequence[str] | None = None) -> dict[str, Any]:
    """Lays typed settings over saved ones; a choice such as `data=imdb` replaces the node.

    Args:
        settings: Resolved settings, such as a run's `config.yaml`. They stay as they are.
        args: What was typed, as for `compose`.
        only: Top-level keys that may be changed; None for all.

    Raises:
        SettingError: With all faults, in the order in which they were typed.
    """
    typed, choices, faults = _read(args)
    for one in typed:
        if only is not None and one.key.replace("/", ".").partition(".")[0] not in only:
            faults.add(f"{one}: only {' and '.join(only)} can be changed here.", one.position)
    typed = [t for t in typed if only is None or t.key.replace("/", ".").partition(".")[0] in only]
    picks, values = pick(typed, choices, faults)
    if "experiment" in picks:
        faults.add(f"experiment={picks.pop('experiment')} cannot be laid over saved settings; type its settings.")
    changed = copy.deepcopy(dict(settings))
    chosen = choices.chosen(changed)
    if picks:
        fresh, fresh_chosen = _composed("train", picks, choices)
        fresh = _resolved(fresh)
        for group in sorted(picks, key=lambda name: name.count("/")):
            parent, _, key = group.replace("/", ".").rpartition(".")
            (at(changed, parent) if parent else changed)[key] = at(fresh, group.replace("/", "."))
            chosen |= {g: n for g, n in fresh_chosen.items() if g == group or g.startswith(f"{group}/")}
    _place(changed, values, choices, faults)
    Check(changed, choices, chosen, typed, faults).run()
    faults.tell()
    return changed


def _read(args: Sequence[str]) -> tuple[list[Typed], Choices, Faults]:
    """Reads what was typed: the settings, the choices there are, and the faults so far."""
    words, folders = split_folders(args)
    choices = Choices.of(*folders)
    faults = Faults()
    return read(words, choices, faults), choices, faults


def setting_hash(settings: Mapping[str, Any]) -> str:
    """Returns the hash by which runs are seeds of one setting: without seed, paths, logger and devices."""
    kept = _without(settings, "")
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:12]


def _without(value: Any, path: str) -> Any:
    """Drops what has no part in the hash, and makes 1 and 1.0 one number."""
    if isinstance(value, Mapping):
        inner = {key: f"{path}.{key}" if path else key for key in value}
        return {key: _without(value[key], p) for key, p in inner.items() if p not in WITHOUT_EFFECT_ON_RESULT}
    if isinstance(value, list | tuple):
        return [_without(item, path) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _composed(config: str, picks: Mapping[str, str], choices: Choices) -> tuple[dict[str, Any], dict[str, str]]:
    """Composes the choices: the settings, references unresolved, and which choice each group has."""
    paths = ",".join("'file://{}'".format(str(f).replace("'", "\\'")) for f in choices.folders[1:])
    overrides = [f"hydra.searchpath=[{paths}]", *(f"{group}={name}" for group, name in picks.items())]
    try:
        with initialize_config_dir(config_dir=str(choices.folders[0]), version_base="1.3"):
            composed = hydra_compose(config, overrides, return_hydra_config=True)
        chosen = {str(group): str(name) for group, name in composed.hydra.runtime.choices.items() if name is not None}
        kept = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
        settings = OmegaConf.to_container(kept, resolve=False)
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:
        reason = " ".join(str(error).split()) if isinstance(error, YAMLError) else _first_line(error)
        shown = " ".join(f"{group}={name}" for group, name in picks.items()) or config
        raise SettingError(f"{shown} cannot be composed: {reason}") from error
    assert isinstance(settings, dict)
    return {str(key): value for key, value in settings.items()}, chosen


def _first_line(error: Exception) -> str:
    return f"{str(error).strip().splitlines()[0].rstrip('.')}."


def _place(settings: dict[str, Any], values: Sequence[Typed], choices: Choices, faults: Faults) -> None:
    """Puts typed values where they belong. Unknown keys are placed as well: the check finds and names them."""
    for one in values:
        try:
            _put(settings, _as_annotated(settings, one), choices)
        except SettingError as error:
            faults.add(str(error), one.position)


def _as_annotated(settings: Mapping[str, Any], one: Typed) -> Typed:
    """Takes the text itself where only a text is legal: `group=2026` is a name, not a number."""
    kind = annotation(settings, one.key)
    if kind is None:
        return one
    words, fits = kinds.legal(kind)
    if not one.text:
        raise SettingError(f"{one} has no value: type {one.key}=VALUE; it takes {words}.")
    return replace(one, value=one.text) if not fits(one.value) and fits(one.text) else one


def _put(settings: dict[str, Any], one: Typed, choices: Choices) -> None:
    *parents, last = one.key.split(".")
    if last.startswith("_"):
        group = "/".join(parents)
        raise SettingError(f"{one}: {last} is not set by hand; choose with {group}=NAME.")
    node: Any = settings
    for depth, part in enumerate(parents, start=1):
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise SettingError(f"{one}: {'.'.join(parents[:depth])} is one value and has no parts.")
    if isinstance(node.get(last), dict):
        group = one.key.replace(".", "/")
        inner = [f"{one.key}.{key}" for key in node[last] if not key.startswith("_")]
        how = f"choose with {group}=NAME" if group in choices.groups() else f"set {', '.join(inner)}"
        raise SettingError(f"{one}: {one.key} is no single value; {how}.")
    node[last] = one.value


def _resolved(settings: Mapping[str, Any]) -> dict[str, Any]:
    try:
        resolved = OmegaConf.to_container(OmegaConf.create(dict(settings)), resolve=True)
    except OmegaConfBaseException as error:
        raise SettingError(f"A reference in the configuration leads nowhere: {_first_line(error)}") from error
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items()}
