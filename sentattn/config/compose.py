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

from sentattn.config import types
from sentattn.config.arguments import LAST, Argument, Faults, closest, read, split_folders
from sentattn.config.checks import Composition, check_settings
from sentattn.config.groups import QUIRKS, Choices, at, defaults, load
from sentattn.config.parameters import type_of
from sentattn.config.rules import check_combinations
from sentattn.config.schema import OF_THE_TRAINING, RAW, WITHOUT_EFFECT_ON_RESULT
from sentattn.config.targets import STABLE, admit, renamed
from sentattn.errors import DataError, Fault, SettingError, suggestion

NOT_A_REFERENCE = "$\x00{"
"""Stands for the beginning of a reference in texts that hold none."""
VECTORS, SIZE = "data.vectors", "model.embedding.size"


def compose(args: Sequence[str]) -> dict[str, Any]:
    """Composes settings from `conf/` and what was typed; references are resolved.

    Args:
        args: Settings such as `model=mean`, `loss.penalty=0.3`; `--config-dir FOLDER` adds a folder of choices.

    Raises:
        SettingError: With all faults, in the order in which they were typed.
    """
    typed, choices, faults = _read(args)
    picks, values = _pick(typed, choices, faults)
    settings, chosen = _composed(picks | _quirks(picks, values, choices, faults), choices)
    composition = _lay(settings, _with_size(settings, values, faults), choices, chosen, typed, faults)
    check_settings(composition)
    check_combinations(composition)
    faults.raise_any()
    return dict(composition.settings)


def override(
    settings: Mapping[str, Any], args: Sequence[str], *, only: Sequence[str] | None = None, trust: bool = False
) -> dict[str, Any]:
    """Lays typed settings over saved ones, which stay as they are; a choice such as `data=imdb` replaces the node.

    Args:
        settings: Resolved settings, such as a run's `config.yaml`.
        args: What was typed, as for `compose`.
        only: Top-level keys that may be changed, for a model that is trained already; None for all.
        trust: Whether the saved settings may name any class; see `sentattn.config.targets`.

    Raises:
        SettingError: With all faults, in the order in which they were typed.
    """
    typed, choices, faults = _read(args)
    saved = _literal(admit(settings, choices, trust=trust))
    legal = []
    for one in typed:
        top = one.key.replace("/", ".").partition(".")[0]
        if only is not None and (top not in only or one.key in OF_THE_TRAINING):
            message = f"{one}: {one.key} cannot be changed after the training of the model; leave it out."
        elif one.key == "experiment" or (one.key == "faithful" and one.value != saved.get("faithful", False)):
            message = f"{one} cannot be laid over saved settings; type the settings that it stands for."
        else:
            legal.append(one)
            continue
        faults.add(Fault(one.key, "unsupported", message), one.position)
    picks, values = _pick([one for one in legal if one.key != "faithful"], choices, faults)
    chosen = choices.chosen(saved)
    if picks:
        fresh, fresh_chosen = _composed(picks, choices)
        for group in sorted(picks, key=lambda name: name.count("/")):
            parent, _, key = group.replace("/", ".").rpartition(".")
            (at(saved, parent) if parent else saved)[key] = at(fresh, group.replace("/", "."))
            chosen |= {g: name for g, name in fresh_chosen.items() if g == group or g.startswith(f"{group}/")}
    if "model" in picks and "faithful" in saved:
        saved["faithful"] = False  # the quirks are those of the variant that was replaced
    if only is None:
        values = _with_size(saved, values, faults)
    composition = _lay(saved, values, choices, chosen, typed, faults)
    check_settings(composition)
    if only is None:  # otherwise they are those of a trained model, whose length and classes go before the data's
        check_combinations(composition)
    faults.raise_any()
    return dict(composition.settings)


def setting_hash(settings: Mapping[str, Any], *, vectors: str | None = None) -> str:
    """Returns the hash by which runs are seeds of one setting: without seed, paths, logger and devices.

    Args:
        settings: The resolved settings.
        vectors: Hash of the vectors that the words start from: their file may have any name on another machine.
    """
    kept = _without(renamed(settings, STABLE), "")
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


