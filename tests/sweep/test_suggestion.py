"""Values as arguments: Hydra reads the value that was drawn."""

from __future__ import annotations

import math

import optuna
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st
from plans import plan

from sentattn.sweep.search_space import Value, override, suggest

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1)


@given(
    st.integers() | FINITE | st.booleans() | st.none() | TEXT | st.sampled_from(["true", "Null", "1e3", "nan", "a b"])
)
def test_a_value_goes_through_arguments_unchanged(value: Value) -> None:
    parsed = OverridesParser.create().parse_override(override("x.y", value)).value()
    assert (type(parsed), parsed) == (type(value), value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("flatten", "x=flatten"),
        ("bf16-mixed", "x=bf16-mixed"),
        ("32-true", "x='32-true'"),
        (None, "x=null"),
        (1e-5, "x=1e-05"),
    ],
)
def test_words_stand_without_quotes(value: Value, expected: str) -> None:
    assert override("x", value) == expected


def test_texts_and_paths_are_taken_as_they_are() -> None:
    assert override("data.vectors", "my vectors (1).txt") == "data.vectors=my vectors (1).txt"


@given(st.integers(0, 2**32 - 1))
def test_conditions_decide_what_is_set(seed: int) -> None:
    one = plan()
    values = suggest(optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed)).ask(), one.space)
    assert ("model.pooling.p" in values) == (values["model/pooling"] == "prune")
    assert all(one.space[key].contains(value) for key, value in values.items())


def test_zero_comes_up_as_often_as_it_should() -> None:
    one, study = plan(), optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = [suggest(study.ask(), one.space)["loss.penalty"] for _ in range(1000)]
    share = sum(value == 0 for value in drawn) / 1000
    assert abs(share - 0.2) < 4 * math.sqrt(0.2 * 0.8 / 1000)
    assert all(value == 0 or 1e-3 <= float(str(value)) <= 1 for value in drawn)
