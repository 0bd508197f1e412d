"""Which rows of a split are shown as examples: the same ones for the same data, so that runs are comparable."""

from __future__ import annotations

from itertools import chain, zip_longest

import numpy as np
from numpy.typing import NDArray

LEGIBLE = 30
"""Tokens of a text whose attention is legible at a glance."""


def legible_rows(labels: NDArray[np.int64], lengths: NDArray[np.int64], count: int) -> list[int]:
    """Returns rows of each class in turn, those closest to `LEGIBLE` tokens first; ties in the order of the split.

    Args:
        labels: Class of each row.
        lengths: Tokens of each row.
        count: Most rows.
    """
    closest = np.argsort(np.abs(lengths - LEGIBLE), kind="stable")
    by_class = [closest[labels[closest] == label].tolist() for label in np.unique(labels)]
    turns = chain.from_iterable(zip_longest(*by_class))
    return [row for row in turns if row is not None][:count]


def spread_rows(rows: int, count: int) -> list[int]:
    """Returns the indices of `count` rows, or of all if there are fewer, spread evenly over a split."""
    count = min(rows, count)
    return [rows * i // count for i in range(count)]
