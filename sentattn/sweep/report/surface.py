"""How good trials are over two settings at once: a smooth mean of them, and how near the nearest ones are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import CategoricalDistribution

from sentattn.sweep.records import Record
from sentattn.sweep.report.axes import position
from sentattn.sweep.search_space import Dimension

CELLS = 40
FEWEST = 4
WIDTH = 0.3
"""Width of the kernel for one trial, in axes' lengths; it falls with the sixth root of their number (Scott's rule)."""


@dataclass(frozen=True)
class Surface:
    """A mean of trials over two settings.

    Attributes:
        x: The setting across.
        y: The setting upwards.
        means: Weighted means of the trials around each cell, (cells upwards, cells across).
        trust: From 0, no trial is near, to 1, there is one's full weight.
    """

    x: str
    y: str
    means: NDArray[np.float64]
    trust: NDArray[np.float64]


def surface(
    found: Sequence[Record], space: Mapping[str, Dimension], x: str, y: str, *, place: int = 0
) -> Surface | None:
    """Returns the mean of an objective over two settings, of the complete trials that set both.

    It is the estimate of Nadaraya and Watson with a Gaussian kernel on the settings' own scales; choices have nothing
    in common with one another.

    Args:
        found: The trials.
        space: What was searched.
        x: The setting across.
        y: The setting upwards.
        place: Which of the objectives it is.

    Returns:
        None where too few trials set both.
    """
    shown = [one for one in found if one.state == "complete" and one.objectives and {x, y} <= one.values.keys()]
    if len(shown) < FEWEST:
        return None
    values = np.array([one.objectives[place] for one in shown if one.objectives])
    width = WIDTH * len(shown) ** (-1 / 6)
    across, upwards = (_weights(space[key], [one.values[key] for one in shown], width) for key in (x, y))
    weights = upwards[:, None, :] * across[None, :, :]
    total = weights.sum(axis=2)
    means = (weights @ values) / np.maximum(total, np.finfo(float).tiny)
    return Surface(x, y, means, np.minimum(1.0, total))


def _weights(dimension: Dimension, values: Sequence[object], width: float) -> NDArray[np.float64]:
    """How much each trial counts in each cell of an axis, (cells, trials)."""
    there = np.array([position(dimension, value) for value in values])  # type: ignore[arg-type]
    if isinstance(dimension.distribution, CategoricalDistribution):
        choices = len(dimension.distribution.choices)
        cells = (np.arange(choices) + 0.5) / choices
        same: NDArray[np.bool_] = np.abs(cells[:, None] - there[None, :]) < 0.5 / choices
        return same.astype(float)
    cells = (np.arange(CELLS) + 0.5) / CELLS
    weights: NDArray[np.float64] = np.exp(-0.5 * ((cells[:, None] - there[None, :]) / width) ** 2)
    return weights
