"""Which rows train, validate and test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sentattn.data.choosing import choose
from sentattn.data.corpus import Corpus
from sentattn.data.sources.base import Row
from sentattn.errors import DataError

# Row 1 repeats row 0; "both" stands in train and test; test repeats itself once.
TRAIN = ["one", "one", "two", "both", "three"]
TEST = ["both", "four", "four"]


def texts(corpus: Corpus, rows: list[int]) -> list[str]:
    return [corpus.text(row) for row in rows]


def test_duplicates_are_counted_and_kept(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=TRAIN, test=TEST)
    chosen = choose(corpus, drop_duplicates=False, val_size=2, split_seed=0)
    assert {split: len(rows) for split, rows in chosen.rows.items()} == {"train": 3, "val": 2, "test": 3}
    assert list(chosen.rows) == ["train", "val", "test"]
    assert chosen.notes == [
        "Repeated texts: 1 in both train and test, 1 again in train, 1 again in test; "
        "data.drop_duplicates=true drops all but those in test."
    ]


def test_duplicates_are_dropped_where_asked_but_the_test_rows_stay(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=TRAIN, test=TEST)
    chosen = choose(corpus, drop_duplicates=True, val_size=1, split_seed=0)
    assert sorted(texts(corpus, [*chosen.rows["train"], *chosen.rows["val"]])) == ["one", "three", "two"]
    assert texts(corpus, chosen.rows["test"]) == TEST
    assert "all but those in test were dropped" in chosen.notes[0]


def test_a_source_keeps_its_own_validation_rows(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=["a", "b"], val=["b", "c"], test=["c", "d"])
    kept = choose(corpus, drop_duplicates=False, val_size=None, split_seed=0)
    assert texts(corpus, kept.rows["val"]) == ["b", "c"]
    dropped = choose(corpus, drop_duplicates=True, val_size=None, split_seed=0)
    assert [texts(corpus, dropped.rows[split]) for split in ("train", "val", "test")] == [["a"], ["b"], ["c", "d"]]


def test_rows_without_a_word_are_dropped_and_counted(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=["a", " ", "b", "<br />"], test=["c"])
    chosen = choose(corpus, drop_duplicates=False, val_size=1, split_seed=0)
    assert len(chosen.rows["train"]) + len(chosen.rows["val"]) == 2
    assert chosen.notes == ["Dropped rows without a word or sign to read: 2."]


def test_a_split_without_rows_is_refused(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=["a", "b"], test=[" "])
    with pytest.raises(DataError, match="No test row is left"):
        choose(corpus, drop_duplicates=False, val_size=1, split_seed=0)


def test_fingerprint_follows_texts_labels_and_splits(corpus_of: Callable[..., Corpus]) -> None:
    def fingerprint(seed: int = 0, **rows: list[Row | str]) -> str:
        corpus = corpus_of(**rows)
        return choose(corpus, drop_duplicates=False, val_size=4, split_seed=seed).fingerprint(corpus)

    train = [f"text {i}" for i in range(20)]
    same = fingerprint(train=train, test=["x"])
    assert same == fingerprint(train=train, test=["x"])
    others = [
        fingerprint(train=train, test=["y"]),
        fingerprint(train=train, test=[Row("x", 1)]),
        fingerprint(seed=1, train=train, test=["x"]),
    ]
    assert len({same, *others}) == 4
