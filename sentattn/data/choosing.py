"""Which rows of a corpus train, validate and test, and what was found on the way."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentattn.data.corpus import Corpus
from sentattn.data.splitting import draw, repeats, set_aside, wanted
from sentattn.errors import DataError

Splits = dict[str, NDArray[np.int64]]

MOST_TEST_ROWS, TEST_SHARE = 10_000, 0.1
"""What is taken for testing where neither the source nor a setting says it: the smaller of the two."""


class Chosen(NamedTuple):
    """The rows of `train`, `val` and `test`, and what the user should know of them."""

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


def choose(
    corpus: Corpus,
    *,
    drop_duplicates: bool,
    val_size: float | None,
    split_seed: int,
    train_size: int | None = None,
    test_size: float | None = None,
    test_seed: int | None = None,
) -> Chosen:
    """Chooses rows from the source's own splits. Test rows are chosen first, training rows last.

    A source without training rows, with which a trained model is tested, keeps its splits.

    Args:
        corpus: All rows.
        drop_duplicates: Whether rows outside the test split are dropped that repeat an earlier row of
            their split or stand in a later split.
        val_size: Number or share of training rows set aside for validation, or None where the source has its own.
        split_seed: Seed of which rows these are, and of which of the others train.
        train_size: Number of training rows, each class in its share, or None for all.
        test_size: Number or share of the source's own test rows, or of all rows where it has none. None: its own
            test rows, or else a tenth of all, 10,000 at most.
        test_seed: Seed of which rows these are, each class in its share, or None for the last ones.

    Raises:
        DataError: If a split has no row, too few are left, or there are fewer than a setting asks for.
    """
    trains = "train" in corpus.splits
    assert val_size is not None or "val" in corpus.splits or not trains, "some rows validate"
    tests = trains or "test" in corpus.splits
    rows, notes = _with_test(corpus, test_size, test_seed) if tests else (dict(corpus.splits), [])
    rows, dropped = _with_words(corpus, rows)
    notes += dropped + _duplicates(corpus, rows, drop_duplicates)
    if drop_duplicates:
        rows = _without_duplicates(corpus, rows)
    if val_size is not None and trains:
        train, val = set_aside(corpus.labels[rows["train"]], val_size, split_seed)
        own = rows["train"]
        rows = {"train": own[train], "val": own[val], **{name: r for name, r in rows.items() if name != "train"}}
    if train_size is not None:
        rows["train"] = _drawn(corpus, rows["train"], train_size, split_seed)
    for split, chosen in rows.items():
        if not len(chosen):
            raise DataError(f"No {split} row is left to work with; give more rows.")
    return Chosen(rows, notes)


def _with_test(corpus: Corpus, size: float | None, seed: int | None) -> tuple[Splits, list[str]]:
    """Takes the test rows, from the source's own or else from its training rows."""
    rows = dict(corpus.splits)
    split = "test" if "test" in rows else "train"
    found = rows[split]
    if split == "test" and size is None:
        if seed is not None:
            raise DataError(
                f"data.test_seed={seed} chooses among the {len(found):,} test rows that the data has of its own, and "
                "all of them are taken; type data.test_size=ROWS for fewer, or data.test_seed=null."
            )
        return rows, []
    if size is None:
        size = max(1, min(MOST_TEST_ROWS, round(TEST_SHARE * len(found))))
    most = len(found) if split == "test" else len(found) - 1
    number = wanted("data.test_size", size, len(found), most=most, what="test", among="rows")
    tested = np.arange(len(found)) >= len(found) - number if seed is None else draw(corpus.labels[found], number, seed)
    rows["test"] = found[tested]
    if split == "test":
        return rows, []
    rows["train"] = found[~tested]
    taken = f"the last {number:,}" if seed is None else f"{number:,}, drawn with data.test_seed={seed},"
    return rows, [f"The data has no test rows of its own: {taken} of its {len(found):,} rows are taken."]


def _drawn(corpus: Corpus, rows: NDArray[np.int64], size: int, seed: int) -> NDArray[np.int64]:
    if size > len(rows):
        raise DataError(
            f"data.train_size={size} asks for {size:,} training rows, and beside validation and test {len(rows):,} are "
            "left; type data.train_size=null to take them all."
        )
    return rows[draw(corpus.labels[rows], size, seed)]


def _with_words(corpus: Corpus, rows: Splits) -> tuple[Splits, list[str]]:
    lengths = corpus.lengths
    kept = {split: chosen[lengths[chosen] > 0] for split, chosen in rows.items()}
    empty = sum(map(len, rows.values())) - sum(map(len, kept.values()))
    return kept, [f"Dropped rows without a word or sign to read: {empty:,}."] if empty else []


def _duplicates(corpus: Corpus, rows: Splits, dropped: bool) -> list[str]:
    """Counts texts that stand in two splits, and rows that repeat an earlier row of their split."""
    ids = {split: corpus.row_ids[chosen] for split, chosen in rows.items()}
    names = list(ids)
    found = [
        f"{common:,} in both {first} and {second}"
        for i, first in enumerate(names)
        for second in names[i + 1 :]
        if (common := len(np.intersect1d(ids[first], ids[second])))
    ]
    found += [f"{again:,} again in {split}" for split in names if (again := int(np.count_nonzero(repeats(ids[split]))))]
    if not found:
        return []
    last = names[-1]
    told = (
        f"all but those in {last} were dropped"
        if dropped
        else f"data.drop_duplicates=true drops all but those in {last}"
    )
    return [f"Repeated texts: {', '.join(found)}; {told}."]


def _without_duplicates(corpus: Corpus, rows: Splits) -> Splits:
    """Keeps the last split as it is, and of the others the first row of each text that no later split has."""
    names = list(rows)
    kept = dict(rows)
    for place, split in enumerate(names[:-1]):
        ids = corpus.row_ids[rows[split]]
        later = np.concatenate([corpus.row_ids[rows[name]] for name in names[place + 1 :]])
        kept[split] = rows[split][~repeats(ids) & ~np.isin(ids, later)]
    return kept
