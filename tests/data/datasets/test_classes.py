"""Labels as people write them."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentattn.data.datasets.classes import (
    MOST_CLASSES,
    Seen,
    class_faults,
    in_order,
    is_scale,
    label_name,
    require_labels,
    unknown,
)
from sentattn.errors import DataError

WORDS = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ([1, 1.0, "1", "1.0", " +1 ", Decimal("1.00")], "1"),
        ([0, "0", -0.0, "-0", "-0.0"], "0"),
        ([-2.5, "-2.50", Decimal("-2.5")], "-2.5"),
        ([100, 1e2, "100"], "100"),
        ([1e-7, "0.0000001"], "0.0000001"),
        ([True, "True", "TRUE", "true "], "true"),
        (["very good", " very good\n"], "very good"),
        (["007"], "007"),
        (["1e3"], "1e3"),
        (["4,5"], "4,5"),
        ([None, "", "  ", math.nan, Decimal("nan")], None),
    ],
)
def test_what_is_one_class(values: list[Any], name: str | None) -> None:
    assert {label_name(value) for value in values} == {name}


@given(st.one_of(st.integers(), st.floats(-1e100, 1e100, allow_subnormal=False)))
def test_a_number_keeps_its_value_however_it_is_written(number: float) -> None:
    name = label_name(number)
    assert name is not None
    assert type(number)(name) == number
    assert name == label_name(str(number)) or "e" in str(number)


@given(WORDS)
def test_the_name_of_a_name_is_itself(word: str) -> None:
    name = label_name(word)
    assert name is None or label_name(name) == name


@pytest.mark.parametrize("value", [["a"], {"a": 1}, b"a", math.inf])
def test_what_is_no_label(value: object) -> None:
    with pytest.raises(TypeError):
        label_name(value)


def test_numbers_are_sorted_as_numbers_and_words_as_words() -> None:
    assert in_order(["10", "2.5", "-1", "2"]) == ("-1", "2", "2.5", "10")
    assert in_order(["10", "2", "many"]) == ("10", "2", "many")


def test_what_is_a_scale() -> None:
    assert is_scale(["1", "2", "3"], typed=False)
    assert is_scale(["bad", "ok", "good"], typed=True)
    assert not is_scale(["bad", "good", "ok"], typed=False)
    assert not is_scale(["0", "1"], typed=False)


@pytest.mark.parametrize(
    ("classes", "faults"),
    [
        ([], []),
        (["bad", "good"], []),
        (["bad", "good", "bad ", 1, 1.0], ["data.classes=[bad,good,bad ,1,1.0] names 1, bad more than once."]),
        (["bad"], ["data.classes=[bad] names one class; at least two are needed to tell apart."]),
        (["bad", " "], ["data.classes=[bad, ] holds an empty name; leave it out."]),
    ],
)
def test_faults_of_classes_that_are_given(classes: list[Any], faults: list[str]) -> None:
    assert class_faults(classes) == faults


def test_an_unknown_label_is_told_with_the_legal_ones() -> None:
    told = "the label 'god' is none of the classes of data.train: bad, good. Did you mean 'good'?"
    assert unknown("god", ["bad", "good"], "data.train") == told
    assert unknown("x" * 99, [f"c{i}" for i in range(25)], "data.train").endswith("c18, c19 and 5 more.")
    assert "x" * 41 not in unknown("x" * 99, ["a", "b"], "data.train")


def column(names: list[str], rows: int = 1) -> dict[str, Seen]:
    return {name: Seen(rows, f"line {number}") for number, name in enumerate(names, start=2)}


@pytest.mark.parametrize(
    ("seen", "beyond"),
    [
        (column([str(i) for i in range(20)]), column([str(i) for i in range(21)])),
        (column([str(i) for i in range(21)], rows=2), column([str(i) for i in range(21)])),
        *[
            (column(topics[:-1], rows=2), column(topics, rows=2))
            for topics in [[f"topic {i}" for i in range(MOST_CLASSES + 1)]]
        ],
    ],
)
def test_columns_of_labels_are_let_through_up_to_the_bound(seen: dict[str, Seen], beyond: dict[str, Seen]) -> None:
    require_labels(seen, "stars", "reviews.csv")
    with pytest.raises(DataError, match=f"has {len(beyond):,} different values"):
        require_labels(beyond, "stars", "reviews.csv")


@pytest.mark.parametrize(
    ("seen", "sentence"),
    [
        (column(["good"], rows=7), "all 7 rows have the label 'good' in 'stars'; at least two classes are needed"),
        (
            column([f"user {i}" for i in range(21)]),
            "'stars' has 21 different values in 21 rows, such as 'user 0', ",
        ),
        (column([f"user {i}" for i in range(21)]), "looks like names of single rows"),
        (column([f"{i}" for i in range(9000)], rows=3), "9,000 different values in 27,000 rows, such as '0', '1', '2'"),
        (column([f"{i}" for i in range(9000)], rows=3), "looks like a number or a counter"),
        (column([f"{i}.5" for i in range(30)]), "looks like measurements"),
        (column([f"I was there {i} times and it was always great." for i in range(30)]), "looks like texts"),
        (column([f"topic {i}" for i in range(1001)], rows=50), "too many for classes. Name the column of labels with"),
        (column([f"{i}" for i in range(100_001)]), "100,001 different values in the first 100,001 rows"),
    ],
)
def test_columns_of_something_else_are_refused_with_what_they_look_like(seen: dict[str, Seen], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        require_labels(seen, "stars", "reviews.csv")
    assert str(caught.value).startswith("reviews.csv: ")
    assert sentence in str(caught.value)