def _read(args: Sequence[str]) -> tuple[list[Argument], Choices, Faults]:
    """Reads what was typed: the settings, the choices that exist, and the faults so far."""
    words, folders = split_folders(args)
    choices, faults = Choices.of(*folders), Faults()
    return read(words, choices, faults), choices, faults


def _pick(arguments: Sequence[Argument], choices: Choices, faults: Faults) -> tuple[dict[str, str], list[Argument]]:
    """Splits choices of groups from values; values below a misspelt choice cannot be checked and are left out."""
    picks: dict[str, str] = {}
    values: list[Argument] = []
    misspelt: list[str] = []
    groups, optional = choices.groups(), defaults(load(choices.folders[0] / "train.yaml"))
    for one in arguments:
        group, name = closest(one.key, groups), one.value if isinstance(one.value, str) else one.text
        names = choices.names(group) if group else []
        if one.key == group and name in names:
            picks[group] = name
        elif one.key in groups and not (one.value is None and optional.get(group, "") is None):
            message = f"{one}: {group} has no choice {name!r}.{suggestion(name, names)} There are {', '.join(names)}."
            faults.add(Fault(group, "unknown", message), one.position)
            misspelt.append(f"{group.replace('/', '.')}.")
        elif one.key not in (*groups, *RAW) and (name in names or "/" in one.key):
            hint = f"Did you mean {group!r}?" if group else f"There are {', '.join(groups)}."
            faults.add(Fault(one.key, "unknown", f"{one}: there is no group {one.key!r}. {hint}"), one.position)
            misspelt += [f"{group.replace('/', '.')}."] if group else []
        elif one.key not in groups:
            values.append(one)
    return picks, [one for one in values if not one.key.startswith(tuple(misspelt))]


def _quirks(picks: Mapping[str, str], values: Sequence[Argument], choices: Choices, faults: Faults) -> dict[str, str]:
    """Returns the choice that `faithful=true` stands for: the quirks of the experiment, or else of the variant."""
    group = "experiment" if "experiment" in picks else "model"
    name = picks.get(group) or str(defaults(load(choices.folders[0] / "train.yaml"))[group])
    typed = [one for one in values if one.key == "faithful"]
    is_faithful = typed[0].value if typed else choices.node(group, name).get("faithful")
    if is_faithful is not True:
        return {}
    if name in choices.names(QUIRKS):
        return {QUIRKS: name}
    message = f"faithful=true: {group}={name} has no quirks to repeat; {', '.join(choices.names(QUIRKS))} have some."
    faults.add(Fault("faithful", "no_effect", message), typed[0].position if typed else LAST)
    return {}


def _with_size(settings: Mapping[str, Any], values: Sequence[Argument], faults: Faults) -> list[Argument]:
    """Returns the typed values and, before them, the size of the words where they start from vectors."""
    typed = {one.key: one for one in values}
    vectors = typed[VECTORS].text if VECTORS in typed else _literal(at(settings, VECTORS), NOT_A_REFERENCE, "${")
    position = typed[VECTORS].position if VECTORS in typed else LAST
    if vectors in (None, "", "null"):
        return list(values)
    if type_of(settings, SIZE) is None:
        message = f"{VECTORS}={vectors} has no effect: the words of this model/embedding have no size to take it from."
        faults.add(Fault(VECTORS, "no_effect", message), position)
        return list(values)
    from sentattn.data.vector_file import width

    try:
        size = width(vectors)
    except DataError as error:
        faults.add(error.faults[0], position)
        return list(values)
    if SIZE in typed and typed[SIZE].value != size:
        message = f"{typed[SIZE]} does not fit {VECTORS}={vectors}, which has {size} numbers a word: leave it out."
        faults.add(Fault(SIZE, "conflict", message), typed[SIZE].position)
    return [Argument(LAST, SIZE, str(size), size), *values]


