"""Which engine runs the trials, and its settings."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from sentattn.errors import Fault
from sentattn.sweep.components import check_component

LOCAL, RAY, AUTO = "local", "ray", "auto"
SETTINGS: dict[str, dict[str, Any]] = {LOCAL: {}, RAY: {"address": str, "collect": bool}}
"""Types of the settings of each engine."""
DEFAULTS: dict[str, dict[str, Any]] = {LOCAL: {}, RAY: {"address": AUTO, "collect": False}}
ADDRESS = re.compile(r"[^\s/]+:\d{1,5}")


def read_engine(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    """Returns the engine that settings describe, under `name` with all its settings, and what is wrong with it."""
    name = settings.get("name", LOCAL)
    if name == LOCAL and (elsewhere := [key for key in settings if key in SETTINGS[RAY]]):
        words = " ".join(f"engine.{key}" for key in elsewhere)
        message = f"{words} has an effect with engine=ray only: type engine=ray, or leave {words} out."
        return {"name": LOCAL}, [Fault(f"engine.{elsewhere[0]}", "no_effect", message)]
    engine = {"name": name, **DEFAULTS.get(name, {}), **settings}
    faults = check_component("engine", engine, {one: partial(dict, legal) for one, legal in SETTINGS.items()})
    if name == RAY and not faults:
        address = engine["address"]
        if address != AUTO and not ADDRESS.fullmatch(address):
            message = f"engine.address must be auto or HOST:PORT of the cluster's head, got {address}."
            faults.append(Fault("engine.address", "range", message))
        if importlib.util.find_spec("ray") is None:
            message = 'engine=ray needs Ray: type pip install "sentattn[ray]".'
            faults.append(Fault("engine", "package", message))
    return engine, faults
