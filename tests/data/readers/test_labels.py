"""Labels as people write them."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from sentattn.data.readers.tables import (
    MAX_CLASSES,
    label_name,
    require_labels,
    setting_faults,
    sort_names,
    steps,
)

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
        (["caf\u00e9", "cafe\u0301"], "caf\u00e9"),
        (["007"], "007"),
        (["1e3"], "1e3"),
        (["4,5"], "4,5"),
        ([None, "", "  ", math.nan, Decimal("nan"), "nan", " NaN ", "NAN", "None", "null", "NULL", "<NA>"], None),
        (["none", " none"], "none"),
        (["NA"], "NA"),
        ([date(2026, 1, 5), datetime(2026, 1, 5), "2026-01-05 00:00:00"], "2026-01-05"),
        ([datetime(2026, 1, 5, 10, 30)], "2026-01-05 10:30:00"),
        ([datetime(2026, 1, 5, tzinfo=UTC)], "2026-01-05 00:00:00+00:00"),
        (["nano"], "nano"),
    ],
)
def test_labels_of_the_same_class(values: list[Any], name: str | None) -> None:
    assert {label_name(value) for value in values} == {name}


@given(st.one_of(st.integers(), st.floats(-1e100, 1e100, allow_subnormal=False)))
def test_names_of_numbers_keep_their_value(number: float) -> None:
    name = label_name(number)
    assert name is not None
    assert type(number)(name) == number
    assert name == label_name(str(number)) or "e" in str(number)


@given(WORDS)
def test_label_name_is_idempotent(word: str) -> None:
    name = label_name(word)
    assert name is None or label_name(name) == name


@pytest.mark.parametrize("value", [["a"], {"a": 1}, b"a", math.inf])
def test_other_values_are_no_labels(value: object) -> None:
    with pytest.raises(TypeError):
        label_name(value)


def test_numbers_are_sorted_as_numbers_and_words_as_words() -> None:
    assert sort_names(["10", "2.5", "-1", "2"]) == ("-1", "2", "2.5", "10")
    assert sort_names(["10", "2", "many"]) == ("10", "2", "many")


@pytest.mark.parametrize(
    ("classes", "faults"),
    [
        ([], []),
        (["bad", "good"], []),
        (["bad", "good", "bad ", 1, 1.0], ["range"]),
        (["bad"], ["range"]),
        (["bad", " "], ["range"]),
    ],
)
def test_faults_of_typed_classes(classes: list[Any], faults: list[str]) -> None:
    assert [(fault.key, fault.kind) for fault in setting_faults({"classes": classes})] == [
        ("data.classes", kind) for kind in faults
    ]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["1 star", "2 stars", "10 stars"], {"1": 0, "2": 1, "10": 2}),
        (["2.50 points", "1 point"], {"2.5": 0, "1": 1}),
        (["1", "2", "3"], {}),
        (["1 star", "2 stars", "many stars"], {}),
        (["1 star", "1 point"], {}),
        (["bad", "good"], {}),
    ],
)
def test_plain_numbers_of_a_scale(names: list[str], expected: dict[str, int]) -> None:
    assert steps(names) == expected


def column(names: list[str], rows: int = 1) -> Counter[str]:
    return Counter(dict.fromkeys(names, rows))


@pytest.mark.parametrize(
    ("counts", "beyond"),
    [
        (column([str(i) for i in range(20)]), column([str(i) for i in range(21)])),
        (column([str(i) for i in range(21)], rows=2), column([str(i) for i in range(21)])),
        *[
            (column(topics[:-1], rows=2), column(topics, rows=2))
            for topics in [[f"topic {i}" for i in range(MAX_CLASSES + 1)]]
        ],
    ],
)
def test_a_column_of_labels_has_a_greatest_number_of_classes(counts: Counter[str], beyond: Counter[str]) -> None:
    require_labels(counts, "stars", "reviews.csv")
    parts = ("reviews.csv: 'stars' ", f"got {len(beyond):,} different values")
    assert_refused(lambda: require_labels(beyond, "stars", "reviews.csv"), "data.label", "type", *parts)
