"""Ranges in Hydra's grammar: what they hold, and what is refused with what to type."""

from __future__ import annotations

import math
from typing import Any

import optuna
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from plans import plan

from sentattn.config import search_space as space
from sentattn.config.groups import Choices
from sentattn.config.search_space import Dimension, Value, override, read_dimension, suggest
from sentattn.errors import SettingError

CHOICES = Choices.of()


def read(text: str, key: str = "loss.penalty") -> Dimension:
    return read_dimension(key, text, CHOICES)


def refusal(text: str, key: str = "loss.penalty") -> str:
    with pytest.raises(SettingError) as caught:
        read(text, key)
    (fault,) = caught.value.faults
    assert (fault.key, fault.kind) == (key, "range")
    assert fault.message.startswith(f"{key}={text}: ")
    return fault.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("range(1,31)", IntDistribution(1, 30)),
        ("range(4)", IntDistribution(0, 3)),
        ("range(1,10,4)", IntDistribution(1, 9, step=4)),
        ("range(10,0,-3)", IntDistribution(1, 10, step=3)),
        ("sort(range(1,5),reverse=true)", IntDistribution(1, 4)),
        ("float(range(1,5))", FloatDistribution(1.0, 4.0, step=1.0)),
        ("range(0.1,0.6,0.1)", FloatDistribution(0.1, 0.5, step=0.1)),
        ("range(0,0.3,0.1)", FloatDistribution(0.0, 0.2, step=0.1)),
        ("interval(0,1)", FloatDistribution(0.0, 1.0)),
        ("tag(log,interval(1e-3,1))", FloatDistribution(1e-3, 1.0, log=True)),
        ("int(interval(1,64))", IntDistribution(1, 64)),
        ("tag(log,int(interval(1,64)))", IntDistribution(1, 64, log=True)),
        ("int(tag(log,interval(1,64)))", IntDistribution(1, 64, log=True)),
        ("tag(log,range(1,9))", IntDistribution(1, 8, log=True)),
        ("choice(32,64)", CategoricalDistribution([32, 64])),
        ("1,2,4", CategoricalDistribution([1, 2, 4])),
        ("null,1", CategoricalDistribution([None, 1])),
        ("sort(3,1,2)", CategoricalDistribution([1, 2, 3])),
        ("shuffle(1,2,3)", CategoricalDistribution([1, 2, 3])),
        ("choice('a b',c)", CategoricalDistribution(["a b", "c"])),
        ("bool(0,1)", CategoricalDistribution([False, True])),
    ],
)
def test_ranges(text: str, expected: optuna.distributions.BaseDistribution) -> None:
    assert read(text).distribution == expected


def test_integers_stay_integers() -> None:
    assert [type(value) for value in read("range(1,5)").ends()] == [int, int]
    assert [type(value) for value in read("range(1,5,0.5)").ends()] == [float, float]


def test_a_glob_takes_the_choices_of_its_group() -> None:
    assert read("glob(*)", "model/pooling").ends() == tuple(CHOICES.names("model/pooling"))
    assert read("glob([f*,m*])", "model/pooling").ends() == ("flatten", "mean")
    for text, key in (("glob(*)", "loss.penalty"), ("glob(pr*)", "model/pooling"), ("glob(x*)", "model/pooling")):
        assert refusal(text, key)


