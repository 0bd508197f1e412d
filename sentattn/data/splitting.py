"""Which rows train and which validate; which are repeats."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sentattn.errors import DataError

Rows = NDArray[np.int64]


def apportion(sizes: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Shares `total` out in proportion to sizes, by largest remainder; no share exceeds its size."""
    exact = sizes * min(total, sizes.sum()) / max(1, sizes.sum())
    shares: Rows = np.floor(exact).astype(np.int64)
    missing = min(total, int(sizes.sum())) - int(shares.sum())
    shares[np.argsort(shares - exact, kind="stable")[:missing]] += 1
    return shares


def spread(labels: NDArray[np.int64], total: int) -> Rows:
    """Returns `total` positions, in their order: as many of each class as its share, spread evenly over it."""
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    shares = apportion(np.array([len(rows) for rows in members]), total)
    taken = [rows[np.arange(n) * len(rows) // max(1, n)] for rows, n in zip(members, shares, strict=True)]
    return np.sort(np.concatenate(taken))


def set_aside(labels: NDArray[np.int64], size: int | float, seed: int) -> tuple[Rows, Rows]:
    """Splits positions at random into training and validation, each with the classes in the same shares.

    Args:
        labels: Class of each row.
        size: Number of validation rows, or, below 1, their share of all rows.
        seed: Seed of the choice.

    Returns:
        Positions for training and for validation, each in ascending order.

    Raises:
        DataError: If that leaves no row on one of the sides.
    """
    if len(labels) < 2:
        raise DataError(f"Of {len(labels)} training rows none can be set aside for validation; give more rows.")
    wanted = size if isinstance(size, int) else round(size * len(labels))
    if not 0 < wanted < len(labels):
        raise DataError(
            f"data.val_size={size} asks for {wanted:,} validation rows of {len(labels):,} training rows; "
            f"type a number from 1 to {len(labels) - 1:,}, or a share such as data.val_size=0.1."
        )
    random = np.random.default_rng(seed)
    classes = np.unique(labels)
    shares = apportion(np.array([np.count_nonzero(labels == label) for label in classes]), wanted)
    chosen = np.zeros(len(labels), dtype=bool)
    for label, share in zip(classes, shares, strict=True):
        chosen[random.permutation(np.flatnonzero(labels == label))[:share]] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def repeats(ids: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    """Returns which rows have a text that an earlier row has."""
    repeated = np.ones(len(ids), dtype=bool)
    repeated[np.unique(ids, return_index=True)[1]] = False
    return repeated
