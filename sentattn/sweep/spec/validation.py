"""The space against the configuration, before the first trial: settings are composed as the trials will have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from optuna.distributions import CategoricalDistribution

from sentattn.config import types
from sentattn.config.request import read_request
from sentattn.config.types import as_typed
from sentattn.errors import Fault, SettingError, UserError, suggestion
from sentattn.sweep.spec.plan import DECIDED, NOT_SEARCHED
from sentattn.sweep.spec.search_space import Dimension, Value, combinations, is_one_of, override, read_dimension
from sentattn.sweep.spec.sweep_file import OPTIONS, Draft

COMBINATIONS = 12
"""Up to so many combinations of choices each is composed; of more, each choice at least once."""
SEED = "seeds are repeats of a setting, and the best of several is lucky; type repeats={count}, or one seed"

Values = dict[str, Value]


def read_space(draft: Draft, faults: list[Fault]) -> dict[str, Dimension]:
    """Returns the dimensions that can be read, each after those that it depends on; the faults of the others are added.

    Raises:
        SettingError: If a condition leads back to itself.
    """
    read: dict[str, Dimension] = {}
    for key, (text, when_written) in draft.ranges.items():
        reason = SEED.format(count=_count(key, text, draft)) if key == "seed" else None
        reason = reason or DECIDED.get(key) or NOT_SEARCHED.get("logger" if key.startswith("logger.") else key)
        if reason is None and key in OPTIONS:
            reason = "a sweep has one value of it"
        try:
            if reason:
                raise SettingError(Fault(key, "unsupported", f"{key}={text}: {key} cannot be searched; {reason}."))
            read[key] = read_dimension(key, text, draft.choices, is_conditional=bool(when_written))
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
            message = f"the conditions of {' and '.join(left)} form a cycle: leave one `when` out."
            raise SettingError(Fault("space", "conflict", message))
        ordered[key] = space[key]
    return ordered


def as_arguments(overrides: Mapping[str, str]) -> list[str]:
    """Returns overrides as arguments of a command line."""
    return [f"{key}={text}" for key, text in overrides.items()]


def check_space(draft: Draft, space: Mapping[str, Dimension], faults: list[Fault]) -> Mapping[str, Any]:
    """Composes trials in which each choice, both ends of each range and its 0 occur, and adds their faults.

    Returns:
        The settings of one trial; empty where none could be composed.
    """
    settings: Mapping[str, Any] = {}
    composed: list[tuple[Values, tuple[Fault, ...]]] = []
    overrides = as_arguments({key: text for key, text in draft.overrides.items() if key not in DECIDED})
    for values in _trials(space):
        try:
            request = read_request(
                [*draft.folders, *overrides, *(override(key, value) for key, value in values.items())]
            )
            settings = settings or request.settings
            composed.append((values, ()))
        except UserError as error:
            composed.append((values, error.faults))
    unread = set(draft.ranges) - set(space)
    by_key: dict[str, dict[Fault, None]] = {}
    for fault in (fault for _, found in composed for fault in found):
        if fault.kind != "missing" or fault.key not in unread:
            by_key.setdefault(fault.key, {})[fault] = None
    for key, found in by_key.items():
        line = _condition(key, draft, space, composed)
        faults += _of_range(space.get(key), list(found), line)
    return settings


def _of_range(dimension: Dimension | None, faults: list[Fault], line: str) -> list[Fault]:
    """One fault for a range, since both ends have the same; one for each choice, unless all are faulty."""
    hint = f" In a sweep file, write under `space`: {line}" if line else ""
    if dimension is None:
        return [replace(fault, message=f"{fault}{hint}") for fault in faults]
    if not _is_categorical(dimension) or len(faults) >= len(dimension.ends()):
        faults = faults[:1]
    number = f" Type {dimension.key}=int({dimension.written})." if "interval" in dimension.written else ""
    return [
        replace(
            fault,
            message=f"{dimension.key}={dimension.written}: {fault}{number if fault.kind == 'type' else ''}{hint}",
        )
        for fault in faults
    ]


def _condition(
    key: str, draft: Draft, space: Mapping[str, Dimension], composed: Sequence[tuple[Values, tuple[Fault, ...]]]
) -> str:
    """Returns the line of a sweep file that sets a key only with the choices that have it; empty where none decide."""
    kinds = [{fault.kind for fault in faults if fault.key == key} for _, faults in composed]
    is_missing = {"missing"} in kinds
    others = [name for name, dimension in space.items() if name != key and _is_categorical(dimension)]
    for name in sorted(others, key=lambda name: not key.startswith(f"{name.replace('/', '.')}.")):
        pairs = [(values[name], kind) for (values, _), kind in zip(composed, kinds, strict=True) if name in values]
        faulty, legal = ([value for value, kind in pairs if bool(kind) == wanted] for wanted in (True, False))
        if faulty and legal and not any(is_one_of(value, legal) for value in faulty):
            choices = dict.fromkeys(map(as_typed, faulty if is_missing else legal))
            text = space[key].written if key in space else f"choice({draft.overrides.get(key, '...')})"
            text = "RANGE" if is_missing else text
            one_of = next(iter(choices)) if len(choices) == 1 else f"[{', '.join(choices)}]"
            return f'{key}: {{space: "{text}", when: {{{name}: {one_of}}}}}'
    return ""


def _trials(space: Mapping[str, Dimension]) -> Iterator[Values]:
    """Yields trials in which each choice, both ends of each range and its 0 occur."""
    unseen = {key: list(dimension.ends()) for key, dimension in space.items()}
    choices = combinations([dimension for dimension in space.values() if _is_categorical(dimension)])
    starts = list(islice(choices, COMBINATIONS + 1))
    if len(starts) <= COMBINATIONS:
        yield from (_fill(space, start, unseen) for start in starts)
    while unseen := {key: ends for key, ends in unseen.items() if ends}:
        key, ends = next(iter(unseen.items()))
        yield _fill(space, {**_needs(space, key), key: ends[0]}, unseen)


def _fill(space: Mapping[str, Dimension], start: Values, unseen: dict[str, list[Value]]) -> Values:
    """Adds the other dimensions: their ends that have not occurred yet, or else their first."""
    values: Values = {}
    for key, dimension in space.items():
        ends = unseen.get(key, [])
        if key in start or dimension.is_active(values):
            values[key] = start[key] if key in start else (ends or dimension.ends())[0]
            if values[key] in ends:
                ends.remove(values[key])
    return values


def _needs(space: Mapping[str, Dimension], key: str) -> Values:
    """The first values under which a dimension is set."""
    when = space[key].when
    needs = {name: value for other in when for name, value in _needs(space, other).items()}
    return needs | {name: legal[0] for name, legal in when.items()}


def _is_categorical(dimension: Dimension) -> bool:
    return isinstance(dimension.distribution, CategoricalDistribution)
