"""The check of a component of a sweep: a sampler, a pruner or an engine, by name and with its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sentattn.config import types
from sentattn.errors import Fault, suggestion


def check_component(
    kind: str, component: Mapping[str, Any], table: Mapping[str, Callable[[], Mapping[str, Any]]]
) -> list[Fault]:
    """Returns what is wrong with the name and the settings of a component.

    Args:
        kind: What messages call it, such as `sampler`.
        component: Its name under `name`, and its settings.
        table: By name, what returns the types of its settings.
    """
    name = component["name"]
    if name not in table:
        text = types.as_typed(name)
        message = f"{kind}={text}: there is no {kind} {text!r}.{suggestion(text, table)} There are {', '.join(table)}."
        return [Fault(kind, "unknown", message)]
    legal = table[name]()
    faults = []
    for key in (key for key in component if key != "name"):
        if key not in legal:
            names = ", ".join(legal) or "no settings"
            message = f"{kind}.{key}: {kind}={name} has no {key!r}.{suggestion(key, legal)} It has {names}."
            faults.append(Fault(f"{kind}.{key}", "unknown", message))
        elif fault := types.fault(f"{kind}.{key}", legal[key], component[key]):
            faults.append(fault)
    return faults
