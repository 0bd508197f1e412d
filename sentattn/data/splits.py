"""Training, validation and test rows of a corpus."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentattn.data.corpus import Corpus
from sentattn.errors import DataError, Fault

Splits = dict[str, NDArray[np.int64]]

MOST_TEST_ROWS, TEST_SHARE = 10_000, 0.1
"""Default number and share of test rows where the source has none; the smaller one is used."""


class Selection(NamedTuple):
    """The rows of `train`, `val` and `test`, and notes on them for the user."""

    rows: Splits
    notes: list[str]

    def fingerprint(self, corpus: Corpus) -> str:
        """Returns a hash over texts and labels of all splits, 16 hexadecimal digits."""
        content = hashlib.sha256()
        for split, rows in self.rows.items():
            content.update(f"{split} {len(rows)}\n".encode())
            content.update(corpus.row_ids[rows].tobytes())
            content.update(corpus.labels[rows].tobytes())
        return content.hexdigest()[:16]


def select(
    corpus: Corpus,
    *,
    drop_duplicates: bool,
    val_size: float | None,
    split_seed: int,
    train_size: int | None = None,
    test_size: float | None = None,
    test_seed: int | None = None,
) -> Selection:
    """Selects rows from the splits of the source: test rows first, training rows last.

    A source without training rows, on which a trained model is tested, keeps its splits.

    Args:
        corpus: All rows.
        drop_duplicates: Whether rows outside the test split are dropped whose text occurs earlier in
            their split or in a later split.
        val_size: Number or share of training rows used for validation, or None where the source has validation rows.
        split_seed: Seed of this selection, and of the selection of training rows.
        train_size: Number of training rows, stratified by class, or None for all.
        test_size: Number or share of the source's test rows, or of all rows where it has none. None: its test rows,
            or else a tenth of all rows, at most 10,000.
        test_seed: Seed of a stratified selection of test rows, or None for the last ones.

    Raises:
        DataError: If a split is empty, or has fewer rows than a setting asks for.
    """
    trains = "train" in corpus.splits
    assert val_size is not None or "val" in corpus.splits or not trains, "there are validation rows"
    tests = trains or "test" in corpus.splits
    rows, notes = _with_test(corpus, test_size, test_seed) if tests else (dict(corpus.splits), [])
    rows, dropped = _with_words(corpus, rows)
    notes += dropped + _duplicates(corpus, rows, drop_duplicates)
    if drop_duplicates:
        rows = _without_duplicates(corpus, rows)
    if val_size is not None and trains:
        all_rows = rows["train"]
        train, val = set_aside(corpus.labels[all_rows], val_size, split_seed)
        rows = {
            "train": all_rows[train],
            "val": all_rows[val],
            **{name: r for name, r in rows.items() if name != "train"},
        }
    if train_size is not None:
        rows["train"] = _drawn(corpus, rows["train"], train_size, split_seed)
    for split, its_rows in rows.items():
        if not len(its_rows):
            raise DataError(Fault(f"data.{split}", "missing", f"No {split} row is left; provide more rows."))
    return Selection(rows, notes)


def _with_test(corpus: Corpus, size: float | None, seed: int | None) -> tuple[Splits, list[str]]:
    """Selects the test rows from the source's test rows, or else from its training rows."""
    rows = dict(corpus.splits)
    split = "test" if "test" in rows else "train"
    candidates = rows[split]
    if split == "test" and size is None:
        if seed is not None:
            message = (
                f"data.test_seed={seed} has no effect: all {len(candidates):,} test rows of the data are used; type "
                "data.test_size=ROWS for fewer, or data.test_seed=null."
            )
            raise DataError(Fault("data.test_seed", "no_effect", message))
        return rows, []
    if size is None:
        size = max(1, min(MOST_TEST_ROWS, round(TEST_SHARE * len(candidates))))
    most = len(candidates) if split == "test" else len(candidates) - 1
    number = num_rows("data.test_size", size, len(candidates), most=most, what="test", among="rows")
    last = np.arange(len(candidates)) >= len(candidates) - number
    is_test = last if seed is None else draw(corpus.labels[candidates], number, seed)
    rows["test"] = candidates[is_test]
    if split == "test":
        return rows, []
    rows["train"] = candidates[~is_test]
    selected = f"the last {number:,}" if seed is None else f"{number:,} (data.test_seed={seed})"
    return rows, [f"The data has no test rows: {selected} of its {len(candidates):,} rows are used for testing."]


def _drawn(corpus: Corpus, rows: NDArray[np.int64], size: int, seed: int) -> NDArray[np.int64]:
    if size > len(rows):
        message = (
            f"data.train_size={size} asks for {size:,} training rows, but only {len(rows):,} remain after validation "
            "and test rows; type data.train_size=null to use all of them."
        )
        raise DataError(Fault("data.train_size", "range", message))
    return rows[draw(corpus.labels[rows], size, seed)]


