"""Checks each setting by itself against its constructor, and reports every fault with the closest legal spelling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sentattn.config import types
from sentattn.config.arguments import LAST, Argument, Faults, closest
from sentattn.config.groups import Choices, get_path, load
from sentattn.config.parameters import known, leaves, read, settable
from sentattn.config.schema import COMMAND_KEYS, OWNED, TOP
from sentattn.config.targets import TARGET
from sentattn.config.types import Kind, Node, Tree
from sentattn.errors import Fault, SettingError

MISSING = "???"
OPTIONAL = ("experiment", "model/wide")
"""Groups that need no choice."""
LONG = 20
"""Above this number of legal names a message lists those in the YAML file only."""


@dataclass
class Composition:
    """Settings under check, and where they came from, so that a message can begin with the argument or the file.

    Attributes:
        choices: The configuration folders.
        typed: The arguments.
        faults: Faults so far.
        chosen: The choice of each group.
        named: Choices of a user's folder, whose names a run keeps.
        saved: Saved settings, before arguments are applied.
        written: The settings with unresolved references.
        settings: The settings with resolved references.
    """

    choices: Choices
    typed: Sequence[Argument]
    faults: Faults
    chosen: dict[str, str] = field(default_factory=dict)
    saved: Tree = field(default_factory=dict)
    written: Tree = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    settings: Tree = field(default_factory=dict)

    def value(self, path: str) -> Any:
        """Returns the value of a setting, or None."""
        return get_path(self.settings, path)

    def fault(self, key: str, kind: str, message: str) -> None:
        """Adds a fault of a setting; its message begins with the argument or the choice that the setting came from."""
        position = self.position(key)
        typed = next((str(argument) for argument in self.typed if argument.position == position), "")
        message = message if message.startswith(key) else f"{typed or key}: {message}"
        origin = "" if typed else self._origin(key)
        self.faults.add(Fault(key, kind, f"{origin}: {message}" if origin else message), position)

    def refuse(self, argument: Argument, kind: str, message: str) -> None:
        """Adds a fault of an argument."""
        self.faults.add(Fault(argument.key, kind, message), argument.position)

    def is_typed(self, key: str) -> bool:
        """Returns whether a setting was typed."""
        return any(argument.key == key for argument in self.typed)

    def position(self, *keys: str) -> int:
        """Returns the place of the first argument that sets one of these settings, or a setting inside them."""
        inside = tuple(f"{key}." for key in keys)
        return min(
            (argument.position for argument in self.typed if f"{argument.key}.".startswith(inside)), default=LAST
        )

    def _origin(self, key: str) -> str:
        """Returns the experiment or the choice that sets a setting, or an empty string."""
        parent, _, last = key.rpartition(".")
        for group, path in (("experiment", key), (parent.replace(".", "/"), last)):
            name = self.chosen.get(group)
            if name and get_path(self.choices.node(group, name), path) is not None:
                return f"{group}={name}"
        return ""


def check_settings(composition: Composition) -> None:
    """Checks each setting of a composition by itself."""
    for key, value in composition.settings.items():
        if key in composition.choices.groups():
            _node(composition, key, value)
            continue
        for path, leaf in flat(value, key):
            if path in TOP:
                _value(composition, path, TOP[path], leaf)
            else:
                composition.fault(path, "unknown", f"there is no setting {path!r}.{_meant(composition, path)}")
    _require_choices(composition, "")
    for path in ("data.name", "model.name"):  # folders of a run have these names
        if wrong := types.name_fault(path, composition.value(path)):
            composition.fault(path, wrong.kind, wrong.message)


def flat(value: object, path: str) -> Iterator[tuple[str, Any]]:
    """Yields the dotted path and the value of each leaf of nested mappings; an empty mapping is a leaf."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _node(composition: Composition, path: str, node: object) -> None:
    """Checks a node with a `_target_`, and the nodes in it."""
    if not isinstance(node, Mapping) or TARGET not in node:
        composition.fault(path, "missing", f"{path} has no {TARGET}: choose with {path.replace('.', '/')}=NAME.")
        return
    if not isinstance(node[TARGET], str):
        composition.fault(path, "type", f"{path}.{TARGET} must be the path of a class, got {node[TARGET]!r}.")
        return
    try:
        signature = read(node[TARGET])
    except SettingError as error:
        composition.fault(path, error.faults[0].kind, f"{path}: {error}")
        return
    legal = settable(path, node[TARGET], _declared(composition, path))
    for key, value in node.items():
        inner = f"{path}.{key}"
        if inner in OWNED:
            composition.fault(inner, "unsupported", f"sentattn sets {inner} itself; {OWNED[inner]}.")
        elif key in legal or key == TARGET or (signature.open and key not in signature.parameters):
            _argument(composition, inner, legal.get(key, Any), value)
        elif inner.replace(".", "/") in composition.choices.groups():
            _argument(composition, inner, Any, value)
        elif key in signature.parameters:
            composition.fault(inner, "unsupported", f"{inner} is filled in when the model is built; leave it out.")
        else:
            _unknown(composition, path, key, legal)
    _require_choices(composition, f"{path}/")


