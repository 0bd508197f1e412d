"""The best trials and the Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import optuna
import pytest
from fake_records import record, study_of
from hypothesis import given
from hypothesis import strategies as st
from plans import plan

from sentattn.sweep.plan import Objective
from sentattn.sweep.records import front, ranked

MODES = st.lists(st.sampled_from(["max", "min"]), min_size=2, max_size=3)


def study_with(modes: Sequence[str], points: Mapping[int, tuple[float, ...]]) -> optuna.Study:
    objectives = tuple(Objective(f"metric {n}", mode) for n, mode in enumerate(modes))
    return study_of(plan(objectives=objectives), [record(number, values) for number, values in points.items()])


@given(st.data(), MODES)
def test_the_front_is_what_no_other_trial_dominates(data: st.DataObject, modes: list[str]) -> None:
    point = st.tuples(*[st.integers(0, 5).map(float) for _ in modes])
    points = dict(enumerate(data.draw(st.lists(point, max_size=30))))
    signed = {n: [v if m == "max" else -v for v, m in zip(vs, modes, strict=True)] for n, vs in points.items()}
    expected = {
        number
        for number, own in signed.items()
        if not any(all(map(float.__ge__, other, own)) and other != own for other in signed.values())
    }
    study = study_with(modes, points)
    assert {each.number for each in ranked(study)} == {each.number for each in front(study)} == expected


@pytest.mark.parametrize(("mode", "best"), [("max", [1, 3, 2, 0]), ("min", [0, 2, 1, 3])])
def test_of_equals_the_one_that_started_first_is_better(mode: Literal["max", "min"], best: list[int]) -> None:
    study = study_with([mode], dict(enumerate([(1.0,), (3.0,), (2.0,), (3.0,)])))
    assert [each.number for each in ranked(study)] == best
    assert [each.number for each in front(study)] == best[:1]


def test_the_most_balanced_trial_of_the_front_is_first() -> None:
    """Of the ranges 0.90 to 0.80 and 1 to 5 the ends are 1 from the best point, the middle sqrt(0.2**2 + 0.25**2)."""
    study = study_with(["max", "min"], dict(enumerate([(0.90, 5.0), (0.88, 2.0), (0.80, 1.0)])))
    assert [each.number for each in front(study)] == [1, 0, 2]


def test_trials_that_are_not_complete_are_not_among_the_best() -> None:
    trials = [record(0), record(1, 0.5, state="pruned"), record(2, 0.25)]
    assert [each.number for each in front(study_of(plan(), trials))] == [2]
