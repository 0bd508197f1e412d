"""The mean over two settings."""

from __future__ import annotations

import math

import pytest
from made import record
from plans import plan

from sentattn.sweep.report.surface import CELLS, WIDTH, surface

SPACE = {"a": "interval(0,1)", "b": "interval(0,2)", "c": "choice(x,y)"}


def found(*trials: tuple[float, float, str, float]) -> list:  # type: ignore[type-arg]
    return [record(n, value, values={"a": a, "b": b, "c": c}) for n, (a, b, c, value) in enumerate(trials)]


def test_a_cell_is_the_weighted_mean_of_the_trials_by_hand() -> None:
    trials = [(0.0, 0.0, "x", 1.0), (1.0, 2.0, "x", 3.0), (0.5, 1.0, "x", 5.0), (0.25, 2.0, "x", 2.0)]
    there = surface(found(*trials), plan(SPACE).space, "a", "b")
    assert there is not None
    assert there.means.shape == (CELLS, CELLS)
    width = WIDTH * 4 ** (-1 / 6)
    i, j = 7, 30  # up, across
    weights = [
        math.exp(-(((j + 0.5) / CELLS - a) ** 2 + ((i + 0.5) / CELLS - b / 2) ** 2) / (2 * width**2))
        for a, b, _, _ in trials
    ]
    mean = sum(w * value for w, (*_, value) in zip(weights, trials, strict=True)) / sum(weights)
    assert there.means[i, j] == pytest.approx(mean)
    assert there.trust[i, j] == pytest.approx(min(1, sum(weights)))
    assert there.means.min() >= 1
    assert there.means.max() <= 5


def test_choices_have_a_place_each_and_nothing_in_common() -> None:
    trials = [(0.1, 0.0, "x", 1.0), (0.9, 0.0, "x", 1.0), (0.1, 0.0, "y", 4.0), (0.9, 0.0, "y", 4.0)]
    there = surface(found(*trials), plan(SPACE).space, "a", "c")
    assert there is not None
    assert there.means.shape == (2, CELLS)
    assert there.means[0] == pytest.approx([1.0] * CELLS)
    assert there.means[1] == pytest.approx([4.0] * CELLS)


def test_a_few_trials_and_those_that_set_but_one_are_not_enough() -> None:
    trials = found((0.1, 0.0, "x", 1.0), (0.2, 0.0, "x", 1.0), (0.3, 0.1, "x", 1.0))
    assert surface([*trials, record(9, 1.0, values={"a": 0.5})], plan(SPACE).space, "a", "b") is None
