"""Optuna's samplers and pruners by name: what each takes, read from its constructor, and what it needs."""

from __future__ import annotations

import importlib.util
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optuna.exceptions import ExperimentalWarning

from sentattn.config import types
from sentattn.errors import suggestion

TYPED = {"int", "float", "str", "bool", "None"}
"""Types that can be typed; an argument of any other is no setting."""


@dataclass(frozen=True)
class Component:
    """A sampler or a pruner.

    Attributes:
        make: Optuna's class.
        defaults: Our own, where they differ from Optuna's.
        unless: Defaults that are left out where another setting has a value: by their name, that setting and value.
        packages: What it needs and Optuna does not bring.
        named: Arguments that are objects in Optuna and names here: annotation and what makes the object.
    """

    make: Callable[..., Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    unless: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    packages: Sequence[str] = ()
    named: Mapping[str, tuple[str, Callable[[Any], Any]]] = field(default_factory=dict)

    def settings(self) -> dict[str, str]:
        """Returns what can be set, with annotations as in `sentattn.config.types`."""
        arguments = inspect.signature(self.make).parameters.values()
        annotations = {a.name: inspect.formatannotation(a.annotation).strip("'") for a in arguments}
        plain = {name: text for name, text in annotations.items() if name != "seed" and _is_typed(text)}
        return plain | {name: annotation for name, (annotation, _) in self.named.items()}

    def build(self, given: Mapping[str, Any], **filled: Any) -> Any:
        """Returns Optuna's object; what Optuna calls experimental is not told again with every study."""
        left_out = [name for name, (other, value) in self.unless.items() if given.get(other) is value]
        defaults = {name: value for name, value in self.defaults.items() if name not in left_out}
        arguments = {**defaults, **given, **filled}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            warnings.simplefilter("ignore", FutureWarning)
            for name, (_, make) in self.named.items():
                if name in arguments:
                    arguments[name] = make(arguments[name])
            return self.make(**arguments)


def _is_typed(annotation: str) -> bool:
    return all(part.strip() in TYPED for part in annotation.split("|"))


def faults_of(kind: str, given: Mapping[str, Any], table: Mapping[str, Component]) -> list[str]:
    """Returns what is wrong with a sampler or a pruner by itself.

    Args:
        kind: `sampler` or `pruner`.
        given: Its name under `name`, and its settings.
        table: Those that there are.
    """
    name = given.get("name")
    there = f"There are {', '.join(table)}."
    if not isinstance(name, str) or name not in table:
        shown = types.given(name)
        return [f"{kind}={shown}: there is no {kind} {shown!r}.{suggestion(shown, table)} {there}"]
    component = table[name]
    legal = component.settings()
    settings = {key: value for key, value in given.items() if key != "name"}
    faults = []
    for key, value in settings.items():
        if key not in legal:
            takes = f"It takes {', '.join(legal)}." if legal else "It takes no settings."
            faults.append(f"{kind}.{key}: {kind}={name} has no {key!r}.{suggestion(key, legal)} {takes}")
        elif fault := types.fault(f"{kind}.{key}", legal[key], value):
            faults.append(fault)
    missing = [package for package in component.packages if importlib.util.find_spec(package) is None]
    if missing:
        faults.append(f"{kind}={name} needs {' and '.join(missing)}: pip install {' '.join(missing)}.")
    return faults or _refused(kind, name, component, settings)


def _refused(kind: str, name: str, component: Component, settings: Mapping[str, Any]) -> list[str]:
    """What Optuna itself refuses when it is given the settings."""
    needed = [
        argument.name
        for argument in inspect.signature(component.make).parameters.values()
        if argument.default is argument.empty
        and argument.name not in {*settings, *component.defaults}
        and (argument.name in component.settings())
    ]
    if needed:
        return [f"{kind}={name} needs {' and '.join(f'{kind}.{key}=VALUE' for key in needed)}."]
    try:
        component.build(settings)
    except (TypeError, ValueError) as error:
        typed = " ".join(f"{kind}.{key}={types.given(value)}" for key, value in settings.items())
        return [f"{kind}={name} {typed}: {' '.join(str(error).replace('`', '').split()).rstrip('.')}."]
    return []
