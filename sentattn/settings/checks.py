"""Composed settings against the constructors they are meant for: every fault, with the closest legal spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sentattn import kinds
from sentattn.errors import SettingError, suggestion
from sentattn.kinds import given
from sentattn.settings import signatures
from sentattn.settings.arguments import LAST, Faults, Typed, closest
from sentattn.settings.choices import Choices, at, load
from sentattn.settings.schema import BETTER, OWNED, TOP
from sentattn.settings.settable import TARGET, leaves, settable

MISSING = "???"
LONG = 20


@dataclass(frozen=True)
class Check:
    """Checks one set of settings.

    Args:
        settings: The settings, references resolved.
        choices: Groups and choices.
        chosen: Which choice each group has.
        typed: What was typed.
        faults: Where faults go.
    """

    settings: Mapping[str, Any]
    choices: Choices
    chosen: Mapping[str, str]
    typed: Sequence[Typed]
    faults: Faults

    def run(self) -> None:
        """Checks everything."""
        for key, value in self.settings.items():
            if key in self.choices.groups():
                self._node(key, value)
            elif any(name == key or name.startswith(f"{key}.") for name in TOP):
                self._top(key, value)
            else:
                self._fault(key, f"there is no setting {key!r}.{self._meant(key)}")
        self._groups_chosen("")
        self._penalty()
        self._objective()

    def _top(self, key: str, value: Any) -> None:
        if key in TOP:
            self._kind(key, TOP[key], value)
            return
        parts = [name for name in TOP if name.startswith(f"{key}.")]
        if not isinstance(value, Mapping):
            self._fault(key, f"{key} is no single value; set {', '.join(parts)}.")
            return
        for part, inner in value.items():
            if f"{key}.{part}" in TOP:
                self._kind(f"{key}.{part}", TOP[f"{key}.{part}"], inner)
            else:
                close = suggestion(f"{key}.{part}", parts)
                self._fault(f"{key}.{part}", f"{key} has no {part!r}.{close} There are {', '.join(parts)}.")

    def _node(self, path: str, node: Any) -> None:
        """Checks a node with a `_target_`, and those in it."""
        if not isinstance(node, Mapping) or TARGET not in node:
            self._fault(path, f"{path} has no {TARGET}; choose with {path.replace('.', '/')}=NAME.")
            return
        try:
            signature = signatures.read(node[TARGET])
        except SettingError as error:
            self._fault(path, f"{path}: {error}")
            return
        legal = settable(path, node[TARGET], signature, self._declared(path))
        for key, value in node.items():
            inner = f"{path}.{key}"
            if inner in OWNED:
                self._fault(inner, f"sentattn sets {inner} itself; {OWNED[inner]}.")
            elif key in legal or key == TARGET or (signature.open and key not in signature.arguments):
                self._argument(inner, legal.get(key, "Any"), value)
            elif key in signature.arguments:
                self._fault(inner, f"{inner} is filled in when the parts are put together; leave it out.")
            else:
                self._unknown(path, key, legal)
        self._groups_chosen(f"{path}/")

    def _argument(self, path: str, annotation: str, value: Any) -> None:
        if value == MISSING:
            sentence = f"{path} has no value: type {path}=VALUE; it takes {kinds.legal(annotation)[0]}."
            self.faults.add(sentence, self._chosen_at(path))
        elif isinstance(value, Mapping) and (TARGET in value or path.replace(".", "/") in self.choices.groups()):
            self._node(path, value)
        else:
            self._kind(path, annotation, value)

    def _kind(self, path: str, annotation: str, value: Any) -> None:
        if sentence := kinds.fault(path, annotation, value):
            self._fault(path, sentence)

    def _unknown(self, path: str, key: str, legal: Mapping[str, str]) -> None:
        group = path.replace(".", "/")
        owner = f"{group}={self.chosen[group]}" if group in self.chosen else path
        others = [f"{group}={name}" for name in self.choices.names(group) if key in self._settable(group, name)]
        if others:
            self._fault(f"{path}.{key}", f"{owner} has no {key!r}; {' and '.join(others)} {_has(others)}.")
            return
        near = closest(str(key), list(legal))
        close = f" Did you mean '{path}.{near}'?" if near else ""
        self._fault(f"{path}.{key}", f"{owner} has no {key!r}.{close} It takes {self._names(path, legal)}.")

    def _names(self, path: str, legal: Mapping[str, str]) -> str:
        usual = [name for name in at(self.settings, path) if name in legal]
        if not legal:
            return "no settings"
        return ", ".join(legal) if len(legal) <= LONG else f"{', '.join(usual)} and {len(legal) - len(usual)} more"

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
                self._fault(group.replace("/", "."), f"{group} is not chosen: type {group}=NAME, one of {names}.")

    def _penalty(self) -> None:
        penalty, target = at(self.settings, "loss.penalty"), at(self.settings, f"model.attention.{TARGET}")
        if not isinstance(penalty, int | float) or not penalty > 0 or self._learns(target) is not False:
            return
        group = "model/attention"
        able = [name for name in self.choices.names(group) if self._learns(self.choices.node(group, name).get(TARGET))]
        self._fault(
            "loss.penalty",
            f"loss.penalty={penalty} can do nothing: {group}={self.chosen.get(group, target)} has no weights to learn;"
            f" leave it at 0, or choose {group}={' or '.join(able)}.",
        )

    def _learns(self, target: Any) -> bool | None:
        """Whether an attention has weights to learn; None where it cannot be told."""
        try:
            return bool(signatures.read(target).constants["learns"]) if isinstance(target, str) else None
        except (SettingError, KeyError):
            return None

    def _objective(self) -> None:
        metric, mode = at(self.settings, "objective.metric"), at(self.settings, "objective.mode")
        better = BETTER.get(str(metric).removeprefix("val/"))
        if mode in ("min", "max") and better not in (None, mode):
            sentence = f"objective.mode={mode} would keep the worst epoch by {metric}: type objective.mode={better}."
            position = min(self._position("objective.metric"), self._position("objective.mode"))
            self.faults.add(sentence, position)

    def _meant(self, key: str) -> str:
        """The closest spelling of a whole key, or of its last part (`hops` for `model.attention.hops`)."""
        typed = next((t.key for t in self.typed if t.key.partition(".")[0] == key), key)
        paths = [*leaves(self.settings), *TOP]
        same = [path for path in paths if path.rpartition(".")[2] == typed]
        if same:
            return f" Did you mean {' or '.join(map(repr, same))}?"
        last = {path.rpartition(".")[2]: path for path in reversed(paths)}
        legal = [group for group in self.choices.groups() if "/" not in group] + list(TOP)
        near = closest(typed, [*legal, *paths]) or last.get(closest(typed, list(last), cutoff=0.75))
        return f" Did you mean {near!r}?" if near else f" At the top there are {', '.join(legal)}."

    def _fault(self, path: str, sentence: str) -> None:
        """Takes in a fault of a setting, beginning with what was typed or with the file that brought it."""
        position = self._position(path)
        own = next((typed for typed in self.typed if typed.position == position), None)
        value = at(self.settings, path)
        shown = str(own) if own else path if isinstance(value, Mapping) else f"{path}={given(value)}"
        if not sentence.startswith(path):
            sentence = f"{shown}: {sentence}"
        origin = "" if own else self._origin(path)
        self.faults.add(f"{origin}: {sentence}" if origin else sentence, position)

    def _position(self, path: str) -> int:
        """Where a setting, or one in it, was typed."""
        return min((t.position for t in self.typed if t.key == path or t.key.startswith(f"{path}.")), default=LAST)

    def _chosen_at(self, path: str) -> int:
        """Where the choice was typed that brought a setting."""
        groups = {t.key.replace("/", "."): t.position for t in self.typed if t.key in self.choices.groups()}
        return max((p for group, p in groups.items() if path.startswith(f"{group}.")), default=LAST)

    def _origin(self, path: str) -> str:
        """The experiment or the file that brought a setting, or an empty string."""
        experiment = self.chosen.get("experiment")
        if experiment and at(self.choices.node("experiment", experiment), path) is not None:
            return f"experiment={experiment}"
        parent, _, key = path.rpartition(".")
        group = parent.replace(".", "/")
        if group in self.chosen and key in self.choices.node(group, self.chosen[group]):
            return str(self.choices.file(group, self.chosen[group]))
        return ""


def _has(names: Sequence[str]) -> str:
    return "has it" if len(names) == 1 else "have it"
