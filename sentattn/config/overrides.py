"""What was typed, laid over settings: choices of groups, values in their places, and references resolved."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sentattn.config import types
from sentattn.config.arguments import LAST, Argument, Faults, closest
from sentattn.config.groups import QUIRKS, Choices, at, defaults, load
from sentattn.config.parameters import type_of
from sentattn.config.schema import RAW
from sentattn.errors import DataError, Fault, SettingError, suggestion

NOT_A_REFERENCE = "$\x00{"
"""Stands for the beginning of a reference in texts that hold none."""
VECTORS, SIZE = "data.vectors", "model.embedding.size"


def pick(arguments: Sequence[Argument], choices: Choices, faults: Faults) -> tuple[dict[str, str], list[Argument]]:
    """Splits choices of groups from values; a misspelt choice becomes the closest, so that the rest can be checked."""
    picks: dict[str, str] = {}
    values: list[Argument] = []
    unsure: list[str] = []
    for one in arguments:
        group, name = one.key, one.value if isinstance(one.value, str) else one.text
        if group.replace("/", ".").partition(".")[0] == QUIRKS:
            message = f"{one}: quirks are not chosen by name; type faithful=true."
            faults.add(Fault(group, "unsupported", message), one.position)
            continue
        if group not in choices.groups():
            close = closest(group, choices.groups())
            if "/" not in group and not (close and name in choices.names(close)):
                values.append(one)
                continue
            faults.add(Fault(group, "unknown", _no_group(one, close, choices)), one.position)
            group = close
        elif name not in choices.names(group) and not (one.value is None and _optional(group, choices)):
            faults.add(_no_choice(one, choices), one.position)
        if group and (near := closest(name, choices.names(group))):
            picks[group] = near
        elif group and one.value is not None:
            unsure.append(group.replace("/", "."))
    return picks, [one for one in values if not any(one.key.startswith(f"{path}.") for path in unsure)]


def _optional(group: str, choices: Choices) -> bool:
    listed = defaults(load(choices.folders[0] / "train.yaml"))
    return group in listed and listed[group] is None


def _no_group(one: Argument, close: str, choices: Choices) -> str:
    if one.key.replace(".", "/") == close:
        return f"{one}: a choice is written with slashes; type {close}={one.text}."
    hint = f"Did you mean {close!r}?" if close else f"There are {', '.join(choices.groups())}."
    return f"{one}: there is no group {one.key!r}. {hint}"


def _no_choice(one: Argument, choices: Choices) -> Fault:
    names = choices.names(one.key)
    known = f"There {'is' if len(names) == 1 else 'are'} {', '.join(names)}." if names else "There are none yet."
    if not one.text:
        return Fault(one.key, "missing", f"{one} has no value: type {one.key}=NAME. {known}")
    close = suggestion(one.text, names)
    return Fault(one.key, "unknown", f"{one}: {one.key} has no choice {one.text!r}.{close} {known}")


def pick_quirks(
    picks: Mapping[str, str], values: Sequence[Argument], choices: Choices, faults: Faults
) -> dict[str, str]:
    """Returns the choice that `faithful=true` stands for: the quirks of the experiment, or else of the variant."""
    experiment = picks.get("experiment")
    listed = choices.node("experiment", experiment) if experiment else {}
    typed = next((one for one in values if one.key == "faithful"), None)
    if (typed.value if typed else listed.get("faithful")) is not True:
        return {}
    group = "experiment" if experiment else "model"
    name = experiment or picks.get("model") or str(defaults(load(choices.folders[0] / "train.yaml"))["model"])
    if name in choices.names(QUIRKS):
        return {QUIRKS: name}
    experiments = choices.names("experiment")
    known = [f"{'experiment' if one in experiments else 'model'}={one}" for one in choices.names(QUIRKS)]
    message = f"faithful=true: {group}={name} has no quirks to repeat; there are some for {', '.join(known)}."
    faults.add(Fault("faithful", "no_effect", message), typed.position if typed else LAST)
    return {}


def lay(
    settings: dict[str, Any], values: Sequence[Argument], choices: Choices, faults: Faults
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Lays typed values over settings: the settings with references resolved, and as they were written.

    A reference follows what was typed. Texts and paths come last, since they hold no references.
    """
    _place(settings, [one for one in values if one.key not in RAW], choices, faults)
    resolved = _resolve(settings)
    _place(resolved, [one for one in values if one.key in RAW], choices, faults)
    return resolved, settings


