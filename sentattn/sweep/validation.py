"""The space against the configuration, before the first trial: settings are composed as the trials will have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from optuna.distributions import CategoricalDistribution, FloatDistribution

from sentattn.config import types
from sentattn.config.arguments import LAST, Faults
from sentattn.config.groups import Choices
from sentattn.config.request import read_request
from sentattn.config.schema import RAW
from sentattn.config.types import as_typed
from sentattn.errors import Fault, SettingError, UserError, suggestion
from sentattn.sweep.search_space import Dimension, Value, fixed, override, read_dimension
from sentattn.sweep.sweep_file import Draft

COMBINATIONS = 12
"""Up to so many combinations of choices each is composed; of more, each choice at least once."""
USUAL = {"model.pooling.p": "range(8,129)", "model.pooling.q": "range(1,17)"}
"""Settings without a default, and where they are searched if a choice that is searched needs them."""

Values = dict[str, Value]


class Checker:
    """Composes what the trials of a space may be.

    Args:
        overrides: What all trials have, by key, as text.
        space: The dimensions, each behind those that it depends on.
        choices: Groups and choices.
        folders: `--config-dir=FOLDER`, where there are more choices.

    Attributes:
        settings: The settings of one trial, as soon as one could be composed.
        notes: What was added, for the user to know.
    """

    def __init__(
        self, overrides: Mapping[str, str], space: Mapping[str, Dimension], choices: Choices, folders: Sequence[str]
    ) -> None:
        self.overrides = dict(overrides)
        self.space = dict(space)
        self.settings: dict[str, Any] = {}
        self.notes: list[str] = []
        self._choices = choices
        self._folders = list(folders)
        self._known: dict[tuple[str, ...], tuple[Fault, ...]] = {}

    def run(self, faults: Faults, positions: Mapping[str, int], unread: Sequence[str] = ()) -> None:
        """Checks everything; what a choice leaves no place for becomes conditional.

        Args:
            faults: Takes in what is found.
            positions: Where a key was typed.
            unread: Keys whose ranges could not be read: that they are missing is no fault of its own.
        """
        while self._learn():
            pass
        found = [(self._blamed(fault), fault) for values in self._trials() for fault in self._faults(values)]
        for key in dict.fromkeys(key for key, _ in found):
            for fault in self._of_range(key, list(dict.fromkeys(one for other, one in found if other == key))):
                if not (fault.kind == "missing" and fault.key in unread):
                    faults.add(fault, positions.get(key or "", LAST))

    def _learn(self) -> bool:
        """Makes one setting conditional, or searches one that a choice needs; returns whether it did."""
        for values in self._trials():
            for fault in self._faults(values):
                if self._added(fault, values) or self._made_conditional(self._blamed(fault), values):
                    return True
        return False

    def _added(self, fault: Fault, values: Values) -> bool:
        key = fault.key if fault.kind == "missing" and fault.key in USUAL else None
        group = key.rpartition(".")[0].replace(".", "/") if key else ""
        if key is None or key in self.space or group not in self.space:
            return False
        self.space[key] = read_dimension(key, USUAL[key], self._choices, {group: (values[group],)})
        self.notes.append(f"{key}={USUAL[key]} is searched as well, since {override(group, values[group])} needs it.")
        return True

    def _made_conditional(self, key: str | None, values: Values) -> bool:
        """Leaves a setting out where another one's choice has no place for it, if other choices have."""
        own = self.space.get(key or "")
        if key is None or (own is None and key not in self.overrides):
            return False
        conditions = [name for name in values if name != key and _is_categorical(self.space[name])]
        inside = [name for name in conditions if key.startswith(f"{name.replace('/', '.')}.")]
        for name in [*inside, *conditions]:
            ends = own.ends() if own and _is_categorical(own) else (values.get(key),)
            if any(not self._is_blamed(key, {**self._conditions(key), name: values[name], key: end}) for end in ends):
                continue
            legal = tuple(
                choice
                for choice in self.space[name].ends()
                if not self._is_blamed(key, {**self._conditions(key), name: choice, key: values.get(key)})
            )
            if legal:
                self._condition(key, own, name, legal)
                return True
        return False

    def _condition(self, key: str, own: Dimension | None, name: str, legal: tuple[Value, ...]) -> None:
        if own is None:
            text = self.overrides.pop(key)
            value: Any = text if key in RAW else OverridesParser.create().parse_override(f"key={text}").value()
            own = fixed(key, value, {})
        self.space.pop(key, None)
        self.space[key] = replace(own, when={**own.when, name: legal})  # behind all others, so behind its condition
        self.space = ordered(self.space)
        self.notes.append(f"{key} is set with {name}={' or '.join(map(as_typed, legal))} only.")

    def _is_blamed(self, key: str, asked: Values) -> bool:
        values = self._filled({name: value for name, value in asked.items() if name in self.space}, {})
        return any(self._blamed(fault) == key for fault in self._faults(values))

    def _blamed(self, fault: Fault) -> str | None:
        """The key of the sweep that a fault is about; None where it is about none."""
        return fault.key if fault.key in self.space or fault.key in self.overrides else None

    def _of_range(self, key: str | None, faults: list[Fault]) -> list[Fault]:
        """One fault for a range, since both ends have the same; one for each choice, unless all are faulty."""
        dimension = self.space.get(key or "")
        if dimension is None:
            return faults
        if not _is_categorical(dimension) or len(faults) >= len(dimension.ends()):
            faults = faults[:1]
        is_continuous = isinstance(dimension.distribution, FloatDistribution) and dimension.size() is None
        hint = f" Type {key}=int({dimension.written})." if is_continuous and not dimension.zero else ""
        return [
            replace(one, message=f"{key}={dimension.written}: {one}{hint if one.kind == 'type' else ''}")
            for one in faults
        ]

    def _faults(self, values: Values) -> tuple[Fault, ...]:
        words = (*texts(self.overrides), *(override(key, value) for key, value in values.items()))
        if words not in self._known:
            try:
                settings = read_request([*self._folders, *words]).settings
                self.settings = self.settings or settings
                self._known[words] = ()
            except UserError as error:
                self._known[words] = error.faults
        return self._known[words]

    def _trials(self) -> Iterator[Values]:
        """Yields trials in which each choice, both ends of each range and its 0 occur."""
        left = {key: list(dimension.ends()) for key, dimension in self.space.items()}
        combinations = list(islice(self._combinations(list(self.space.values()), {}), COMBINATIONS + 1))
        for combination in combinations if len(combinations) <= COMBINATIONS else ():
            yield self._filled(combination, left)
        while left := {key: ends for key, ends in left.items() if ends}:
            key, ends = next(iter(left.items()))
            yield self._filled({**self._conditions(key), key: ends.pop(0)}, left)

    def _combinations(self, dimensions: list[Dimension], values: Values) -> Iterator[Values]:
        if not dimensions:
            yield values
            return
        first, *rest = dimensions
        if not _is_categorical(first) or not first.is_active(values):
            yield from self._combinations(rest, values)
            return
        for choice in first.ends():
            yield from self._combinations(rest, {**values, first.key: choice})

    def _filled(self, asked: Values, left: dict[str, list[Value]]) -> Values:
        """Fills up what was asked for with the other dimensions: by ends that have not occurred, or the first."""
        values: Values = {}
        for key, dimension in self.space.items():
            if key in asked:
                values[key] = asked[key]
            elif dimension.is_active(values):
                values[key] = (left.get(key) or dimension.ends())[0]
            if key in values and values[key] in left.get(key, ()):
                left[key].remove(values[key])
        return values

    def _conditions(self, key: str) -> Values:
        """The first values under which a dimension is set."""
        when = self.space[key].when if key in self.space else {}
        return {name: value for other in when for name, value in self._conditions(other).items()} | {
            name: legal[0] for name, legal in when.items()
        }


