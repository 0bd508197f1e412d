"""Stratified selections of rows: evenly spread, or at random, by row or by group."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

NO_GROUP = -1
"""Group number of a row without a group."""


def apportion(sizes: Rows, total: int) -> Rows:
    """Divides `total` in proportion to `sizes` by largest remainder; no share exceeds its size."""
    total = min(total, int(sizes.sum()))
    exact = sizes * total / max(1, sizes.sum())
    shares: Rows = np.floor(exact).astype(np.int64)
    missing = total - int(shares.sum())
    shares[np.argsort(shares - exact, kind="stable")[:missing]] += 1
    return shares


def spread(labels: Rows, total: int) -> Rows:
    """Returns `total` positions in ascending order, stratified by class and evenly spread over each class."""
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    shares = apportion(np.array([len(rows) for rows in members]), total)
    spread_rows = [rows[np.arange(n) * len(rows) // max(1, n)] for rows, n in zip(members, shares, strict=True)]
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *spread_rows]))


def draw(labels: Rows, total: int, seed: int) -> Mask:
    """Returns the mask of a random, stratified selection of `total` rows.

    For the same rows and seed, a smaller selection of a class is a subset of a larger selection.
    """
    random = np.random.default_rng(seed)
    classes, sizes = np.unique(labels, return_counts=True)
    drawn = np.zeros(len(labels), dtype=bool)
    for label, share in zip(classes, apportion(sizes, total), strict=True):
        drawn[random.permutation(np.flatnonzero(labels == label))[:share]] = True
    return drawn


def draw_groups(labels: Rows, groups: Rows, total: int, seed: int) -> Mask:
    """Returns the mask of a random selection of whole groups with about `total` rows, stratified by class.

    First, each group is drawn, in random order, unless a class would exceed its share of `total`. Then, while a group
    brings the number of rows nearer to `total`, the group is drawn that brings the classes nearest to their shares
    (squared distance). Rows without a group are drawn one by one.

    The last rows of a class always stay for training. Otherwise, the number of rows differs from `total` by less than
    the size of the largest group.

    Args:
        labels: Class of each row.
        groups: Group of each row.
        total: Number of rows wanted.
        seed: Seed of the selection.
    """
    in_group = groups != NO_GROUP
    share = round(total * np.count_nonzero(in_group) / max(1, len(labels)))
    drawn = np.zeros(len(labels), dtype=bool)
    drawn[in_group] = _draw_whole(labels[in_group], groups[in_group], share, seed)
    drawn[~in_group] = draw(labels[~in_group], max(0, total - int(drawn.sum())), seed)
    for label in np.setdiff1d(labels, labels[~drawn]):
        drawn[np.flatnonzero((labels == label) & ~in_group)[0]] = False
    return drawn


def _draw_whole(labels: Rows, groups: Rows, total: int, seed: int) -> Mask:
    """Draws whole groups from rows that all have a group."""
    classes, class_N = np.unique(labels, return_inverse=True)
    names, group_N = np.unique(groups, return_inverse=True)
    rows_GC = np.zeros((len(names), len(classes)), dtype=np.int64)
    np.add.at(rows_GC, (group_N, class_N), 1)
    rows_G, most_C = rows_GC.sum(axis=1), rows_GC.sum(axis=0) - 1
    shares_C = apportion(most_C + 1, total)
    limit_C = np.minimum(shares_C, most_C)
    drawn_C, drawn_G = np.zeros_like(most_C), np.zeros(len(names), dtype=bool)
    for group in np.random.default_rng(seed).permutation(len(names)):
        if (drawn_C + rows_GC[group] <= limit_C).all():
            drawn_C += rows_GC[group]
            drawn_G[group] = True
    while (missing := int((shares_C - drawn_C).sum())) > 0:
        is_nearer = (rows_G < 2 * missing) | (not drawn_G.any())
        left = np.flatnonzero(~drawn_G & is_nearer & (drawn_C + rows_GC <= most_C).all(axis=1))
        if not len(left):
            break
        group = left[np.argmin(((shares_C - drawn_C - rows_GC[left]) ** 2).sum(axis=1))]
        drawn_C += rows_GC[group]
        drawn_G[group] = True
    mask: Mask = drawn_G[group_N]
    return mask
