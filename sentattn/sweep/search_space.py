"""The space of a sweep: ranges as Optuna's distributions.

The tag `zero` adds the point 0 to a range on a log scale, and stays one dimension: the log scale is drawn out
downwards by a quarter of its length, and everything below the range's start stands for 0. So a fifth of random draws
are 0, 0 is next to the smallest numbers, every sampler can take it (a switch beside the range would
be a condition, which Gaussian processes and CMA-ES cannot), and the setting has one importance instead of two halves.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from hydra.core.override_parser.types import ChoiceSweep, Glob, IntervalSweep, Quote, QuotedString, RangeSweep
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
    json_to_distribution,
)

from sentattn.config.groups import Choices
from sentattn.config.schema import RAW
from sentattn.config.types import as_typed
from sentattn.errors import Fault, SettingError
from sentattn.sweep import grammar

if TYPE_CHECKING:
    from optuna import Trial

WORD = re.compile(r"[A-Za-z_][\w.-]*")
OTHER_THAN_TEXT = {"true", "false", "null", "nan", "inf"}
"""Words that Hydra's grammar reads as something else, in any mixture of small and capital letters."""

Value: TypeAlias = str | int | float | bool | None
When: TypeAlias = Mapping[str, tuple[Value, ...]]
"""Under which choices of other dimensions one has its place: it is left out where they are not taken."""

ROUNDING = 1e-8
"""How far a value may be from a step of its range, as in Optuna."""
ZERO_SHARE = 0.2
"""Of a log range with 0: the share of random draws that are 0."""


@dataclass(frozen=True)
class Dimension:
    """One setting that is searched.

    Attributes:
        key: The setting.
        distribution: What Optuna draws from.
        zero: Whether draws below `floor` stand for 0.
        floor: The smallest number but 0, where `zero`.
        when: Under which values of other dimensions it is set at all.
        written: The range as it was written.
    """

    key: str
    distribution: BaseDistribution
    zero: bool = False
    floor: float = 0.0
    when: When = field(default_factory=dict)
    written: str = ""

    def value(self, drawn: Value) -> Value:
        """Returns the setting's value for what was drawn."""
        if self.zero and isinstance(drawn, float) and drawn < self.floor:
            return 0.0
        return drawn

    def drawn(self, value: Value) -> Value:
        """Returns what is drawn for a value: the middle of what stands for 0, else the value itself."""
        distribution = self.distribution
        if self.zero and value == 0:
            assert isinstance(distribution, FloatDistribution)
            return math.sqrt(distribution.low * self.floor)
        return float(value) if isinstance(distribution, FloatDistribution) and isinstance(value, int) else value

    def contains(self, value: Value) -> bool:
        """Whether a value lies in the range."""
        if isinstance(self.distribution, CategoricalDistribution):
            return any(type(choice) is type(value) and choice == value for choice in self.distribution.choices)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if isinstance(self.distribution, IntDistribution) and not isinstance(value, int):
            return False
        if self.zero and value < self.floor:
            return value == 0
        assert isinstance(self.distribution, FloatDistribution | IntDistribution)
        low, high, step = self.distribution.low, self.distribution.high, self.distribution.step
        steps = (value - low) / step if step else 0.0
        return low <= value <= high and abs(steps - round(steps)) < ROUNDING

    def ends(self) -> tuple[Value, ...]:
        """Returns all choices, or both ends of a range, and 0 where it is one of its points."""
        if isinstance(self.distribution, CategoricalDistribution):
            return tuple(self.distribution.choices)
        assert isinstance(self.distribution, FloatDistribution | IntDistribution)
        low, high = self.distribution.low, self.distribution.high
        return (self.floor, high, 0.0) if self.zero else (low, high)

    def size(self) -> int | None:
        """Returns how many values there are; None for a continuous range."""
        distribution = self.distribution
        if isinstance(distribution, CategoricalDistribution):
            return len(distribution.choices)
        assert isinstance(distribution, FloatDistribution | IntDistribution)
        if distribution.step is None:
            return None
        return round((distribution.high - distribution.low) / distribution.step) + 1

    def is_active(self, values: Mapping[str, Value]) -> bool:
        """Whether it is set, given the values of other dimensions."""
        return all(key in values and is_one_of(values[key], legal) for key, legal in self.when.items())


def is_one_of(value: Value, legal: Iterable[Value]) -> bool:
    """Whether a value is among others; 1, 1.0 and true are three."""
    return any(type(one) is type(value) and one == value for one in legal)


def fixed(key: str, value: Value, when: When) -> Dimension:
    """Returns a dimension of one value: a setting that has its place under a condition only."""
    return Dimension(key, CategoricalDistribution([value]), when=when, written=str(value))


def read_dimension(key: str, text: str, choices: Choices, when: When | None = None) -> Dimension:
    """Reads a range in Hydra's grammar.

    Args:
        key: The setting.
        text: Such as `range(1,31)`, `tag(log,interval(1e-3,1))`, `choice(flatten,mean,prune)`, `1,2,4`.
        choices: Groups and choices, for `glob`.
        when: Under which values of other dimensions it is set.

    Raises:
        SettingError: If it cannot be read or is nonsense, with what to type.
    """
    try:
        return _read(key, text, choices, when or {})
    except SettingError as error:
        raise SettingError(*(Fault(key, "range", message) for message in error.messages)) from error


