"""Where the values of a searched setting stand on its axis, from 0 to 1, and what is written there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from sentattn.config.types import given
from sentattn.sweep.search_space import Dimension, Value

APART = 0.12
"""On an axis with the point 0 beside a log scale: where the scale begins; 0 stands at its very start."""
MOST_TICKS = 6
STEPS = (1, 2, 5)


@dataclass(frozen=True)
class Axis:
    """The axis of a searched setting.

    Attributes:
        key: The setting.
        ticks: Positions and what is written there.
        gap: Where the axis is broken between 0 and the log scale; None where it is not.
        choices: Whether it has choices, each on a place of its own, and no numbers.
    """

    key: str
    ticks: tuple[tuple[float, str], ...]
    gap: float | None
    choices: bool


def axis(dimension: Dimension) -> Axis:
    """Returns the axis of a setting."""
    distribution = dimension.distribution
    if isinstance(distribution, CategoricalDistribution):
        words = [(position(dimension, value), given(value)) for value in distribution.choices]
        return Axis(dimension.key, tuple(words), None, True)
    low, high, log = _range(dimension)
    whole = isinstance(distribution, IntDistribution)
    numbers = decades(low, high) if log else even(low, high, whole=whole)
    ticks = [(position(dimension, number), f"{number:.6g}") for number in numbers if not whole or number % 1 == 0]
    return Axis(
        dimension.key,
        ((0.0, "0"), *ticks) if dimension.zero else tuple(ticks),
        APART / 2 if dimension.zero else None,
        False,
    )


def position(dimension: Dimension, value: Value) -> float:
    """Returns where a value stands: a number on the setting's own scale, a choice in the middle of its place."""
    distribution = dimension.distribution
    if isinstance(distribution, CategoricalDistribution):
        place = next(i for i, one in enumerate(distribution.choices) if type(one) is type(value) and one == value)
        return (place + 0.5) / len(distribution.choices)
    assert isinstance(value, int | float)
    if dimension.zero:
        return 0.0 if value == 0 else APART + (1 - APART) * share(dimension, value)
    return share(dimension, value)


def share(dimension: Dimension, value: float) -> float:
    """Returns how much of a range of numbers lies below a value, on the range's own scale and without the point 0."""
    low, high, log = _range(dimension)
    if high == low:
        return 0.5
    return math.log(value / low) / math.log(high / low) if log else (value - low) / (high - low)


def _range(dimension: Dimension) -> tuple[float, float, bool]:
    distribution = dimension.distribution
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    return dimension.floor if dimension.zero else distribution.low, distribution.high, distribution.log


def names(keys: Iterable[str]) -> list[str]:
    """Returns short names of settings: the last part of each key, or the whole key where another ends alike."""
    parts = {key: key.replace("/", ".").rpartition(".")[2] for key in keys}
    shared = Counter(parts.values())
    return [part if shared[part] == 1 else key for key, part in parts.items()]


def even(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Returns a few round numbers from `low` to `high`, evenly spaced."""
    if high == low:
        return [low]
    rough = (high - low) / (MOST_TICKS - 1)
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * size for factor in (*STEPS, 10) if factor * size >= rough * (1 - 1e-9))
    step = max(1.0, step) if whole else step
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Returns a few round numbers from `low` to `high` for a log scale: powers of ten, or 1, 2 and 5 of each."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    powers = [10.0**power for power in range(first, last + 1)]
    return _thinned(_within(powers, low, high), powers, low, high)


def _thinned(tens: Sequence[float], powers: Sequence[float], low: float, high: float) -> list[float]:
    if len(tens) > MOST_TICKS:
        return list(tens[:: math.ceil(len(tens) / MOST_TICKS)])
    if len(tens) > 2:
        return list(tens)
    return _within((factor * power for power in powers for factor in STEPS), low, high) or [low, high]


def _within(numbers: Iterable[float], low: float, high: float) -> list[float]:
    return [number for number in numbers if low * (1 - 1e-9) <= number <= high * (1 + 1e-9)]