def _place(settings: dict[str, Any], values: Sequence[Argument], choices: Choices, faults: Faults) -> None:
    """Puts typed values where they belong. Unknown keys are placed as well: the check finds and names them."""
    for one in values:
        try:
            _put(settings, _fitting(settings, one), choices)
        except SettingError as error:
            faults.add(error.faults[0], one.position)


def _fitting(settings: Mapping[str, Any], one: Argument) -> Argument:
    """Takes the text itself where only a text is legal: `group=2026` is a name, not a number."""
    kind = type_of(settings, one.key)
    if kind is None:
        return one
    if not one.text:
        message = f"{one} has no value: type {one.key}=VALUE; it must be {types.words(kind)}."
        raise SettingError(Fault(one.key, "missing", message))
    if one.key in RAW and one.text == "null" and types.mismatch(kind, None) is None:
        return replace(one, value=None)
    is_text = types.mismatch(kind, one.value) is not None and types.mismatch(kind, one.text) is None
    return replace(one, value=one.text) if is_text else one


def _put(settings: dict[str, Any], one: Argument, choices: Choices) -> None:
    """Puts a typed value in its place.

    Raises:
        SettingError: If its place is none for a value.
    """
    *parents, last = one.key.split(".")
    if last.startswith("_"):
        message = f"{one}: {last} is not set by hand; choose with {'/'.join(parents)}=NAME."
        raise SettingError(Fault(one.key, "unsupported", message))
    node: Any = settings
    for depth, parent in enumerate(parents, start=1):
        node = node.setdefault(parent, {})
        if not isinstance(node, dict):
            message = f"{one}: {'.'.join(parents[:depth])} is one value, without settings in it."
            raise SettingError(Fault(one.key, "unknown", message))
    if isinstance(node.get(last), dict):
        group = one.key.replace(".", "/")
        inner = [f"{one.key}.{key}" for key in node[last] if not key.startswith("_")]
        how = f"choose with {group}=NAME" if group in choices.groups() else f"set {', '.join(inner)}"
        raise SettingError(Fault(one.key, "type", f"{one}: {one.key} is no single value; {how}."))
    node[last] = one.value


def literal(value: Any, sign: str = "${", other: str = NOT_A_REFERENCE) -> Any:
    """Returns settings in which texts are never references; `lay` restores them.

    Loaded settings are resolved already: `${oc.env:HOME}` in them is a text like any other.
    """
    if isinstance(value, Mapping):
        return {key: literal(inner, sign, other) for key, inner in value.items()}
    if isinstance(value, list):
        return [literal(item, sign, other) for item in value]
    return value.replace(sign, other) if isinstance(value, str) else value


def _resolve(settings: Mapping[str, Any]) -> dict[str, Any]:
    try:
        resolved = OmegaConf.to_container(OmegaConf.create(dict(settings)), resolve=True)
    except OmegaConfBaseException as error:
        message = f"A reference in the configuration cannot be resolved: {first_line(error)}"
        raise SettingError(Fault("", "not_found", message)) from error
    return {str(key): value for key, value in literal(resolved, NOT_A_REFERENCE, "${").items()}


def first_line(error: Exception) -> str:
    """Returns the first line of an error, with a full stop."""
    return f"{str(error).strip().splitlines()[0].rstrip('.')}."


def with_size(settings: dict[str, Any], values: Sequence[Argument], choices: Choices, faults: Faults) -> list[Argument]:
    """Returns the typed values and, before them, the size of the words where they start from vectors.

    Another size that was typed, and vectors that are missing, are faults.
    """
    typed = {one.key: one for one in values}
    if VECTORS not in typed and at(settings, VECTORS) is None:
        return list(values)
    resolved, _ = lay(copy.deepcopy(settings), values, choices, Faults())
    vectors, position = at(resolved, VECTORS), typed[VECTORS].position if VECTORS in typed else LAST
    if not isinstance(vectors, str):
        return list(values)
    if type_of(resolved, SIZE) is None:
        message = f"{VECTORS}={vectors}: the words of this model/embedding have no size to take it from."
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
