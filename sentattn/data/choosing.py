"""Which rows of a corpus train, validate and test, and what was found on the way."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentattn.data.corpus import Corpus
from sentattn.data.splitting import repeats, set_aside
from sentattn.errors import DataError

Splits = dict[str, NDArray[np.int64]]


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


def choose(corpus: Corpus, *, drop_duplicates: bool, val_size: float | None, split_seed: int) -> Chosen:
    """Chooses rows from the source's own splits.

    Args:
        corpus: All rows.
        drop_duplicates: Whether rows outside the test split are dropped that repeat an earlier row of
            their split or stand in a later split.
        val_size: Number or share of training rows set aside for validation, or None where the source has its own.
        split_seed: Seed of which rows these are.

    Raises:
        DataError: If a split has no row, or too few are left.
    """
    assert val_size is not None or "val" in corpus.splits, "validation rows come from the source or from training"
    rows, notes = _with_words(corpus)
    notes += _duplicates(corpus, rows, drop_duplicates)
    if drop_duplicates:
        rows = _without_duplicates(corpus, rows)
    if val_size is not None:
        train, val = set_aside(corpus.labels[rows["train"]], val_size, split_seed)
        own = rows["train"]
        rows = {"train": own[train], "val": own[val], **{name: r for name, r in rows.items() if name != "train"}}
    for split, chosen in rows.items():
        if not len(chosen):
            raise DataError(f"No {split} row is left to work with; give more rows.")
    return Chosen(rows, notes)


def _with_words(corpus: Corpus) -> tuple[Splits, list[str]]:
    lengths = corpus.lengths
    empty = int(np.count_nonzero(lengths == 0))
    notes = [f"Dropped rows without a word or sign to read: {empty:,}."] if empty else []
    return {split: rows[lengths[rows] > 0] for split, rows in corpus.splits.items()}, notes


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