@pytest.mark.parametrize(
    "text",
    [
        *("range(5,1)", "range(3,3)", "range(1,5,-1)", "range(1,2)", "range(1,5,0)", "range(1,inf)"),
        *("interval(3,1)", "interval(1,1)", "int(interval(0.2,0.9))", "interval(1,inf)", "interval(nan,1)"),
        *("choice()", "choice(a)", "choice(a,b,a)", "choice(1,1.0)", "choice(null,balanced)", "choice(nan,1)"),
        *("choice([1,2],[3])", "choice({a:1},b)", "choice(choice(1,2),3)", "choice(range(1,3),2)"),
        *("tag(log,interval(-1,1))", "tag(log,range(1,9,2))", "tag(log,range(0.1,0.9,0.1))", "tag(log,choice(1,2))"),
        *("tag(zero,interval(1e-3,1))", "tag(log,zero,range(1,9))", "tag(log,zero,int(interval(1,9)))"),
        *("choice(a,b", "interval(1)", "0.3", "[1,2]", "shuffle([1,2])"),
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    assert refusal(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("rnge(1,5)", "'range'"),
        ("Choice(a,b)", "'choice'"),
        ("tag(lgo,interval(1,2))", "'log'"),
        ("tag(log,interval(0,1))", "tag(log,zero,interval(1e-3,1))"),
        ("choice(a,b,a)", "listed twice"),
        ("int(1,4)", "type choice(1,4) or int(interval(LOW,HIGH))"),
        ("tag(log,int(1, 64))", "int(interval(LOW,HIGH))"),
        ("float(0,0.5)", "float(interval(LOW,HIGH))"),
    ],
)
def test_the_closest_range_is_suggested(text: str, hint: str) -> None:
    assert hint in refusal(text)


ZERO = "tag(log,zero,interval(1e-3,1))"


def test_zero_is_a_fifth_of_the_draws_and_lies_below_the_range() -> None:
    one = read(ZERO)
    assert isinstance(one.distribution, FloatDistribution)
    low, high = math.log(one.distribution.low), math.log(one.distribution.high)
    assert (math.log(1e-3) - low) / (high - low) == pytest.approx(0.2)
    assert one.value(9.99e-4) == 0.0
    assert one.value(1e-3) == 1e-3
    assert one.ends() == (1e-3, 1.0, 0.0)
    assert [one.contains(value) for value in (0.0, 5e-4, 1e-3, 1.0, 1.1)] == [True, False, True, True, False]


@given(st.floats(1e-3, 1.0) | st.just(0.0))
def test_what_is_drawn_for_a_value_stands_for_it(value: float) -> None:
    one = read(ZERO)
    assert isinstance(one.distribution, FloatDistribution)
    drawn = one.drawn(value)
    assert isinstance(drawn, float)
    assert one.distribution.low <= drawn <= one.distribution.high
    assert one.value(drawn) == value


@settings(deadline=None)
@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-5, 5))
def test_a_range_holds_what_pythons_holds(start: int, stop: int, step: int) -> None:
    expected = sorted(range(start, stop, step)) if step else []
    if len(expected) < 2:
        with pytest.raises(SettingError):
            read(f"range({start},{stop},{step})")
    else:
        assert list(read(f"range({start},{stop},{step})").values() or ()) == expected


@given(st.lists(st.integers(0, 9), min_size=2, max_size=5, unique=True))
def test_a_space_is_kept_as_it_is(numbers: list[int]) -> None:
    when = {"model/pooling": ("prune", "mean")}
    listed: dict[str, Any] = {
        "a": read(ZERO, "a"),
        "b": read_dimension("b", ",".join(map(str, numbers)), CHOICES, when),
        "c": read("range(1,9,2)", "c"),
    }
    assert space.from_json(space.to_json(listed)) == listed


def test_points_are_counted_along_the_conditions() -> None:
    pooling = read("choice(flatten,mean,prune)", "model/pooling")
    p = read_dimension("p", "range(0,4)", CHOICES, {"model/pooling": ("prune",)})
    assert space.points({"model/pooling": pooling, "p": p}, 100) == 1 + 1 + 4
    assert space.points({"model/pooling": pooling, "p": p}, 5) is None
    assert space.points({"a": read("interval(0,1)")}, 100) is None


FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1)


@given(
    st.integers() | FINITE | st.booleans() | st.none() | TEXT | st.sampled_from(["true", "Null", "1e3", "nan", "a b"])
)
def test_a_value_goes_through_arguments_unchanged(value: Value) -> None:
    parsed = OverridesParser.create().parse_override(override("x.y", value)).value()
    assert (type(parsed), parsed) == (type(value), value)


def test_words_stand_without_quotes_and_paths_are_taken_as_they_are() -> None:
    assert [override("x", value) for value in ("bf16-mixed", "32-true", None)] == [
        "x=bf16-mixed",
        "x='32-true'",
        "x=null",
    ]
    path = "my vectors (1).txt"
    assert override("data.vectors", path) == f"data.vectors={path}"


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
