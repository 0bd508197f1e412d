"""Each setting by itself, against the constructor it is meant for: every fault, with the closest legal spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sentattn.config import signatures, types
from sentattn.config.arguments import closest
from sentattn.config.composition import Composition
from sentattn.config.groups import at, load
from sentattn.config.schema import OWNED, TOP
from sentattn.config.settable import TARGET, leaves, settable
from sentattn.errors import SettingError, suggestion

MISSING = "???"
LONG = 20


class Check:
    """Checks each setting of a composition by itself."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        self.settings = composition.settings
        self.choices = composition.choices
        self.chosen = composition.chosen

    def run(self) -> None:
        """Checks everything; the composition takes in the faults."""
        for key, value in self.settings.items():
            if key in self.choices.groups():
                self._node(key, value)
            elif any(name == key or name.startswith(f"{key}.") for name in TOP):
                self._top(key, value)
            else:
                self.composition.fault(key, f"there is no setting {key!r}.{self._meant(key)}")
        self._groups_chosen("")

    def _top(self, key: str, value: Any) -> None:
        if key in TOP:
            self._kind(key, TOP[key], value)
            return
        parts = [name for name in TOP if name.startswith(f"{key}.")]
        if not isinstance(value, Mapping):
            self.composition.fault(key, f"{key} is no single value; set {', '.join(parts)}.")
            return
        for part, inner in value.items():
            if f"{key}.{part}" in TOP:
                self._kind(f"{key}.{part}", TOP[f"{key}.{part}"], inner)
            else:
                close = suggestion(f"{key}.{part}", parts)
                self.composition.fault(f"{key}.{part}", f"{key} has no {part!r}.{close} There are {', '.join(parts)}.")

    def _node(self, path: str, node: Any) -> None:
        """Checks a node with a `_target_`, and those in it."""
        if not isinstance(node, Mapping) or TARGET not in node:
            self.composition.fault(path, f"{path} has no {TARGET}; choose with {path.replace('.', '/')}=NAME.")
            return
        try:
            signature = signatures.read(node[TARGET])
        except SettingError as error:
            self.composition.fault(path, f"{path}: {error}")
            return
        legal = settable(path, node[TARGET], signature, self._declared(path))
        for key, value in node.items():
            inner = f"{path}.{key}"
            if inner in OWNED:
                self.composition.fault(inner, f"sentattn sets {inner} itself; {OWNED[inner]}.")
            elif key in legal or key == TARGET or (signature.open and key not in signature.arguments):
                self._argument(inner, legal.get(key, "Any"), value)
            elif key in signature.arguments:
                self.composition.fault(inner, f"{inner} is filled in when the parts are put together; leave it out.")
            else:
                self._unknown(path, key, legal)
        self._groups_chosen(f"{path}/")

    def _argument(self, path: str, annotation: str, value: Any) -> None:
        if value == MISSING:
            sentence = f"{path} has no value: type {path}=VALUE; it takes {types.legal(annotation)[0]}."
            self.composition.faults.add(sentence, self.composition.chosen_at(path))
        elif isinstance(value, Mapping) and (TARGET in value or path.replace(".", "/") in self.choices.groups()):
            self._node(path, value)
        else:
            self._kind(path, annotation, value)

    def _kind(self, path: str, annotation: str, value: Any) -> None:
        if sentence := types.fault(path, annotation, value):
            self.composition.fault(path, sentence)

    def _unknown(self, path: str, key: str, legal: Mapping[str, str]) -> None:
        group = path.replace(".", "/")
        owner = f"{group}={self.chosen[group]}" if group in self.chosen else path
        others = [f"{group}={name}" for name in self.choices.names(group) if key in self._settable(group, name)]
        if others:
            self.composition.fault(f"{path}.{key}", f"{owner} has no {key!r}; {' and '.join(others)} {_has(others)}.")
            return
        near = closest(str(key), list(legal))
        close = f" Did you mean '{path}.{near}'?" if near else ""
        self.composition.fault(f"{path}.{key}", f"{owner} has no {key!r}.{close} It takes {self._names(path, legal)}.")

    def _names(self, path: str, legal: Mapping[str, str]) -> str:
        usual = [name for name in at(self.settings, path) if name in legal]
        if not legal:
            return "no settings"
        more = len(legal) - len(usual)
        return f"{', '.join(usual)} and {more} more" if more and len(legal) > LONG else ", ".join(legal)

    def _settable(self, group: str, name: str) -> Mapping[str, str]:
        node = self.choices.node(group, name)
        if TARGET not in node:
            return {}
        try:
            signature = signatures.read(node[TARGET])
        except SettingError:
            return {}
        return settable(group.replace("/", "."), node[TARGET], signature, node)

    def _declared(self, path: str) -> Mapping[str, Any]:
        """What the YAML file of a node's choice says: a required argument that it leaves out is filled in."""
        group = path.replace(".", "/")
        base = at(load(self.choices.folders[0] / "train.yaml"), path)
        own = self.choices.node(group, self.chosen[group]) if group in self.chosen else {}
        nested = {inner.rpartition("/")[2]: None for inner in self.choices.groups() if inner.startswith(f"{group}/")}
        return {**nested, **(base if isinstance(base, Mapping) else {}), **own}

    def _groups_chosen(self, prefix: str) -> None:
        for group in self.choices.groups():
            inside = group.startswith(prefix) and "/" not in group.removeprefix(prefix)
            if inside and group != "experiment" and at(self.settings, group.replace("/", ".")) is None:
                names = ", ".join(self.choices.names(group))
                self.composition.fault(
                    group.replace("/", "."), f"{group} is not chosen: type {group}=NAME, one of {names}."
                )

    def _meant(self, key: str) -> str:
        """The closest spelling of a whole key, or of its last part (`hops` for `model.attention.hops`)."""
        typed = next((t.key for t in self.composition.typed if t.key.partition(".")[0] == key), key)
        paths = [*leaves(self.settings), *TOP]
        same = [path for path in paths if path.rpartition(".")[2] == typed]
        if same:
            return f" Did you mean {' or '.join(map(repr, same))}?"
        last = {path.rpartition(".")[2]: path for path in reversed(paths)}
        legal = [group for group in self.choices.groups() if "/" not in group] + list(TOP)
        near = closest(typed, [*legal, *paths]) or last.get(closest(typed, list(last), cutoff=0.75))
        return f" Did you mean {near!r}?" if near else f" At the top there are {', '.join(legal)}."


def _has(names: Sequence[str]) -> str:
    return "has it" if len(names) == 1 else "have it"
