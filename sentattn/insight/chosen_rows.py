"""Which rows of a split are looked at: always the same ones of the same data, so that runs can be compared."""

from __future__ import annotations

from itertools import chain, zip_longest

import numpy as np
from numpy.typing import NDArray

LEGIBLE = 30
"""Tokens of a text whose attention is read at a glance."""


def legible_rows(labels: NDArray[np.int64], lengths: NDArray[np.int64], count: int) -> list[int]:
    """Returns rows of every class in turn, those nearest to `LEGIBLE` tokens first, of equals the first in the split.

    Args:
        labels: Class of each row.
        lengths: Tokens of each row.
        count: Most rows.
    """
    nearest = np.argsort(np.abs(lengths - LEGIBLE), kind="stable")
    by_class = [nearest[labels[nearest] == label].tolist() for label in np.unique(labels)]
    turns = chain.from_iterable(zip_longest(*by_class))
    return [row for row in turns if row is not None][:count]


def spread_rows(rows: int, count: int) -> list[int]:
    """Returns the indices of `count` rows, or of all there are, spread evenly over a split."""
    count = min(rows, count)
    return [rows * place // count for place in range(count)]