def _argument(composition: Composition, path: str, kind: Kind, value: object) -> None:
    if value == MISSING:
        groups = [
            argument.position for argument in composition.typed if path.startswith(f"{argument.key.replace('/', '.')}.")
        ]
        message = f"{path} has no value: type {path}=VALUE; it must be {types.describe_type(kind)}."
        composition.faults.add(Fault(path, "missing", message), max(groups, default=LAST))
    elif (isinstance(value, Mapping) and TARGET in value) or (
        value is not None and path.replace(".", "/") in composition.choices.groups()
    ):
        _node(composition, path, value)
    else:
        _value(composition, path, kind, value)


def _value(composition: Composition, path: str, kind: Kind, value: object) -> None:
    if wrong := types.fault(path, kind, value):
        composition.fault(path, wrong.kind, wrong.message)


def _unknown(composition: Composition, path: str, key: str, legal: Mapping[str, Kind]) -> None:
    group, choices = path.replace(".", "/"), composition.choices
    owner = f"{group}={composition.chosen[group]}" if group in composition.chosen else path
    nodes = {f"{group}={name}": choices.node(group, name) for name in choices.names(group)}
    others = [choice for choice, node in nodes.items() if key in known(node).parameters]
    usual = [name for name in composition.value(path) if name in legal]
    near = closest(str(key), list(legal))
    if others:
        hint = f" It belongs to {' and '.join(others)}."
    else:
        takes = ", ".join(usual if len(legal) > LONG else legal) or "no settings"
        hint = (f" Did you mean '{path}.{near}'?" if near else "") + f" It takes {takes}."
    composition.fault(f"{path}.{key}", "unknown", f"{owner} has no {key!r}.{hint}")


def _declared(composition: Composition, path: str) -> Node:
    """Returns what the YAML file of a node's choice sets, or a saved node whose file is not known.

    `build` fills in the required arguments that are not among it.
    """
    group, choices = path.replace(".", "/"), composition.choices
    base = get_path(load(choices.folders[0] / "train.yaml"), path)
    chosen = composition.chosen.get(group)
    own = choices.node(group, chosen) if chosen else get_path(composition.saved, path) or {}
    nested = {inner.rpartition("/")[2]: None for inner in choices.groups() if inner.startswith(f"{group}/")}
    return {**nested, **(base if isinstance(base, Mapping) else {}), **own}


def _require_choices(composition: Composition, prefix: str) -> None:
    for group in composition.choices.groups():
        inside = group.startswith(prefix) and "/" not in group.removeprefix(prefix)
        path = group.replace("/", ".")
        if inside and group not in OPTIONAL and composition.value(path) is None:
            names = ", ".join(composition.choices.names(group))
            composition.fault(path, "missing", f"{path} is not chosen: type {group}=NAME, one of {names}.")


def _meant(composition: Composition, word: str) -> str:
    """Returns the closest spelling of a whole key, or of its last part (`hops` for `model.attention.hops`)."""
    top = [group for group in composition.choices.groups() if "/" not in group] + [*TOP, *COMMAND_KEYS]
    paths = [path for path in leaves(composition.settings) if path != word]
    last = {path.rpartition(".")[2]: path for path in reversed([*paths, *TOP])}
    near = last.get(word) or closest(word, [*top, *paths]) or last.get(closest(word, list(last), cutoff=0.75))
    return f" Did you mean {near!r}?" if near else f" At the top there are {', '.join(top)}."
