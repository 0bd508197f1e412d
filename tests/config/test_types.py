from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from annotated_types import Ge, Le
from hypothesis import given
from hypothesis import strategies as st
from refusals import faults_of
from torch import Tensor

from sentattn.config import types
from sentattn.config.types import (
    Count,
    Fraction,
    NonNegative,
    Positive,
    Seed,
    Whole,
    as_typed,
    checked,
    fault,
    format_values,
    mismatch,
    parse,
    parse_names,
    resolve,
)

ALLOWED: list[tuple[Any, list[object], list[object]]] = [
    (Count, [1, 7], [0, -1, 1.0, True, "1", None]),
    (Whole, [0, 7], [-1, 0.5, False]),
    (Positive, [1, 0.1], [0, -0.1, math.inf, math.nan, True, "1"]),
    (NonNegative, [0, 0.0, 3.5], [-1e-9, math.inf]),
    (Fraction, [0, 0.0, 0.999], [1, 1.0, -0.1]),
    (Seed, [0, 2**32 - 1], [-1, 2**32]),
    (int, [-3, 0], [0.5, True]),
    (float, [-3, 0.5], [math.nan, "0.5"]),
    (bool, [True, False], [0, 1, "true"]),
    (str, ["", "text", "Latin \udce9"], [3, None, Path("a")]),
    (Count | None, [1, None], [0, "null"]),
    (Optional[int], [1, None], [1.5]),  # noqa: UP045
    (Union[int, str], [1, "a"], [1.5]),  # noqa: UP007
    (Literal["head", "tail"], ["head"], ["tails", None]),
    (Literal["auto"] | Count, ["auto", 2], ["two", 0]),
    (list[Whole], [[], [0, 1], (0,)], [[-1], 0, "0", {1}]),
    (tuple[Fraction, Fraction], [[0.9, 0.99], (0.9, 0.99)], [[0.9], [0.9, 1.0], 0.9]),
    (Annotated[int, Ge(2), Le(4)], [2, 4], [1, 5, 2.0]),
    (Any, ["anything", Path("a")], []),
]


@pytest.mark.parametrize(("kind", "legal", "illegal"), ALLOWED, ids=str)
def test_values_that_a_type_allows(kind: Any, legal: list[object], illegal: list[object]) -> None:
    assert [value for value in legal if mismatch(kind, value)] == []
    assert [value for value in illegal if not mismatch(kind, value)] == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Count", Count),
        ("types.Count | None", Count | None),
        ("Optional[types.Count]", Count | None),
        ("Literal['a']", Literal["a"]),
        ("list[Clip]", list[Literal["head", "tail"]]),
        ("float | Tensor", Any),
        ("tuple[int, ...]", Any),
        ("only.for.type.checkers", Any),
        ("not a type", Any),
    ],
)
def test_annotations_may_be_source_text(text: str, kind: Any) -> None:
    names = {"types": types, "Optional": Optional, "Count": Count, "Literal": Literal, "Tensor": Tensor}
    assert resolve(text, names | {"Clip": Literal["head", "tail"]}) == kind


def test_a_fault_names_setting_rule_and_value() -> None:
    found = fault("model.attention.hops", Count, 0)
    assert found is not None
    assert (found.key, found.kind) == ("model.attention.hops", "range")
    assert found.message.startswith("model.attention.hops ")
    assert "integer >= 1, got 0" in found.message
    assert fault("model.attention.hops", Count, 1) is None
    wrong = fault("test", str, value=True)
    assert wrong is not None
    assert (wrong.kind, wrong.message) == ("type", "test must be text, got true.")


def test_values_as_typed() -> None:
    values = (None, True, 0.5, "a", ["a", None, False])
    assert [as_typed(value) for value in values] == ["null", "true", "0.5", "a", "[a,null,false]"]
    assert [parse(text) for text in ("null", "true", "0.5", "3", "a")] == [None, True, 0.5, 3, "a"]


class Part:
    @checked
    def __init__(self, hops: Count, *, dropout: Fraction = 0.0, other=None) -> None:
        self.hops = hops


REAL = """
from sentattn.config.types import Count, Fraction, checked
class Part:
    @checked
    def __init__(self, hops: Count, *, dropout: Fraction = 0.0, other=None) -> None:
        self.hops = hops
"""


@pytest.mark.parametrize("postponed", [True, False])
def test_checked_reports_all_faulty_arguments(*, postponed: bool) -> None:
    names: dict[str, Any] = {"Part": Part}
    if not postponed:
        exec(compile(REAL, "real", "exec", dont_inherit=True), names)  # annotations are objects there
    part = names["Part"]
    assert part(3).hops == part(hops=3, other="anything").hops == 3
    for call in (lambda: part(0, dropout="1"), lambda: part(hops=0, dropout="1")):
        hops, dropout = faults_of(call)
        assert (hops.key, hops.kind, dropout.key, dropout.kind) == ("hops", "range", "dropout", "type")
        assert hops.message.startswith("Part: hops ")


@given(st.lists(st.text("ab.,= []", min_size=1).map(str.strip).filter(bool), min_size=2))
def test_names_of_a_list_are_read_as_they_are_typed(names: list[str]) -> None:
    assert parse_names(as_typed(names)) == names


def test_values_have_the_shortest_name() -> None:
    values = {"model.encoder.hidden": 8, "model.attention.hidden": 4, "model/encoder": "cnn", "seed": None}
    names = format_values(values).split(", ")
    assert names == ["encoder.hidden=8", "attention.hidden=4", "encoder=cnn", "seed=null"]
