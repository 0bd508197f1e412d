"""Which settings there are: the arguments of the constructors that are nobody's to fill in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sentattn.config import signatures
from sentattn.config.groups import at
from sentattn.config.schema import OWNED, TOP, stricter
from sentattn.config.signatures import Signature
from sentattn.errors import SettingError

TARGET = "_target_"


def settable(path: str, target: str, signature: Signature, declared: Mapping[str, Any]) -> dict[str, str]:
    """Returns the arguments that are settings, with their annotations: those with a default or a line in the YAML."""
    return {
        name: stricter(target, name) or argument.annotation
        for name, argument in signature.arguments.items()
        if (not argument.required or name in declared) and f"{path}.{name}" not in OWNED
    }


def leaves(settings: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yields the dotted paths of all settings."""
    for key, value in settings.items():
        inner = f"{path}.{key}" if path else key
        if isinstance(value, Mapping) and TARGET in value:
            try:
                arguments = signatures.read(value[TARGET]).arguments
            except SettingError:
                arguments = {}
            taken = [name for name, a in arguments.items() if name not in value and not a.required]
            yield from (f"{inner}.{name}" for name in taken if f"{inner}.{name}" not in OWNED)
            yield from leaves(value, inner)
        elif path and key != TARGET:
            yield inner


def annotation(settings: Mapping[str, Any], path: str) -> str | None:
    """Returns what annotates the setting at a dotted path, or None where nothing is known of it."""
    if path in TOP:
        return TOP[path]
    parent, _, key = path.rpartition(".")
    node = at(settings, parent) if parent else None
    if not isinstance(node, Mapping) or TARGET not in node:
        return None
    try:
        argument = signatures.read(node[TARGET]).arguments.get(key)
    except SettingError:
        return None
    return (stricter(node[TARGET], key) or argument.annotation) if argument else None
