"""Each setting by itself, against the constructor it is meant for: every fault, with the closest legal spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sentattn.config import parameters, types
from sentattn.config.arguments import LAST, Argument, Faults, closest
from sentattn.config.groups import QUIRKS, Choices, at, load
from sentattn.config.parameters import leaves, settable
from sentattn.config.schema import OWNED, TOP
from sentattn.config.targets import TARGET
from sentattn.config.types import as_typed
from sentattn.errors import Fault, SettingError, suggestion

MISSING = "???"
LONG = 20


@dataclass(frozen=True)
class Composition:
    """One set of settings under check, and what it came from, so that a message can begin with what was typed.

    Attributes:
        settings: The settings, references resolved.
        written: The settings, references as they were written.
        choices: Groups and choices.
        chosen: Which choice each group has.
        typed: What was typed.
        faults: Where faults go.
    """

    settings: Mapping[str, Any]
    written: Mapping[str, Any]
    choices: Choices
    chosen: Mapping[str, str]
    typed: Sequence[Argument]
    faults: Faults

    def fault(self, key: str, kind: str, message: str) -> None:
        """Adds a fault of a setting; its message begins with what was typed or with the file that brought it."""
        position = self.position(key)
        own = next((one for one in self.typed if one.position == position), None)
        value = at(self.settings, key)
        shown = str(own) if own else key if isinstance(value, Mapping) else f"{key}={as_typed(value)}"
        if not message.startswith(key):
            message = f"{shown}: {message}"
        origin = "" if own else self._origin(key)
        self.faults.add(Fault(key, kind, f"{origin}: {message}" if origin else message), position)

    def is_typed(self, key: str) -> bool:
        """Whether a setting was typed."""
        return any(one.key == key for one in self.typed)

    def position(self, key: str) -> int:
        """Where a setting, or one in it, was typed."""
        return min((one.position for one in self.typed if f"{one.key}.".startswith(f"{key}.")), default=LAST)

    def chosen_at(self, key: str) -> int:
        """Where the choice was typed that brought a setting."""
        groups = {one.key.replace("/", "."): one.position for one in self.typed if one.key in self.choices.groups()}
        return max((place for group, place in groups.items() if key.startswith(f"{group}.")), default=LAST)

    def _origin(self, key: str) -> str:
        """The quirks, the experiment or the file that brought a setting, or an empty string."""
        for group, shown in ((QUIRKS, "faithful=true"), ("experiment", f"experiment={self.chosen.get('experiment')}")):
            name = self.chosen.get(group)
            if name and at(self.choices.node(group, name), key) is not None:
                return shown
        parent, _, last = key.rpartition(".")
        group = parent.replace(".", "/")
        if group in self.chosen and last in self.choices.node(group, self.chosen[group]):
            return str(self.choices.file(group, self.chosen[group]))
        return ""


def check_settings(composition: Composition) -> None:
    """Checks each setting of a composition by itself."""
    for key, value in composition.settings.items():
        if key in composition.choices.groups():
            _node(composition, key, value)
        elif any(name == key or name.startswith(f"{key}.") for name in TOP):
            _top(composition, key, value)
        else:
            composition.fault(key, "unknown", f"there is no setting {key!r}.{_meant(composition, key)}")
    _require_choices(composition, "")


def _top(composition: Composition, key: str, value: Any) -> None:
    inner = [name for name in TOP if name.startswith(f"{key}.")]
    if key in TOP:
        _value(composition, key, TOP[key], value)
    elif not isinstance(value, Mapping):
        composition.fault(key, "type", f"{key} is no single value; set {', '.join(inner)}.")
    else:
        for last, one in value.items():
            path = f"{key}.{last}"
            if path in TOP:
                _value(composition, path, TOP[path], one)
            else:
                message = f"{key} has no {last!r}.{suggestion(path, inner)} There are {', '.join(inner)}."
                composition.fault(path, "unknown", message)


def _node(composition: Composition, path: str, node: Any) -> None:
    """Checks a node with a `_target_`, and those in it."""
    if not isinstance(node, Mapping) or TARGET not in node:
        how = f"choose with {path.replace('.', '/')}=NAME"
        composition.fault(path, "missing", f"{path} has no {TARGET}; {how}.")
        return
    try:
        signature = parameters.read(node[TARGET])
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
        elif key in signature.parameters:
            composition.fault(inner, "unsupported", f"{inner} is filled in when the model is built; leave it out.")
        else:
            _unknown(composition, path, key, legal)
    _require_choices(composition, f"{path}/")


def _argument(composition: Composition, path: str, kind: Any, value: Any) -> None:
    if value == MISSING:
        message = f"{path} has no value: type {path}=VALUE; it must be {types.words(kind)}."
        composition.faults.add(Fault(path, "missing", message), composition.chosen_at(path))
    elif isinstance(value, Mapping) and (TARGET in value or path.replace(".", "/") in composition.choices.groups()):
        _node(composition, path, value)
    else:
        _value(composition, path, kind, value)


def _value(composition: Composition, path: str, kind: Any, value: Any) -> None:
    if found := types.fault(path, kind, value):
        composition.fault(path, found.kind, found.message)


def _unknown(composition: Composition, path: str, key: str, legal: Mapping[str, Any]) -> None:
    group = path.replace(".", "/")
    owner = f"{group}={composition.chosen[group]}" if group in composition.chosen else path
    names = composition.choices.names(group)
    others = [f"{group}={name}" for name in names if key in _settings_of(composition.choices, group, name)]
    if others:
        have = "has it" if len(others) == 1 else "have it"
        message = f"{owner} has no {key!r}; {' and '.join(others)} {have}."
    else:
        near = closest(str(key), list(legal))
        close = f" Did you mean '{path}.{near}'?" if near else ""
        message = f"{owner} has no {key!r}.{close} It takes {_names(composition, path, legal)}."
    composition.fault(f"{path}.{key}", "unknown", message)


def _names(composition: Composition, path: str, legal: Mapping[str, Any]) -> str:
    usual = [name for name in at(composition.settings, path) if name in legal]
    more = len(legal) - len(usual)
    shown = f"{', '.join(usual)} and {more} more" if more and len(legal) > LONG else ", ".join(legal)
    return shown or "no settings"


def _settings_of(choices: Choices, group: str, name: str) -> Mapping[str, Any]:
    node = choices.node(group, name)
    try:
        return settable(group.replace("/", "."), node[TARGET], node) if TARGET in node else {}
    except SettingError:
        return {}


def _declared(composition: Composition, path: str) -> Mapping[str, Any]:
    """What the YAML file of a node's choice says: a required argument that it leaves out is filled in."""
    group, choices = path.replace(".", "/"), composition.choices
    base = at(load(choices.folders[0] / "train.yaml"), path)
    own = choices.node(group, composition.chosen[group]) if group in composition.chosen else {}
    nested = {inner.rpartition("/")[2]: None for inner in choices.groups() if inner.startswith(f"{group}/")}
    return {**nested, **(base if isinstance(base, Mapping) else {}), **own}


def _require_choices(composition: Composition, prefix: str) -> None:
    for group in composition.choices.groups():
        inside = group.startswith(prefix) and "/" not in group.removeprefix(prefix)
        path = group.replace("/", ".")
        if inside and group != "experiment" and at(composition.settings, path) is None:
            names = ", ".join(composition.choices.names(group))
            composition.fault(path, "missing", f"{path} is not chosen: type {group}=NAME, one of {names}.")


def _meant(composition: Composition, key: str) -> str:
    """The closest spelling of a whole key, or of its last part (`hops` for `model.attention.hops`)."""
    word = next((one.key for one in composition.typed if one.key.partition(".")[0] == key), key)
    paths = [*leaves(composition.settings), *TOP]
    same = [path for path in paths if path.rpartition(".")[2] == word]
    if same:
        return f" Did you mean {' or '.join(map(repr, same))}?"
    last = {path.rpartition(".")[2]: path for path in reversed(paths)}
    legal = [group for group in composition.choices.groups() if "/" not in group] + list(TOP)
    near = closest(word, [*legal, *paths]) or last.get(closest(word, list(last), cutoff=0.75))
    return f" Did you mean {near!r}?" if near else f" At the top there are {', '.join(legal)}."