def _lay(
    settings: dict[str, Any],
    values: Sequence[Argument],
    choices: Choices,
    chosen: Mapping[str, str],
    typed: Sequence[Argument],
    faults: Faults,
) -> Composition:
    """Lays typed values over settings and resolves references, which follow what was typed.

    Unknown keys are placed as well: the check finds and names them.
    """
    for one in values:
        *parents, last = one.key.split(".")
        node: Any = settings
        for parent in parents:
            node = node.setdefault(parent, {}) if isinstance(node, dict) else None
        kind = type_of(settings, one.key)
        if not isinstance(node, dict) or isinstance(node.get(last), dict) or last.startswith("_"):
            message = f"{one}: {one.key} is no single setting; a part is chosen as in model/attention=uniform."
            faults.add(Fault(one.key, "unsupported", message), one.position)
        elif kind is not None and not one.text:
            message = f"{one} has no value: {one.key} must be {types.words(kind)}."
            faults.add(Fault(one.key, "missing", message), one.position)
        else:
            parsed = None if one.key in RAW and one.text == "null" else one.value
            # The text itself where only a text is legal: `group=2026` is a name, not a number.
            legal = [value for value in (parsed, one.text) if kind and types.mismatch(kind, value) is None]
            node[last] = _literal(legal[0] if legal else one.value)
    try:
        resolved = OmegaConf.to_container(OmegaConf.create(settings), resolve=True)
    except OmegaConfBaseException as error:
        message = f"A reference in the configuration cannot be resolved: {_first_line(error)}"
        raise SettingError(Fault("", "not_found", message)) from error
    return Composition(_literal(resolved, NOT_A_REFERENCE, "${"), settings, choices, chosen, typed, faults)


def _literal(value: Any, sign: str = "${", other: str = NOT_A_REFERENCE) -> Any:
    """Returns settings in which texts are never references, or, with the signs exchanged, the original texts.

    Loaded settings are resolved already: `${oc.env:HOME}` in them is a text like any other.
    """
    if isinstance(value, Mapping):
        return {key: _literal(inner, sign, other) for key, inner in value.items()}
    if isinstance(value, list):
        return [_literal(item, sign, other) for item in value]
    return value.replace(sign, other) if isinstance(value, str) else value


def _first_line(error: Exception) -> str:
    return f"{str(error).strip().splitlines()[0].rstrip('.')}."


def _composed(picks: Mapping[str, str], choices: Choices) -> tuple[dict[str, Any], dict[str, str]]:
    """Composes the choices: the settings, references unresolved, and which choice each group of them has."""
    # Composing takes as long as a hundred calls of stat, and a sweep composes again and again.
    changed = tuple(file.stat().st_mtime_ns for folder in choices.folders for file in sorted(folder.rglob("*.yaml")))
    return copy.deepcopy(_compose_once(tuple(picks.items()), tuple(map(str, choices.folders)), changed))


@functools.lru_cache(maxsize=256)
def _compose_once(
    picks: tuple[tuple[str, str], ...], folders: tuple[str, ...], changed: tuple[int, ...]
) -> tuple[dict[str, Any], dict[str, str]]:
    paths = ",".join("'file://{}'".format(folder.replace("'", "\\'")) for folder in folders[1:])
    overrides = [f"{group}={name}" for group, name in picks]
    try:
        with initialize_config_dir(config_dir=folders[0], version_base="1.3"):
            composed = hydra_compose("train", [f"hydra.searchpath=[{paths}]", *overrides], return_hydra_config=True)
        chosen = {str(group): str(name) for group, name in composed.hydra.runtime.choices.items() if name is not None}
        kept = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
        settings = OmegaConf.to_container(kept, resolve=False)
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:
        reason = " ".join(str(error).split()) if isinstance(error, YAMLError) else _first_line(error)
        message = f"{' '.join(overrides) or 'train.yaml'} cannot be composed: {reason}"
        raise SettingError(Fault("", "unreadable", message)) from error
    assert isinstance(settings, dict)
    return {str(key): value for key, value in settings.items()}, chosen
