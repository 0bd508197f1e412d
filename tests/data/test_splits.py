"""Selection of training, validation and test rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentattn.data.corpus import Corpus, Row
from sentattn.data.splits import (
    MOST_TEST_ROWS,
    Selection,
    apportion,
    draw,
    num_rows,
    repeats,
    select,
    set_aside,
    spread,
)
from sentattn.errors import DataError

# Row 1 repeats row 0; "both" stands in train and test; test repeats itself once.
TRAIN = ["one", "one", "two", "both", "three"]
TEST = ["both", "four", "four"]


def texts(corpus: Corpus, rows: list[int]) -> list[str]:
    return [corpus.text(row) for row in rows]


def test_duplicates_are_counted_and_kept(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=TRAIN, test=TEST)
    selection = select(corpus, drop_duplicates=False, val_size=2, split_seed=0)
    assert {split: len(rows) for split, rows in selection.rows.items()} == {"train": 3, "val": 2, "test": 3}
    assert list(selection.rows) == ["train", "val", "test"]
    assert selection.notes == [
        "Repeated texts: 1 in both train and test, 1 again in train, 1 again in test; "
        "data.drop_duplicates=true drops all but those in test."
    ]


def test_duplicates_are_dropped_where_asked_but_the_test_rows_stay(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=TRAIN, test=TEST)
    selection = select(corpus, drop_duplicates=True, val_size=1, split_seed=0)
    assert sorted(texts(corpus, [*selection.rows["train"], *selection.rows["val"]])) == ["one", "three", "two"]
    assert texts(corpus, selection.rows["test"]) == TEST
    assert "all but those in test were dropped" in selection.notes[0]


def test_a_source_keeps_its_own_validation_rows(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=["a", "b"], val=["b", "c"], test=["c", "d"])
    kept = select(corpus, drop_duplicates=False, val_size=None, split_seed=0)
    assert texts(corpus, kept.rows["val"]) == ["b", "c"]
    dropped = select(corpus, drop_duplicates=True, val_size=None, split_seed=0)
    assert [texts(corpus, dropped.rows[split]) for split in ("train", "val", "test")] == [["a"], ["b"], ["c", "d"]]


def test_rows_without_a_word_are_dropped_and_counted(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=["a", " ", "b", "<br />"], test=["c"])
    selection = select(corpus, drop_duplicates=False, val_size=1, split_seed=0)
    assert len(selection.rows["train"]) + len(selection.rows["val"]) == 2
    assert selection.notes == ["Dropped rows without a token: 2."]


def test_a_split_without_rows_is_refused(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=["a", "b"], test=[" "])
    with pytest.raises(DataError, match="No test row is left"):
        select(corpus, drop_duplicates=False, val_size=1, split_seed=0)


def test_fingerprint_follows_texts_labels_and_splits(corpus_of: Callable[..., Corpus]) -> None:
    def fingerprint(seed: int = 0, **rows: list[Row | str]) -> str:
        corpus = corpus_of(**rows)
        return select(corpus, drop_duplicates=False, val_size=4, split_seed=seed).fingerprint(corpus)

    train = [f"text {i}" for i in range(20)]
    same = fingerprint(train=train, test=["x"])
    assert same == fingerprint(train=train, test=["x"])
    others = [
        fingerprint(train=train, test=["y"]),
        fingerprint(train=train, test=[Row("x", 1)]),
        fingerprint(seed=1, train=train, test=["x"]),
    ]
    assert len({same, *others}) == 4


MANY = [Row(f"text {i}", i % 5) for i in range(100)]


def numbers(corpus: Corpus, selection: Selection, split: str) -> list[int]:
    """The rows of a split by the numbers in their texts."""
    return [int(text.split()[1]) for text in texts(corpus, selection.rows[split].tolist())]


def test_the_last_tenth_tests_where_no_rows_are_for_that(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY)
    selection = select(corpus, drop_duplicates=False, val_size=0.1, split_seed=0)
    assert list(selection.rows) == ["train", "val", "test"]
    assert numbers(corpus, selection, "test") == list(range(90, 100))
    assert len(selection.rows["val"]) == 9
    assert sorted(numbers(corpus, selection, "train") + numbers(corpus, selection, "val")) == list(range(90))
    assert selection.notes == ["The data has no test rows: the last 10 of its 100 rows are used for testing."]


def test_there_is_a_number_of_rows_that_is_enough_to_test_on(
    corpus_of: Callable[..., Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_TEST_ROWS == 10_000
    monkeypatch.setattr("sentattn.data.splits.MOST_TEST_ROWS", 6)
    corpus = corpus_of(train=MANY)
    selection = select(corpus, drop_duplicates=False, val_size=5, split_seed=0)
    assert numbers(corpus, selection, "test") == list(range(94, 100))


def test_test_rows_that_are_split_off_are_those_of_a_source_that_has_them(corpus_of: Callable[..., Corpus]) -> None:
    rows = [*MANY[:95], Row(" ", 0), *MANY[96:]]
    one, two = corpus_of(train=rows), corpus_of(train=rows[:90], test=rows[90:])
    prints = {select(c, drop_duplicates=True, val_size=7, split_seed=3).fingerprint(c) for c in (one, two)}
    assert len(prints) == 1


@pytest.mark.parametrize(("size", "last"), [(4, 4), (0.25, 25)])
def test_a_size_takes_the_last_rows(corpus_of: Callable[..., Corpus], size: float, last: int) -> None:
    corpus = corpus_of(train=MANY)
    selection = select(corpus, drop_duplicates=False, val_size=10, split_seed=0, test_size=size)
    assert numbers(corpus, selection, "test") == list(range(100 - last, 100))


def test_a_seed_draws_test_rows_of_every_class(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY)
    tested = []
    for test_seed, split_seed in ((1, 0), (1, 5), (2, 0)):
        settings = {"test_seed": test_seed, "split_seed": split_seed, "test_size": 20}
        selection = select(corpus, drop_duplicates=False, val_size=10, **settings)
        assert [sum(n % 5 == label for n in numbers(corpus, selection, "test")) for label in range(5)] == [4] * 5
        assert sorted(n for split in selection.rows for n in numbers(corpus, selection, split)) == list(range(100))
        assert f"20 (data.test_seed={test_seed}) of its 100 rows" in selection.notes[0]
        tested.append(numbers(corpus, selection, "test"))
    assert tested[0] == tested[1] != tested[2]


def test_some_of_the_sources_own_test_rows_may_be_chosen(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY[:50], test=MANY[50:])
    last = select(corpus, drop_duplicates=False, val_size=10, split_seed=0, test_size=10)
    drawn = select(corpus, drop_duplicates=False, val_size=10, split_seed=0, test_size=0.2, test_seed=0)
    assert numbers(corpus, last, "test") == list(range(90, 100))
    assert len(drawn.rows["test"]) == 10
    assert min(numbers(corpus, drawn, "test")) >= 50
    assert len(last.rows["train"]) + len(last.rows["val"]) == 50
    assert last.notes == drawn.notes == []


def test_all_of_the_sources_own_test_rows_may_be_chosen(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY[:50], test=MANY[50:])
    assert len(select(corpus, drop_duplicates=False, val_size=10, split_seed=0, test_size=50).rows["test"]) == 50
    with pytest.raises(DataError, match=r"data\.test_size must select 1 to 50 of 50 rows, .* got 51"):
        select(corpus, drop_duplicates=False, val_size=10, split_seed=0, test_size=51)


def test_a_seed_without_anything_to_choose_is_refused(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY[:50], test=MANY[50:])
    with pytest.raises(DataError) as caught:
        select(corpus, drop_duplicates=False, val_size=10, split_seed=0, test_seed=3)
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("data.test_seed", "no_effect")]


def test_fewer_rows_may_train_and_the_others_stay_what_they_are(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY)
    whole, some = (
        select(corpus, drop_duplicates=False, val_size=10, split_seed=4, train_size=size) for size in (None, 30)
    )
    assert numbers(corpus, some, "val") == numbers(corpus, whole, "val")
    assert numbers(corpus, some, "test") == numbers(corpus, whole, "test")
    trained = numbers(corpus, some, "train")
    assert trained == sorted(trained)
    assert set(trained) < set(numbers(corpus, whole, "train"))
    assert [sum(n % 5 == label for n in trained) for label in range(5)] == [6] * 5


def test_more_training_rows_than_there_are_is_refused(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY)
    sizes = {"train_size": 500, "val_size": 10, "test_size": 10}
    with pytest.raises(DataError) as caught:
        select(corpus, drop_duplicates=False, split_seed=0, **sizes)
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("data.train_size", "range")]
    assert len(select(corpus, drop_duplicates=False, split_seed=0, **{**sizes, "train_size": 80}).rows["train"]) == 80


def test_one_row_is_too_few_to_test(corpus_of: Callable[..., Corpus]) -> None:
    with pytest.raises(DataError) as caught:
        select(corpus_of(train=["a"]), drop_duplicates=False, val_size=1, split_seed=0)
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("data.test_size", "missing")]


@pytest.mark.parametrize(
    ("sizes", "total", "shares"),
    [
        ([10, 10], 5, [3, 2]),
        ([70, 20, 10], 10, [7, 2, 1]),
        ([1, 1, 1], 2, [1, 1, 0]),
        ([3, 2], 9, [3, 2]),
        ([3, 0], 2, [2, 0]),
    ],
)
def test_apportion(sizes: list[int], total: int, shares: list[int]) -> None:
    assert apportion(np.array(sizes), total).tolist() == shares


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=6), st.integers(0, 3000))
def test_shares_add_up_and_are_to_be_had(sizes: list[int], total: int) -> None:
    shares = apportion(np.array(sizes), total)
    assert shares.sum() == min(total, sum(sizes))
    assert (shares >= 0).all()
    assert (shares <= sizes).all()


def test_spread_takes_each_class_evenly() -> None:
    labels = np.array([0] * 10 + [1] * 10)
    assert spread(labels, 4).tolist() == [0, 5, 10, 15]
    assert spread(labels, 99).tolist() == list(range(20))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(0, 70), st.integers(0, 3))
def test_a_draw_takes_so_many_of_each_class_as_its_share(classes: list[int], total: int, seed: int) -> None:
    labels = np.array(classes)
    drawn = draw(labels, total, seed)
    assert drawn.sum() == min(total, len(labels))
    exact = np.bincount(labels, minlength=5) * drawn.sum() / len(labels)
    assert (np.abs(np.bincount(labels[drawn], minlength=5) - exact) < 1).all()


def test_a_smaller_draw_is_part_of_a_larger_one() -> None:
    labels = np.arange(1000) % 4
    small, large, other = draw(labels, 40, 7), draw(labels, 400, 7), draw(labels, 40, 8)
    assert (small <= large).all()
    assert (small != other).any()


@pytest.mark.parametrize(("size", "number"), [(1, 1), (7, 7), (8, 8), (0.1, 1), (0.24, 2), (0.8, 8)])
def test_a_size_is_a_number_or_a_share(size: float, number: int) -> None:
    assert num_rows("data.test_size", size, 10, most=8) == number


@pytest.mark.parametrize("size", [9, 0.9, 0.04, 0.0])
def test_a_size_that_cannot_be_is_refused(size: float) -> None:
    with pytest.raises(DataError, match=rf"data\.test_size must select 1 to 8 of 10 rows, .* got {size}"):
        num_rows("data.test_size", size, 10, most=8)


def test_set_aside_keeps_the_shares_of_the_classes() -> None:
    labels = np.array([0] * 80 + [1] * 20)
    train, val = set_aside(labels, 10, seed=0)
    assert np.bincount(labels[val]).tolist() == [8, 2]
    assert sorted([*train, *val]) == list(range(100))
    assert (np.diff(train) > 0).all()
    assert (np.diff(val) > 0).all()


def test_set_aside_depends_on_the_seed_alone() -> None:
    labels = np.arange(200) % 2
    same, again, other = (set_aside(labels, 0.25, seed)[1].tolist() for seed in (1, 1, 2))
    assert same == again != other
    assert len(same) == 50


@pytest.mark.parametrize("size", [10, 11, 0.0, 0.01, 0.99])
def test_set_aside_refuses_what_leaves_a_side_empty(size: int | float) -> None:
    with pytest.raises(DataError, match=rf"data\.val_size must select 1 to 9 of 10 rows, .* got {size}"):
        set_aside(np.zeros(10, dtype=np.int64), size, seed=0)


def test_one_row_cannot_be_split() -> None:
    with pytest.raises(DataError) as caught:
        set_aside(np.zeros(1, dtype=np.int64), 1, seed=0)
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("data.val_size", "missing")]


def test_repeats_are_the_later_ones() -> None:
    assert repeats(np.array([b"a", b"b", b"a", b"a", b"c"])).tolist() == [False, False, True, True, False]