def _read(key: str, text: str, choices: Choices, when: When) -> Dimension:
    found = grammar.read(key, text)
    make = functools.partial(Dimension, key, when=when, written=text)
    if isinstance(found, Glob):
        return make(CategoricalDistribution(_matching(key, text, found, choices)))
    if isinstance(found, ChoiceSweep):
        return make(CategoricalDistribution(found.list))  # type: ignore[arg-type]  # checked to be plain values
    log = grammar.LOG in found.tags
    if isinstance(found, RangeSweep):
        return make(_stepped(found, log=log))
    assert isinstance(found, IntervalSweep)
    assert found.start is not None
    assert found.end is not None
    if isinstance(found.start, int):  # int(interval(...)): both ends are Python's integers then, and among the values
        return make(IntDistribution(found.start, int(found.end), log=log))
    if grammar.ZERO not in found.tags:
        return make(FloatDistribution(found.start, found.end, log=log))
    low = found.start * (found.start / found.end) ** (ZERO_SHARE / (1 - ZERO_SHARE))
    return make(FloatDistribution(low, found.end, log=True), zero=True, floor=found.start)


def _matching(key: str, text: str, found: Glob, choices: Choices) -> list[str]:
    if key not in choices.groups():
        raise SettingError(f"{key}={text}: glob(...) looks among the choices of a group, and {key} is none.")
    names = found.filter(choices.names(key))
    if len(names) > 1:
        return names
    fits = f"only {names[0]} fits; type {key}={names[0]}" if names else "nothing fits"
    raise SettingError(f"{key}={text}: {fits}. {key} has {', '.join(choices.names(key))}.")


def _stepped(found: RangeSweep, *, log: bool) -> BaseDistribution:
    """A range leaves out its end; counted down or up it holds the same values."""
    assert found.start is not None
    assert found.stop is not None
    start, stop, step = (Decimal(str(number)) for number in (found.start, found.stop, found.step))
    count = math.ceil((stop - start) / step)
    last = start + (count - 1) * step
    low, high, width = min(start, last), max(start, last), abs(step)
    if all(isinstance(number, int) for number in (found.start, found.stop, found.step)):
        return IntDistribution(int(low), int(high), log=log, step=int(width))
    return FloatDistribution(float(low), float(high), step=float(width))


def points(space: Mapping[str, Dimension], most: int) -> int | None:
    """Returns how many different trials a space has; None where it is continuous, or has more than `most`."""
    if any(dimension.size() is None for dimension in space.values()):
        return None
    found = len(list(islice(_walk(list(space.values()), {}), most + 1)))
    return found if found <= most else None


def _walk(dimensions: list[Dimension], values: dict[str, Value]) -> Iterable[dict[str, Value]]:
    if not dimensions:
        yield values
    elif not dimensions[0].is_active(values):
        yield from _walk(dimensions[1:], values)
    else:
        for value in all_values(dimensions[0]):
            yield from _walk(dimensions[1:], {**values, dimensions[0].key: value})


def all_values(dimension: Dimension) -> list[Value]:
    """Returns each value of a dimension that is not continuous."""
    distribution, size = dimension.distribution, dimension.size()
    assert size is not None
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    if isinstance(distribution, IntDistribution):
        return list(range(distribution.low, distribution.high + 1, distribution.step))
    assert isinstance(distribution, FloatDistribution)
    low, step = Decimal(str(distribution.low)), Decimal(str(distribution.step))
    return [float(low + position * step) for position in range(size)]


def to_json(space: Mapping[str, Dimension]) -> list[dict[str, Any]]:
    """Returns a space as it is kept with a study."""
    return [
        {
            "key": dimension.key,
            "distribution": distribution_to_json(dimension.distribution),
            "zero": dimension.zero,
            "floor": dimension.floor,
            "when": {key: list(legal) for key, legal in dimension.when.items()},
            "written": dimension.written,
        }
        for dimension in space.values()
    ]


def from_json(kept: Iterable[Mapping[str, Any]]) -> dict[str, Dimension]:
    """Returns the space that was kept with a study."""
    return {
        one["key"]: Dimension(
            one["key"],
            json_to_distribution(one["distribution"]),
            one["zero"],
            one["floor"],
            {key: tuple(legal) for key, legal in one["when"].items()},
            one["written"],
        )
        for one in kept
    }


def suggest(trial: Trial, space: Mapping[str, Dimension]) -> dict[str, Value]:
    """Draws the values of a trial.

    Args:
        trial: Optuna's.
        space: Each dimension after those that it depends on.

    Returns:
        Values by key; a key whose condition does not hold is left out.
    """
    values: dict[str, Value] = {}
    for dimension in space.values():
        if dimension.is_active(values):
            values[dimension.key] = dimension.value(draw(trial, dimension))
    return values


def draw(trial: Trial, dimension: Dimension) -> Value:
    """Draws from one dimension."""
    key, distribution = dimension.key, dimension.distribution
    match distribution:
        case CategoricalDistribution():
            return trial.suggest_categorical(key, distribution.choices)
        case IntDistribution():
            return trial.suggest_int(
                key, distribution.low, distribution.high, step=distribution.step, log=distribution.log
            )
        case FloatDistribution():
            return trial.suggest_float(
                key, distribution.low, distribution.high, step=distribution.step, log=distribution.log
            )
        case _:
            raise AssertionError(f"no dimension is of kind {type(distribution).__name__}")


def override(key: str, value: Value) -> str:
    """Returns a value as one types it for a setting, so that Hydra reads the same value."""
    if not isinstance(value, str) or key in RAW:
        assert not isinstance(value, float) or math.isfinite(value)
        return f"{key}={as_typed(value)}"
    if WORD.fullmatch(value) and value.lower() not in OTHER_THAN_TEXT:
        return f"{key}={value}"
    return f"{key}={QuotedString(value, Quote.single).with_quotes()}"
