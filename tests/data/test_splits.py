"""Selection of training, validation and test rows."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from refusals import assert_refused, refused

from sentattn.data import splits
from sentattn.data.corpus import Corpus, Row
from sentattn.data.splits import MAX_TEST_ROWS, By, Division, Selection, draw_folds, few_rows, num_rows, odd_labels

# Row 1 repeats row 0; "both" stands in train and test; test repeats itself once.
TRAIN = ["one", "one", "two", "both", "three"]
TEST = ["both", "four", "four"]


def select(corpus: Corpus, **settings: object) -> Selection:
    division = Division()
    vars(division).update(settings)
    return splits.select(corpus, division)


def texts(corpus: Corpus, rows: list[int]) -> list[str]:
    return [corpus.text(row) for row in rows]


def test_duplicates_are_counted_and_kept(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=TRAIN, test=TEST)
    selection = select(corpus, val_size=2)
    assert {split: len(rows) for split, rows in selection.rows.items()} == {"train": 3, "val": 2, "test": 3}
    assert list(selection.rows) == ["train", "val", "test"]
    [note] = selection.notes
    assert all(part in note for part in ("1 in both train and test", "1 again in train", "1 again in test"))


def test_duplicates_are_dropped_outside_the_test_rows(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=TRAIN, test=TEST)
    selection = select(corpus, drop_duplicates=True, val_size=1)
    assert sorted(texts(corpus, [*selection.rows["train"], *selection.rows["val"]])) == ["one", "three", "two"]
    assert texts(corpus, selection.rows["test"]) == TEST
    assert "were dropped" in selection.notes[0]


def test_training_rows_that_are_all_dropped_are_named(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=TEST, test=TEST)
    assert refused(lambda: select(corpus, drop_duplicates=True, val_size=1)) == [("data.drop_duplicates", "missing")]


def test_a_source_keeps_its_own_validation_rows(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=["a", "b"], val=["b", "c"], test=["c", "d"])
    kept = select(corpus)
    assert texts(corpus, kept.rows["val"]) == ["b", "c"]
    dropped = select(corpus, drop_duplicates=True)
    assert [texts(corpus, dropped.rows[split]) for split in ("train", "val", "test")] == [["a"], ["b"], ["c", "d"]]


def test_rows_without_a_word_are_dropped_and_counted(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=["a", " ", "b", "<br />"], test=["c"])
    selection = select(corpus, val_size=1)
    assert len(selection.rows["train"]) + len(selection.rows["val"]) == 2
    assert [re.findall(r"\d+", note) for note in selection.notes] == [["2"]]


def test_a_split_without_rows_is_refused(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=["a", "b", "c"], test=[" "])
    assert_refused(lambda: select(corpus, val_size=1), "data.test", "missing", "test")


def test_fingerprint_follows_texts_labels_and_splits(corpus_of: Callable[..., Corpus]) -> None:
    def fingerprint(seed: int = 0, **rows: list[Row | str]) -> str:
        corpus = corpus_of(**rows)
        return select(corpus, val_size=4, split_seed=seed).fingerprint(corpus)

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


def test_the_test_split_is_the_last_tenth_by_default(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY)
    selection = select(corpus, val_size=0.1)
    assert list(selection.rows) == ["train", "val", "test"]
    assert numbers(corpus, selection, "test") == list(range(90, 100))
    assert len(selection.rows["val"]) == 9
    assert sorted(numbers(corpus, selection, "train") + numbers(corpus, selection, "val")) == list(range(90))
    assert ["the last 10 of its 100" in note for note in selection.notes] == [True]


def test_the_default_test_split_has_a_greatest_size(
    corpus_of: Callable[..., Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_TEST_ROWS == 10_000
    monkeypatch.setattr("sentattn.data.splits.MAX_TEST_ROWS", 6)
    corpus = corpus_of(train=MANY)
    selection = select(corpus, val_size=5)
    assert numbers(corpus, selection, "test") == list(range(94, 100))


def test_test_rows_split_off_equal_a_test_split_of_the_source(corpus_of: Callable[..., Corpus]) -> None:
    rows = [*MANY[:95], Row(" ", 0), *MANY[96:]]
    one, two = corpus_of(train=rows), corpus_of(train=rows[:90], test=rows[90:])
    prints = {select(c, drop_duplicates=True, val_size=7, split_seed=3).fingerprint(c) for c in (one, two)}
    assert len(prints) == 1


def test_no_training_rows_are_set_aside_for_testing(corpus_of: Callable[..., Corpus]) -> None:
    settings = {"val_size": 1, "test_size": 0}
    corpus = corpus_of(train=MANY[:3])
    assert {split: len(rows) for split, rows in select(corpus, **settings).rows.items()} == {"train": 2, "val": 1}
    tested = corpus_of(train=MANY[:3], test=MANY[3:])
    assert refused(lambda: select(tested, **settings)) == [("data.test_size", "range")]


def test_test_seed_draws_stratified_test_rows(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY)
    tested = []
    for test_seed, split_seed in ((1, 0), (1, 5), (2, 0)):
        settings = {"test_seed": test_seed, "split_seed": split_seed, "test_size": 20}
        selection = select(corpus, val_size=10, **settings)
        assert [sum(n % 5 == label for n in numbers(corpus, selection, "test")) for label in range(5)] == [4] * 5
        assert sorted(n for split in selection.rows for n in numbers(corpus, selection, split)) == list(range(100))
        assert f"20 (data.test_seed={test_seed}) of its 100 rows" in selection.notes[0]
        tested.append(numbers(corpus, selection, "test"))
    assert tested[0] == tested[1] != tested[2]


def test_some_test_rows_of_the_source_may_be_drawn(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY[:50], test=MANY[50:])
    last = select(corpus, val_size=10, test_size=10)
    drawn = select(corpus, val_size=10, test_size=0.2, test_seed=0)
    assert numbers(corpus, last, "test") == list(range(90, 100))
    assert len(drawn.rows["test"]) == 10
    assert min(numbers(corpus, drawn, "test")) >= 50
    assert len(last.rows["train"]) + len(last.rows["val"]) == 50
    assert last.notes == drawn.notes == []
    assert len(select(corpus, val_size=10, test_size=50).rows["test"]) == 50
    assert refused(lambda: select(corpus, val_size=10, test_size=51)) == [("data.test_size", "range")]


def test_fewer_training_rows_leave_the_other_splits_unchanged(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY)
    whole, some = (select(corpus, val_size=10, split_seed=4, train_size=size) for size in (None, 30))
    assert numbers(corpus, some, "val") == numbers(corpus, whole, "val")
    assert numbers(corpus, some, "test") == numbers(corpus, whole, "test")
    trained, validated = (numbers(corpus, some, split) for split in ("train", "val"))
    assert (trained, validated) == (sorted(trained), sorted(validated))
    assert set(trained) < set(numbers(corpus, whole, "train"))
    assert [sum(n % 5 == label for n in trained) for label in range(5)] == [6] * 5


def test_the_seed_of_training_rows_draws_others_and_leaves_the_other_splits(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY)
    settings = {"val_size": 10, "split_seed": 4}
    default, same, other = (select(corpus, **settings, train_size=30, train_seed=seed) for seed in (None, 4, 5))
    assert numbers(corpus, default, "train") == numbers(corpus, same, "train") != numbers(corpus, other, "train")
    assert numbers(corpus, default, "val") == numbers(corpus, other, "val")
    assert numbers(corpus, default, "test") == numbers(corpus, other, "test")
    larger = select(corpus, **settings, train_size=50, train_seed=5)
    assert set(numbers(corpus, other, "train")) < set(numbers(corpus, larger, "train"))


def test_more_training_rows_than_there_are_is_refused(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=MANY)
    settings = {"val_size": 10, "test_size": 10}
    assert refused(lambda: select(corpus, train_size=500, **settings)) == [("data.train_size", "range")]
    assert len(select(corpus, train_size=80, **settings).rows["train"]) == 80


FILMS = [Row(f"text {i}", i % 2, group=f"film {i // 6}") for i in range(120)]


def groups(corpus: Corpus, rows: Sequence[int]) -> set[str]:
    return {corpus.group(row) for row in rows}


@pytest.mark.parametrize("settings", [{}, {"train_size": 40}, {"drop_duplicates": True}])
def test_validation_rows_are_whole_groups(corpus_of: Callable[..., Corpus], settings: dict[str, object]) -> None:
    corpus = corpus_of(train=[*FILMS, FILMS[0]], test=["x"])
    selection = select(corpus, val_size=12, val_by="group", **settings)
    train, val = selection.rows["train"], selection.rows["val"]
    assert (len(val), len(groups(corpus, val))) == (12, 2)
    assert not groups(corpus, train) & groups(corpus, val)
    assert np.bincount(corpus.labels[val]).tolist() == [6, 6]
    assert "2 of 20 groups" in selection.notes[-1]


def test_rows_without_a_group_are_drawn_and_counted(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=[*FILMS, *MANY[:60]], test=["x"])
    selection = select(corpus, val_size=18, val_by="group")
    assert len(selection.rows["val"]) == 18
    assert re.findall(r"\d+ of \d+ \w+", selection.notes[-1]) == ["2 of 20 groups", "6 of 60 rows"]
    corpus = corpus_of(train=MANY, test=["x"])
    by_group, by_row = (select(corpus, val_size=18, split_seed=3, val_by=by) for by in ("group", "row"))
    assert by_group.fingerprint(corpus) == by_row.fingerprint(corpus)


@pytest.mark.parametrize("seed", range(2))
def test_names_of_groups_do_not_matter(corpus_of: Callable[..., Corpus], seed: int) -> None:
    names = np.random.default_rng(seed).permutation(20)
    renamed = [replace(row, group=f"a {names[i // 6]}") for i, row in enumerate(FILMS)]
    one, other = (
        select(corpus_of(train=rows, test=["x"]), val_size=0.2, split_seed=seed, val_by="group")
        for rows in (FILMS, renamed)
    )
    assert one.rows["val"].tolist() == other.rows["val"].tolist()


def test_one_group_cannot_be_divided(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=[Row(f"text {i}", i % 2, group="film") for i in range(20)], test=["x"])
    assert refused(lambda: select(corpus, val_size=2, val_by="group")) == [("data.val_by", "conflict")]


@pytest.mark.parametrize(("size", "number"), [(1, 1), (7, 7), (8, 8), (0.1, 1), (0.04, 1), (0.24, 2), (0.8, 8)])
def test_a_size_is_a_number_or_a_share(size: float, number: int) -> None:
    assert num_rows("data.test_size", size, 10, most=8) == number


@pytest.mark.parametrize("size", [10, 11, 0.0, 0.99])
def test_a_size_that_leaves_a_split_empty_is_refused(corpus_of: Callable[..., Corpus], size: float) -> None:
    corpus = corpus_of(train=[f"text {i}" for i in range(10)], test=["x"])
    assert_refused(lambda: select(corpus, val_size=size), "data.val_size", "range", "1 to 9 of 10 ", f"got {size}")


def test_one_row_cannot_be_split() -> None:
    assert refused(lambda: num_rows("data.val_size", 1, 1, most=0)) == [("data.val_size", "missing")]


@pytest.mark.parametrize(
    ("splits", "val_size", "least"),
    [(("train",), 0.1, 4), (("train", "test"), 0.1, 3), (("train", "test"), 1, 3), (("train", "val"), None, 3)],
)
def test_the_fewest_rows_that_can_be_split(
    corpus_of: Callable[..., Corpus], splits: tuple[str, ...], val_size: float | None, least: int
) -> None:
    def selected(rows: int) -> dict[str, int]:
        given = {split: [f"{split} {i}" for i in range(rows)] for split in splits}
        rows_of = select(corpus_of(**given), val_size=val_size).rows
        return {split: len(found) for split, found in rows_of.items()}

    assert selected(least)["train"] == 2
    assert min(selected(least).values()) >= 1
    too_few = f"{least - 1} rows are too few: {least} at least"
    assert_refused(lambda: selected(least - 1), "data.train", "missing", too_few)


@pytest.mark.parametrize(
    ("train", "val", "named"),
    [
        ([0, 0, 1, 1], [0, 1], []),
        ([0, 0, 1], [0, 1], ["bad (1 train, 1 val, 2 test)"]),
        ([0, 0, 1, 1], [0], ["bad (2 train, 0 val, 2 test)"]),
        ([0, 0], [0], ["bad (0 train, 0 val, 2 test)"]),
        ([0, 1], [0, 1], ["good (1 train, 1 val, 2 test)", "bad (1 train, 1 val, 2 test)"]),
    ],
)
def test_classes_with_few_rows_are_warned_of(
    corpus_of: Callable[..., Corpus], train: list[int], val: list[int], named: list[str]
) -> None:
    labels = {"train": train, "val": val, "test": [0, 0, 1, 1]}
    corpus = corpus_of(
        **{split: [Row(f"{split} {i}", one) for i, one in enumerate(its)] for split, its in labels.items()}
    )
    rows = select(corpus).rows
    messages = few_rows(corpus, rows, ("good", "bad"))
    assert len(messages) == bool(named)
    assert all(name in messages[0] for name in named)
    assert sum(message.count("train") for message in messages) == len(named)


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        (("good", "Good", "bad"), ["'good', 'Good'"]),
        (("A", "\uff21", "B"), ["'A', '\uff21'"]),  # a letter of full width
        (("pos", "pos\u200d", "neg"), [r"'pos', 'pos\u200d'"]),  # a character that is not seen
        (("a", "b", "a|b", "a|c", "b|c"), ["'|'"]),
        (("a", "b", "a|b"), []),
        (("a;b", "b;c"), []),  # two classes are no sets of labels
        (("good", "bad"), []),
    ],
)
def test_labels_that_may_be_none_of_the_users_are_warned_of(labels: tuple[str, ...], named: list[str]) -> None:
    messages = odd_labels(labels)
    assert len(messages) == len(named)
    assert all(name in message for name, message in zip(named, messages, strict=True))


def test_few_of_many_classes_are_named(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=[Row("a", 0)], val=["b"], test=["c"])
    labels = [f"class {i}" for i in range(1000)]
    [message] = few_rows(corpus, corpus.splits, labels)
    assert message.count("class ") == 10
    assert "and 990 more" in message


def test_many_groups_and_classes_take_little_memory(corpus_of: Callable[..., Corpus]) -> None:
    rows = [Row(f"text {i}", i % 1500, group=f"film {i}") for i in range(6000)]
    corpus = corpus_of(train=rows, test=["x"])
    tracemalloc.start()
    try:
        selection = select(corpus, val_size=0.25, val_by="group")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(selection.rows["val"]) == 1500
    assert peak < 6000 * 1500  # a byte for each group and class


def folds_of(corpus: Corpus, folds: int, seed: int = 0, by: By = "row") -> list[Selection]:
    """The selections with each fold as the test set."""
    settings = {"val_size": 0.1, "split_seed": seed}
    return [select(corpus, **settings, val_by=by, folds=folds, fold=fold) for fold in range(folds)]


@pytest.mark.parametrize(("given", "by"), [(MANY, "row"), (FILMS, "group"), ([*FILMS, *MANY[:60]], "group")])
def test_each_row_is_in_one_fold_with_its_share_of_each_class(
    corpus_of: Callable[..., Corpus], given: list[Row], by: By
) -> None:
    corpus = corpus_of(train=given)
    rows = [selection.rows for selection in folds_of(corpus, 5, by=by)]
    assert sorted(np.concatenate([each["test"] for each in rows])) == list(range(len(given)))
    assert all(sorted(np.concatenate([*each.values()])) == list(range(len(given))) for each in rows)
    classes = np.array([np.bincount(corpus.labels[each["test"]], minlength=2) for each in rows])
    assert np.ptp(classes, axis=0).max() <= (1 if by == "row" else 3), "a film has three rows of each class"
    if by == "group":
        train, test = ({row for row in rows[0][split] if corpus.group(row)} for split in ("train", "test"))
        assert not groups(corpus, [*train]) & groups(corpus, [*test])


def test_uneven_groups_make_even_folds() -> None:
    random = np.random.default_rng(0)
    group_N = np.repeat(np.arange(31), [60, *random.integers(1, 17, 30)])
    labels = random.integers(3, size=len(group_N))
    for seed in range(20):
        sizes = np.bincount(draw_folds(labels, group_N, 5, seed))
        assert np.ptp(sizes) <= 12, "the largest group has a fifth of the rows"


def test_folds_are_drawn_with_the_seed(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=FILMS)
    for by in ("row", "group"):
        one, same, other = (folds_of(corpus, 4, seed, by)[1].fingerprint(corpus) for seed in (0, 0, 1))  # type: ignore[arg-type]
        assert one == same != other


TWO = [Row(f"text {i}", i % 2, group=f"film {i % 2}") for i in range(20)]


@pytest.mark.parametrize(
    ("given", "by", "key", "kind", "word"),
    [
        ({"train": MANY, "test": ["x"]}, "row", "data.folds", "conflict", "test rows"),
        ({"train": [*MANY, Row("rare", 5)]}, "row", "data.folds", "range", "'class 5' has 1"),
        ({"train": TWO[::2] + [replace(row, label=1) for row in TWO[::2]]}, "group", "data.folds", "range", "are 1"),
        ({"train": [*TWO, replace(TWO[0], group="film 2")]}, "group", "data.folds", "conflict", "data.val_by=row"),
    ],
)
def test_rows_that_cannot_be_divided_into_folds(
    corpus_of: Callable[..., Corpus], given: dict[str, list[Row]], by: By, key: str, kind: str, word: str
) -> None:
    assert_refused(lambda: folds_of(corpus_of(**given), 3, by=by), key, kind, word)


def test_a_fold_that_there_is_not(corpus_of: Callable[..., Corpus]) -> None:
    settings = {"val_size": 0.1}
    assert refused(lambda: select(corpus_of(train=MANY), **settings, folds=5, fold=5)) == [("data.fold", "range")]  # type: ignore[arg-type]
