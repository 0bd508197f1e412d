"""Axes and texts of the figures of the report."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from sentattn.config.types import as_typed
from sentattn.rendering.charts import log_ticks, safe
from sentattn.sweep.spec.search_space import Dimension, Value


def place(dimension: Dimension, value: Value) -> Any:
    """Where a value is on its axis: a choice at its text, the point 0 of a log range at a small number."""
    if isinstance(dimension.distribution, CategoricalDistribution):
        return safe(as_typed(value))
    return dimension.drawn(value)


def as_text(value: object) -> str:
    """Returns a value of a setting as people read it."""
    return f"{value:.6g}" if isinstance(value, float) else as_typed(value)


def short_names(keys: Iterable[str]) -> list[str]:
    """Returns the last part of each key, or the whole key where two of them end alike."""
    lasts = {key: key.replace("/", ".").rpartition(".")[2] for key in keys}
    parts = list(lasts.values())
    return [last if parts.count(last) == 1 else key for key, last in lasts.items()]


def set_axis(axis: Any, dimension: Dimension) -> None:
    """Gives an axis its range and its ticks; the point 0 of a log range reads 0."""
    distribution = dimension.distribution
    if isinstance(distribution, CategoricalDistribution):
        labels = [place(dimension, value) for value in distribution.choices]
        axis.update(type="category", categoryorder="array", categoryarray=labels)
        return
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    if not distribution.log:
        axis.tickformat = "d" if isinstance(distribution, IntDistribution) else None
        return
    low: Any = dimension.drawn(0) if dimension.zero else distribution.low
    ticks = log_ticks(dimension.floor if dimension.zero else low, distribution.high)
    texts = {low: "0"} if dimension.zero else {}
    texts |= {tick: f"{tick:.6g}" for tick in ticks}
    first, last = math.log10(low), math.log10(distribution.high)
    space = 0.05 * (last - first)
    axis.update(type="log", tickvals=list(texts), ticktext=list(texts.values()), range=[first - space, last + space])
