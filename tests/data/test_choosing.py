"""Which rows train, validate and test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sentattn.data.choosing import MOST_TEST_ROWS, Chosen, choose
from sentattn.data.corpus import Corpus
from sentattn.data.datasets.base import Row
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


MANY = [Row(f"text {i}", i % 5) for i in range(100)]


def numbers(corpus: Corpus, chosen: Chosen, split: str) -> list[int]:
    """The rows of a split by the numbers in their texts."""
    return [int(text.split()[1]) for text in texts(corpus, chosen.rows[split].tolist())]


def test_the_last_tenth_tests_where_no_rows_are_for_that(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY)
    chosen = choose(corpus, drop_duplicates=False, val_size=0.1, split_seed=0)
    assert list(chosen.rows) == ["train", "val", "test"]
    assert numbers(corpus, chosen, "test") == list(range(90, 100))
    assert len(chosen.rows["val"]) == 9
    assert sorted(numbers(corpus, chosen, "train") + numbers(corpus, chosen, "val")) == list(range(90))
    assert chosen.notes == ["The data has no test rows of its own: the last 10 of its 100 rows are taken."]


def test_there_is_a_number_of_rows_that_is_enough_to_test_on(
    corpus_of: Callable[..., Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_TEST_ROWS == 10_000
    monkeypatch.setattr("sentattn.data.choosing.MOST_TEST_ROWS", 6)
    corpus = corpus_of(train=MANY)
    chosen = choose(corpus, drop_duplicates=False, val_size=5, split_seed=0)
    assert numbers(corpus, chosen, "test") == list(range(94, 100))


def test_test_rows_that_are_split_off_are_those_of_a_source_that_has_them(corpus_of: Callable[..., Corpus]) -> None:
    rows = [*MANY[:95], Row(" ", 0), *MANY[96:]]
    one, two = corpus_of(train=rows), corpus_of(train=rows[:90], test=rows[90:])
    prints = {choose(c, drop_duplicates=True, val_size=7, split_seed=3).fingerprint(c) for c in (one, two)}
    assert len(prints) == 1


@pytest.mark.parametrize(("size", "last"), [(4, 4), (0.25, 25)])
def test_a_size_takes_the_last_rows(corpus_of: Callable[..., Corpus], size: float, last: int) -> None:
    corpus = corpus_of(train=MANY)
    chosen = choose(corpus, drop_duplicates=False, val_size=10, split_seed=0, test_size=size)
    assert numbers(corpus, chosen, "test") == list(range(100 - last, 100))


def test_a_seed_draws_test_rows_of_every_class(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY)
    tested = []
    for test_seed, split_seed in ((1, 0), (1, 5), (2, 0)):
        settings = {"test_seed": test_seed, "split_seed": split_seed, "test_size": 20}
        chosen = choose(corpus, drop_duplicates=False, val_size=10, **settings)
        assert [sum(n % 5 == label for n in numbers(corpus, chosen, "test")) for label in range(5)] == [4] * 5
        assert sorted(n for split in chosen.rows for n in numbers(corpus, chosen, split)) == list(range(100))
        assert chosen.notes[0].endswith(f"20, drawn with data.test_seed={test_seed}, of its 100 rows are taken.")
        tested.append(numbers(corpus, chosen, "test"))
    assert tested[0] == tested[1] != tested[2]


def test_some_of_the_sources_own_test_rows_may_be_chosen(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY[:50], test=MANY[50:])
    last = choose(corpus, drop_duplicates=False, val_size=10, split_seed=0, test_size=10)
    drawn = choose(corpus, drop_duplicates=False, val_size=10, split_seed=0, test_size=0.2, test_seed=0)
    assert numbers(corpus, last, "test") == list(range(90, 100))
    assert len(drawn.rows["test"]) == 10
    assert min(numbers(corpus, drawn, "test")) >= 50
    assert len(last.rows["train"]) + len(last.rows["val"]) == 50
    assert last.notes == drawn.notes == []


def test_all_of_the_sources_own_test_rows_may_be_chosen(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY[:50], test=MANY[50:])
    assert len(choose(corpus, drop_duplicates=False, val_size=10, split_seed=0, test_size=50).rows["test"]) == 50
    with pytest.raises(DataError, match=r"data\.test_size=51 asks for 51 test rows of 50 rows; .* from 1 to 50"):
        choose(corpus, drop_duplicates=False, val_size=10, split_seed=0, test_size=51)


def test_a_seed_without_anything_to_choose_is_refused(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY[:50], test=MANY[50:])
    with pytest.raises(DataError, match=r"data\.test_seed=3 .* all of them are taken; type data\.test_size=ROWS"):
        choose(corpus, drop_duplicates=False, val_size=10, split_seed=0, test_seed=3)


def test_fewer_rows_may_train_and_the_others_stay_what_they_are(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY)
    whole, some = (
        choose(corpus, drop_duplicates=False, val_size=10, split_seed=4, train_size=size) for size in (None, 30)
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
    told = r"data\.train_size=500 asks for 500 training rows, .* 80 are left; type data\.train_size=null"
    with pytest.raises(DataError, match=told):
        choose(corpus, drop_duplicates=False, split_seed=0, **sizes)
    assert len(choose(corpus, drop_duplicates=False, split_seed=0, **{**sizes, "train_size": 80}).rows["train"]) == 80


def test_one_row_is_too_few_to_test(corpus_of: Callable[..., Corpus]) -> None:
    with pytest.raises(DataError, match="Of 1 rows none can be set aside as test rows; give more rows"):
        choose(corpus_of(train=["a"]), drop_duplicates=False, val_size=1, split_seed=0)