def _with_words(corpus: Corpus, rows: Splits) -> tuple[Splits, list[str]]:
    lengths = corpus.lengths
    kept = {split: its_rows[lengths[its_rows] > 0] for split, its_rows in rows.items()}
    empty = sum(map(len, rows.values())) - sum(map(len, kept.values()))
    return kept, [f"Dropped rows without a token: {empty:,}."] if empty else []


def _duplicates(corpus: Corpus, rows: Splits, dropped: bool) -> list[str]:
    """Counts texts that occur in two splits, and rows that repeat an earlier row of their split."""
    ids = {split: corpus.row_ids[its_rows] for split, its_rows in rows.items()}
    names = list(ids)
    counts = [
        f"{common:,} in both {first} and {second}"
        for i, first in enumerate(names)
        for second in names[i + 1 :]
        if (common := len(np.intersect1d(ids[first], ids[second])))
    ]
    counts += [
        f"{again:,} again in {split}" for split in names if (again := int(np.count_nonzero(repeats(ids[split]))))
    ]
    if not counts:
        return []
    last = names[-1]
    remedy = (
        f"all but those in {last} were dropped"
        if dropped
        else f"data.drop_duplicates=true drops all but those in {last}"
    )
    return [f"Repeated texts: {', '.join(counts)}; {remedy}."]


def _without_duplicates(corpus: Corpus, rows: Splits) -> Splits:
    """Keeps the last split, and of the others the first row of each text that no later split contains."""
    names = list(rows)
    kept = dict(rows)
    for i, split in enumerate(names[:-1]):
        ids = corpus.row_ids[rows[split]]
        later = np.concatenate([corpus.row_ids[rows[name]] for name in names[i + 1 :]])
        kept[split] = rows[split][~repeats(ids) & ~np.isin(ids, later)]
    return kept


Rows = NDArray[np.int64]


def apportion(sizes: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Divides `total` in proportion to sizes, by largest remainder; no share exceeds its size."""
    exact = sizes * min(total, sizes.sum()) / max(1, sizes.sum())
    shares: Rows = np.floor(exact).astype(np.int64)
    missing = min(total, int(sizes.sum())) - int(shares.sum())
    shares[np.argsort(shares - exact, kind="stable")[:missing]] += 1
    return shares


def spread(labels: NDArray[np.int64], total: int) -> Rows:
    """Returns `total` positions in ascending order, stratified by class and spread evenly over each class."""
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    shares = apportion(np.array([len(rows) for rows in members]), total)
    spread_rows = [rows[np.arange(n) * len(rows) // max(1, n)] for rows, n in zip(members, shares, strict=True)]
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *spread_rows]))


def draw(labels: NDArray[np.int64], total: int, seed: int) -> NDArray[np.bool_]:
    """Returns the mask of a random, stratified selection of `total` rows.

    For the same rows and seed, a smaller selection of a class is a subset of a larger one.
    """
    random = np.random.default_rng(seed)
    classes, sizes = np.unique(labels, return_counts=True)
    drawn = np.zeros(len(labels), dtype=bool)
    for label, share in zip(classes, apportion(sizes, total), strict=True):
        drawn[random.permutation(np.flatnonzero(labels == label))[:share]] = True
    return drawn


def num_rows(setting: str, size: float, rows: int, *, most: int, what: str, among: str) -> int:
    """Returns how many rows a setting asks for.

    Args:
        setting: Name of the setting, such as `data.val_size`.
        size: Number of rows, or, below 1, their share.
        rows: Number of rows that there are.
        most: Most rows that may be selected.
        what: Purpose of the selected rows.
        among: Kind of rows that they are selected from.

    Raises:
        DataError: If the number is 0 or above `most`.
    """
    if most < 1:
        message = f"{rows:,} {among} are too few to select {what} rows; provide more rows."
        raise DataError(Fault(setting, "missing", message))
    number = size if isinstance(size, int) else round(size * rows)
    if not 0 < number <= most:
        message = (
            f"{setting}={size} asks for {number:,} {what} rows of {rows:,} {among}; "
            f"type a number from 1 to {most:,}, or a share such as {setting}=0.1."
        )
        raise DataError(Fault(setting, "range", message))
    return number


def set_aside(labels: NDArray[np.int64], size: float, seed: int) -> tuple[Rows, Rows]:
    """Splits positions at random into training and validation rows, stratified by class.

    Args:
        labels: Class of each row.
        size: Number of validation rows, or, below 1, their share of all rows.
        seed: Seed of the selection.

    Returns:
        Positions for training and for validation, each in ascending order.

    Raises:
        DataError: If no training or no validation row would be left.
    """
    most = len(labels) - 1
    total = num_rows("data.val_size", size, len(labels), most=most, what="validation", among="training rows")
    is_val = draw(labels, total, seed)
    return np.flatnonzero(~is_val), np.flatnonzero(is_val)


def repeats(ids: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    """Returns the mask of the rows whose text occurs in an earlier row."""
    repeated = np.ones(len(ids), dtype=bool)
    repeated[np.unique(ids, return_index=True)[1]] = False
    return repeated