def conditions(
    key: str, asked: Draft, read: Mapping[str, Dimension], faults: Faults
) -> dict[str, tuple[Any, ...]] | None:
    """Returns a dimension's conditions; None where one can no more hold, since a single value was typed for its key.

    Args:
        key: The dimension's.
        asked: What was typed and what the file says.
        read: The ranges that could be read, by key.
        faults: Gathers conditions on what is not searched, and on values that its range never takes.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for other, wanted in asked.ranges[key][1].items():
        legal = tuple(wanted) if isinstance(wanted, list) else (wanted,)
        position, shown = asked.positions[key], f"{key}: when {other}={' or '.join(map(as_typed, legal))}"
        if other in asked.overrides and asked.positions[other] >= 0:  # typed over the file's range
            if types.parse(asked.overrides[other]) not in legal:
                return None
        elif other not in asked.ranges:
            close = suggestion(other, asked.ranges)
            message = f"{shown}: {other} is not in the space.{close} A condition is on what is searched."
            faults.add(Fault(key, "unknown", message), position)
        elif other in read and (wrong := [value for value in legal if not read[other].contains(value)]):
            takes = asked.ranges[other][0]
            message = f"{shown}: {other} is never {as_typed(wrong[0])}; its range is {takes}."
            faults.add(Fault(key, "range", message), position)
        else:
            found[other] = legal
    return found


def _is_categorical(dimension: Dimension) -> bool:
    return isinstance(dimension.distribution, CategoricalDistribution)


def texts(overrides: Mapping[str, str]) -> list[str]:
    """Returns overrides as one types them."""
    return [f"{key}={text}" for key, text in overrides.items()]


def ordered(space: Mapping[str, Dimension]) -> dict[str, Dimension]:
    """Returns the dimensions, each behind those that it depends on.

    Raises:
        SettingError: If a condition leads back to itself.
    """
    done: dict[str, Dimension] = {}
    left = dict(space)
    while left:
        ready = [key for key, dimension in left.items() if not any(other in left for other in dimension.when)]
        if not ready:
            raise SettingError(
                Fault(
                    "space",
                    "conflict",
                    f"the conditions of {' and '.join(left)} lead in a circle; take one `when` out.",
                )
            )
        done[ready[0]] = left.pop(ready[0])
    return done
