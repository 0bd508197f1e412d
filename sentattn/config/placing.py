"""Typed values in their places, and references resolved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sentattn.config import types
from sentattn.config.arguments import Faults, Typed
from sentattn.config.groups import Choices
from sentattn.config.schema import RAW
from sentattn.config.settable import annotation
from sentattn.errors import SettingError

NOT_A_REFERENCE = "$\x00{"
"""Stands for the beginning of a reference in texts that hold none."""


def laid(
    settings: dict[str, Any], values: Sequence[Typed], choices: Choices, faults: Faults
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Lays typed values over settings: the settings with references resolved, and as they were written.

    A reference follows what was typed. Texts and paths are laid on last, since they hold no references.
    """
    _place(settings, [t for t in values if t.key not in RAW], choices, faults)
    resolved = _resolved(settings)
    _place(resolved, [t for t in values if t.key in RAW], choices, faults)
    return resolved, settings


def _place(settings: dict[str, Any], values: Sequence[Typed], choices: Choices, faults: Faults) -> None:
    """Puts typed values where they belong. Unknown keys are placed as well: the check finds and names them."""
    for one in values:
        try:
            put(settings, _as_annotated(settings, one), choices)
        except SettingError as error:
            faults.add(str(error), one.position)


def _as_annotated(settings: Mapping[str, Any], one: Typed) -> Typed:
    """Takes the text itself where only a text is legal: `group=2026` is a name, not a number."""
    kind = annotation(settings, one.key)
    if kind is None:
        return one
    words, fits = types.legal(kind)
    if not one.text:
        raise SettingError(f"{one} has no value: type {one.key}=VALUE; it takes {words}.")
    if one.key in RAW and one.text == "null" and fits(None):
        return replace(one, value=None)
    return replace(one, value=one.text) if not fits(one.value) and fits(one.text) else one


def put(settings: dict[str, Any], one: Typed, choices: Choices) -> None:
    """Puts a typed value in its place.

    Raises:
        SettingError: If its place is none for a value.
    """
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


def literal(value: Any, sign: str = "${", other: str = NOT_A_REFERENCE) -> Any:
    """Returns settings in which texts are never references; `_resolved` restores them.

    Loaded settings are resolved already: `${oc.env:HOME}` in them is a text like any other.
    """
    if isinstance(value, Mapping):
        return {key: literal(inner, sign, other) for key, inner in value.items()}
    if isinstance(value, list):
        return [literal(item, sign, other) for item in value]
    return value.replace(sign, other) if isinstance(value, str) else value


def _resolved(settings: Mapping[str, Any]) -> dict[str, Any]:
    try:
        resolved = OmegaConf.to_container(OmegaConf.create(dict(settings)), resolve=True)
        resolved = literal(resolved, NOT_A_REFERENCE, "${")
    except OmegaConfBaseException as error:
        raise SettingError(f"A reference in the configuration leads nowhere: {first_line(error)}") from error
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items()}


def first_line(error: Exception) -> str:
    """Returns the first line of an error, as a sentence."""
    return f"{str(error).strip().splitlines()[0].rstrip('.')}."
