from __future__ import annotations

import math
from pathlib import Path

import pytest

from sentattn.config.types import Count, Fraction, checked, fault, given, legal
from sentattn.errors import SettingError


@pytest.mark.parametrize(
    ("annotation", "fitting", "unfit"),
    [
        ("Count", [1, 7], [0, -1, 1.0, True, "1", None]),
        ("Whole", [0, 7], [-1, 0.5, False]),
        ("Positive", [1, 0.1], [0, -0.1, math.inf, math.nan, True, "1"]),
        ("NonNegative", [0, 0.0, 3.5], [-1e-9, math.inf]),
        ("Fraction", [0, 0.0, 0.999], [1, 1.0, -0.1]),
        ("Seed", [0, 2**32 - 1], [-1, 2**32]),
        ("int", [-3, 0], [0.5, True]),
        ("float", [-3, 0.5], [math.nan, "0.5"]),
        ("bool", [True, False], [0, 1, "true"]),
        ("str", ["", "text"], [3, None]),
        ("str | Path", ["text", Path("a")], [3]),
        ("Count | None", [1, None], [0, "null"]),
        ("Optional[int]", [1, None], [1.5]),
        ("Union[int, str]", [1, "a"], [1.5]),
        ("Literal['head', 'tail']", ["head"], ["tails", None]),
        ("Literal[1, 2]", [1], [True, 1.0, 3]),
        ("Literal['auto'] | Count", ["auto", 2], ["two", 0]),
        ("list[Whole]", [[], [0, 1], (0,)], [[-1], 0, "0"]),
        ("tuple[Fraction, Fraction]", [[0.9, 0.99]], [[0.9], [0.9, 1.0], 0.9]),
        ("'Count'", [1], [0]),
        ("typing.Optional[types.Count]", [None, 1], [0]),
        ("float | Tensor", ["whatever"], []),
        ("Iterable[int]", ["whatever"], []),
        ("tuple[int, ...]", ["whatever"], []),
    ],
)
def test_what_an_annotation_allows(annotation: str, fitting: list[object], unfit: list[object]) -> None:
    _, fits = legal(annotation)
    assert [value for value in fitting if not fits(value)] == []
    assert [value for value in unfit if fits(value)] == []


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        ("Count", "a whole number, 1 or more"),
        ("Count | None", "a whole number, 1 or more, or null"),
        ("int | None", "a whole number or null"),
        ("Literal['a', 'b', 'c']", "a, b or c"),
        ("Optional[Literal['a', 'b']]", "a or b or null"),
        ("list[str]", "a list such as [a,b], each text"),
        ("float | Tensor", "anything"),
    ],
)
def test_words(annotation: str, words: str) -> None:
    assert legal(annotation)[0] == words


def test_fault_names_setting_value_and_rule() -> None:
    assert fault("model.attention.hops", "Count", 0) == (
        "model.attention.hops=0 is not legal: it takes a whole number, 1 or more."
    )
    assert fault("test", "str", value=True) == "test=true is not legal: it takes text."
    assert fault("model.attention.hops", "Count", 1) is None


def test_given_is_what_one_types() -> None:
    assert [given(v) for v in (None, True, 0.5, "a", ["a", None, False])] == [
        "null",
        "true",
        "0.5",
        "a",
        "[a,null,false]",
    ]


class Part:
    @checked
    def __init__(self, *, hops: Count, dropout: Fraction = 0.0, other=None) -> None:
        self.hops = hops


def test_checked_refuses_all_faulty_arguments_at_once() -> None:
    assert Part(hops=3, other="anything").hops == 3
    with pytest.raises(SettingError) as caught:
        Part(hops=0, dropout=1.0)
    assert caught.value.messages == (
        "Part: hops=0 is not legal: it takes a whole number, 1 or more.",
        "Part: dropout=1.0 is not legal: it takes a number from 0 to below 1.",
    )
