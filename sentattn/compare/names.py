"""Names of the settings of a comparison: the variant, and the values in which it differs from the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentattn.config.schema import ADDED_LATER, counts
from sentattn.config.targets import TARGET, label
from sentattn.config.types import as_typed

VECTORS = "data.vectors"
"""Part of the hash of a setting by content, and so excluded by `counts`."""


def names(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the label of each setting, with the values in which settings of a label differ; references with all."""
    labels = list(map(label, settings))
    flat = [dict(_flat(of_run)) for of_run in settings]
    result = []
    for name, values in zip(labels, flat, strict=True):
        others = [other for other_name, other in zip(labels, flat, strict=True) if other_name == name]
        is_reference = not any(key.startswith("model.attention.") for key in values)
        differing = [
            key
            for key, value in values.items()
            if any(other.get(key, ADDED_LATER.get(key, (value,))[0]) != value for other in others)
            or (is_reference and key.startswith("model.") and key != "model.name")
        ]
        words = [_as_typed(key, values[key]) for key in differing]
        result.append("; ".join([name, *([", ".join(words)] if words else [])]))
    return result


def _as_typed(key: str, value: Any) -> str:
    """Returns a setting as it would be typed, without `model.`, numbers rounded; a class by its last name."""
    text = f"{value:.4g}" if isinstance(value, float) else as_typed(value)
    is_class = key.endswith(f".{TARGET}")
    key, text = (key.removesuffix(f".{TARGET}"), text.rpartition(".")[2]) if is_class else (key, text)
    return f"{key.removeprefix('model.')}={text}"


def _flat(settings: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the settings that can change a result, by dotted key; word vectors by the name of their file."""
    for key, value in settings.items():
        inner = f"{path}.{key}" if path else key
        if inner == VECTORS:
            yield inner, value and Path(value).name
        elif not counts(inner, value):
            continue
        elif isinstance(value, Mapping):
            yield from _flat(value, inner)
        else:
            yield inner, value


def rest(settings: Mapping[str, Any], without: Sequence[str]) -> dict[str, Any]:
    """Returns the settings that can change a result, by dotted key, without those whose keys have some prefixes."""
    return {key: value for key, value in _flat(settings) if not key.startswith(tuple(without))}
