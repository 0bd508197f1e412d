"""The space against the configuration, before the first trial: settings are composed as the trials will have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from optuna.distributions import CategoricalDistribution

from sentattn.config import types
from sentattn.config.request import read_request
from sentattn.config.schema import RAW
from sentattn.config.types import as_typed
from sentattn.errors import Fault, SettingError, UserError, suggestion
from sentattn.sweep.plan import DECIDED, NOT_SEARCHED
from sentattn.sweep.search_space import Dimension, Value, combinations, override, read_dimension
from sentattn.sweep.sweep_file import OPTIONS, Draft

COMBINATIONS = 12
"""Up to so many combinations of choices each is composed; of more, each choice at least once."""
USUAL = {"model.pooling.p": "range(8,129)", "model.pooling.q": "range(1,17)"}
"""Settings without a default, and where they are searched if a choice that is searched needs them."""
SEED = "seeds are repeats of a setting, and the best of several is lucky; type repeats={count}, or one seed"

Values = dict[str, Value]


def read_space(draft: Draft, faults: list[Fault]) -> dict[str, Dimension]:
    """Returns the dimensions that can be read, each after those that it depends on; the faults of the others are added.

    Raises:
        SettingError: If a condition leads back to itself.
    """
    read: dict[str, Dimension] = {}
    for key, (text, _) in draft.ranges.items():
        reason = SEED.format(count=_count(key, text, draft)) if key == "seed" else None
        reason = reason or DECIDED.get(key) or NOT_SEARCHED.get("logger" if key.startswith("logger.") else key)
        if reason is None and key in OPTIONS:
            reason = "a sweep has one value of it"
        try:
            if reason:
                raise SettingError(Fault(key, "unsupported", f"{key}={text}: {key} cannot be searched; {reason}."))
            read[key] = read_dimension(key, text, draft.choices)
        except SettingError as error:
            faults += error.faults
    space: dict[str, Dimension] = {}
    for key, dimension in read.items():
        when: dict[str, tuple[Value, ...]] = {}
        for name, values in draft.ranges[key][1].items():
            legal = tuple(values) if isinstance(values, list) else (values,)
            condition = f"{key}: when {name}={' or '.join(map(as_typed, legal))}"
            if name in draft.overrides:
                if types.parse(draft.overrides[name]) not in legal:
                    break  # it never holds
            elif name not in draft.ranges:
                message = f"{condition}: {name} is not searched.{suggestion(name, draft.ranges)}"
                faults.append(Fault(key, "unknown", message))
            elif name in read and not all(map(read[name].contains, legal)):
                faults.append(Fault(key, "range", f"{condition}: the range of {name} is {read[name].written}."))
            else:
                when[name] = legal
        else:
            space[key] = replace(dimension, when=when)
    return _ordered({key: dimension for key, dimension in space.items() if set(dimension.when) <= set(space)})


def _count(key: str, text: str, draft: Draft) -> int:
    """Returns how many values a range has; 3 where it cannot be read, or is continuous."""
    try:
        return sum(1 for _ in read_dimension(key, text, draft.choices).values() or ()) or 3
    except SettingError:
        return 3


def _ordered(space: Mapping[str, Dimension]) -> dict[str, Dimension]:
    ordered: dict[str, Dimension] = {}
    while left := [key for key in space if key not in ordered]:
        key = next((key for key in left if set(space[key].when) <= set(ordered)), None)
        if key is None:
            message = f"the conditions of {' and '.join(left)} form a circle: leave one `when` out."
            raise SettingError(Fault("space", "conflict", message))
        ordered[key] = space[key]
    return ordered


def words(overrides: Mapping[str, str]) -> list[str]:
    """Returns overrides as one types them."""
    return [f"{key}={text}" for key, text in overrides.items()]


class SpaceCheck:
    """Composes what the trials of a study may be; what a choice leaves no place for becomes conditional.

    Attributes:
        overrides: What all trials have, by key, as text.
        space: The dimensions with the conditions that were added.
        settings: The settings of one trial, as soon as one could be composed.
        notes: What was added, for the user to know.
    """

    def __init__(self, draft: Draft, space: Mapping[str, Dimension]) -> None:
        self.overrides = {key: text for key, text in draft.overrides.items() if key not in DECIDED}
        self.space = dict(space)
        self.settings: Mapping[str, Any] = {}
        self.notes: list[str] = []
        self._draft = draft
        self._unread = set(draft.ranges) - set(space)
        self._composed: dict[tuple[str, ...], tuple[Fault, ...]] = {}

    def faults(self) -> list[Fault]:
        """Adds conditions until no more help, and returns the faults that are left."""
        while any(self._repair(fault, values) for values in self._trials() for fault in self._faults(values)):
            pass
        by_key: dict[str, dict[Fault, None]] = {}
        for fault in (fault for values in self._trials() for fault in self._faults(values)):
            if fault.kind != "missing" or fault.key not in self._unread:
                by_key.setdefault(fault.key, {})[fault] = None
        return [fault for key, faults in by_key.items() for fault in self._of_range(key, list(faults))]

    def _of_range(self, key: str, faults: list[Fault]) -> list[Fault]:
        """One fault for a range, since both ends have the same; one for each choice, unless all are faulty."""
        if key not in self.space:
            return faults
        dimension = self.space[key]
        if not _is_categorical(dimension) or len(faults) >= len(dimension.ends()):
            faults = faults[:1]
        hint = f" Type {key}=int({dimension.written})." if "interval" in dimension.written else ""
        return [
            replace(fault, message=f"{key}={dimension.written}: {fault}{hint if fault.kind == 'type' else ''}")
            for fault in faults
        ]

    def _repair(self, fault: Fault, values: Values) -> bool:
        """Searches a setting that a choice needs, or makes one conditional; returns whether it did."""
        key = fault.key
        group = key.rpartition(".")[0].replace(".", "/")
        if fault.kind == "missing" and key in USUAL and key not in self.space and group in self.space:
            self.space[key] = read_dimension(key, USUAL[key], self._draft.choices, {group: (values[group],)})
            choice = override(group, values[group])
            self.notes.append(f"{key}={USUAL[key]} is searched as well, since {choice} needs it.")
            return True
        return (key in self.space or key in self.overrides) and self._make_conditional(key, values)

    def _make_conditional(self, key: str, values: Values) -> bool:
        """Leaves a setting out where another one's choice has no place for it, if other choices have."""
        dimension = self.space.get(key)
        ends = dimension.ends() if dimension and _is_categorical(dimension) else (values.get(key),)
        others = [name for name in values if name != key and _is_categorical(self.space[name])]
        for name in sorted(others, key=lambda name: not key.startswith(f"{name.replace('/', '.')}.")):
            legal = tuple(
                choice
                for choice in self.space[name].ends()
                if any(not self._is_faulty(key, {name: choice, key: end}) for end in ends)
            )
            if legal and values[name] not in legal:
                self._add_condition(key, name, legal)
                return True
        return False

    def _add_condition(self, key: str, name: str, legal: tuple[Value, ...]) -> None:
        if key in self.overrides:
            text = self.overrides.pop(key)
            value: Any = text if key in RAW else OverridesParser.create().parse_override(f"key={text}").value()
            dimension = Dimension(key, CategoricalDistribution([value]), written=str(value))
        else:
            dimension = self.space.pop(key)
        when = {**dimension.when, name: legal}
        self.space = _ordered({**self.space, key: replace(dimension, when=when)})  # after all that it depends on
        self.notes.append(f"{key} is set with {name}={' or '.join(map(as_typed, legal))} only.")

    def _is_faulty(self, key: str, values: Values) -> bool:
        start = {name: value for name, value in {**self._needs(key), **values}.items() if name in self.space}
        return any(fault.key == key for fault in self._faults(self._fill(start, {})))

    def _faults(self, values: Values) -> tuple[Fault, ...]:
        """Composes a trial, each one once."""
        arguments = (*words(self.overrides), *(override(key, value) for key, value in values.items()))
        if arguments not in self._composed:
            try:
                settings = read_request([*self._draft.folders, *arguments]).settings
                self.settings = self.settings or settings
                self._composed[arguments] = ()
            except UserError as error:
                self._composed[arguments] = error.faults
        return self._composed[arguments]

    def _trials(self) -> Iterator[Values]:
        """Yields trials in which each choice, both ends of each range and its 0 occur."""
        unseen = {key: list(dimension.ends()) for key, dimension in self.space.items()}
        choices = combinations([dimension for dimension in self.space.values() if _is_categorical(dimension)])
        starts = list(islice(choices, COMBINATIONS + 1))
        if len(starts) <= COMBINATIONS:
            yield from (self._fill(start, unseen) for start in starts)
        while unseen := {key: ends for key, ends in unseen.items() if ends}:
            key, ends = next(iter(unseen.items()))
            yield self._fill({**self._needs(key), key: ends[0]}, unseen)

    def _fill(self, start: Values, unseen: dict[str, list[Value]]) -> Values:
        """Adds the other dimensions: their ends that have not occurred yet, or else their first."""
        values: Values = {}
        for key, dimension in self.space.items():
            ends = unseen.get(key, [])
            if key in start or dimension.is_active(values):
                values[key] = start[key] if key in start else (ends or dimension.ends())[0]
                if values[key] in ends:
                    ends.remove(values[key])
        return values

    def _needs(self, key: str) -> Values:
        """The first values under which a dimension is set."""
        when = self.space[key].when if key in self.space else {}
        needs = {name: value for other in when for name, value in self._needs(other).items()}
        return needs | {name: legal[0] for name, legal in when.items()}


def _is_categorical(dimension: Dimension) -> bool:
    return isinstance(dimension.distribution, CategoricalDistribution)
