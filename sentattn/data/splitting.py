"""Rows drawn at random or spread evenly, each class in its share; which rows are repeats."""

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
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *taken]))


def draw(labels: NDArray[np.int64], total: int, seed: int) -> NDArray[np.bool_]:
    """Returns which rows a random choice of `total` takes: as many of each class as its share.

    Of the same rows and with the same seed, what fewer rows of a class are drawn is among what more are.
    """
    random = np.random.default_rng(seed)
    classes, sizes = np.unique(labels, return_counts=True)
    drawn = np.zeros(len(labels), dtype=bool)
    for label, share in zip(classes, apportion(sizes, total), strict=True):
        drawn[random.permutation(np.flatnonzero(labels == label))[:share]] = True
    return drawn


def wanted(setting: str, size: float, rows: int, *, most: int, what: str, among: str) -> int:
    """Returns how many rows a setting asks for.

    Args:
        setting: Its name, such as `data.val_size`.
        size: Number of rows, or, below 1, their share.
        rows: How many there are.
        most: How many of them may be taken.
        what: What the rows are taken for.
        among: What they are taken from.

    Raises:
        DataError: If that is no row or more than may be taken.
    """
    if most < 1:
        raise DataError(f"Of {rows:,} {among} none can be set aside as {what} rows; give more rows.")
    number = size if isinstance(size, int) else round(size * rows)
    if not 0 < number <= most:
        raise DataError(
            f"{setting}={size} asks for {number:,} {what} rows of {rows:,} {among}; "
            f"type a number from 1 to {most:,}, or a share such as {setting}=0.1."
        )
    return number


def set_aside(labels: NDArray[np.int64], size: float, seed: int) -> tuple[Rows, Rows]:
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
    most = len(labels) - 1
    total = wanted("data.val_size", size, len(labels), most=most, what="validation", among="training rows")
    chosen = draw(labels, total, seed)
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def repeats(ids: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    """Returns which rows have a text that an earlier row has."""
    repeated = np.ones(len(ids), dtype=bool)
    repeated[np.unique(ids, return_index=True)[1]] = False
    return repeated
