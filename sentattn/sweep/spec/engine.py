"""Which engine runs the trials, and its settings."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from typing import Any

from sentattn.config.types import as_typed
from sentattn.errors import Fault, suggestion

LOCAL, RAY, AUTO = "local", "ray", "auto"
ADDRESS = re.compile(r"[^\s/]+:\d{1,5}")


def read_engine(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    """Returns the engine that settings describe, under `name` with all its settings, and what is wrong with it."""
    name, address = as_typed(settings.get("name", LOCAL)), as_typed(settings.get("address", AUTO))
    faults = []
    if name not in (LOCAL, RAY):
        close = suggestion(name, (LOCAL, RAY))
        faults.append(Fault("engine", "unknown", f"engine={name}: there is no engine {name!r}.{close}"))
    for key in settings.keys() - {"name", "address"}:
        close = suggestion(key, ("address",))
        faults.append(Fault(f"engine.{key}", "unknown", f"engine.{key}: there is no such setting.{close}"))
    if name == LOCAL and "address" in settings:
        message = "engine.address has an effect with engine=ray only: type engine=ray, or leave engine.address out."
        faults.append(Fault("engine.address", "no_effect", message))
    if name != RAY:
        return {"name": LOCAL}, faults
    if address != AUTO and not ADDRESS.fullmatch(address):
        message = f"engine.address must be auto or HOST:PORT of the cluster's head, got {address}."
        faults.append(Fault("engine.address", "range", message))
    if importlib.util.find_spec("ray") is None:
        faults.append(Fault("engine", "package", 'engine=ray needs Ray: type pip install "sentattn[ray]".'))
    return {"name": name, "address": address}, faults
