"""Means over an epoch: weighted, and the same after they were put away and taken up again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sentattn.training.means import EpochMeans

STEPS = st.lists(st.tuples(st.floats(-1e3, 1e3, allow_subnormal=False), st.integers(1, 500)), min_size=1, max_size=30)


def added(means: EpochMeans, steps: list[tuple[float, int]]) -> EpochMeans:
    for figure, rows in steps:
        means.add({"train/loss": torch.tensor(figure)}, weight=rows)
    return means


@given(STEPS)
def test_mean_by_numpy(steps: list[tuple[float, int]]) -> None:
    figures, rows = np.array(steps, dtype=np.float64).T
    expected = np.average(figures, weights=rows)
    assert added(EpochMeans(), steps).compute()["train/loss"] == pytest.approx(expected, abs=1e-5 * 1e3)


@given(STEPS, st.data())
def test_put_away_and_taken_up_again(steps: list[tuple[float, int]], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(steps)))
    first = added(EpochMeans(), steps[:cut])
    second = EpochMeans()
    second.load_state_dict(first.state_dict())
    assert added(second, steps[cut:]).compute() == added(EpochMeans(), steps).compute()


def test_a_new_epoch_begins_empty() -> None:
    means = added(EpochMeans(), [(1.0, 2)])
    means.reset()
    assert means.compute() == {}


def test_figures_are_held_without_their_gradient() -> None:
    means = EpochMeans()
    means.add({"train/loss": torch.ones((), requires_grad=True) * 2}, weight=3)
    assert not means.state_dict()["sums"]["train/loss"].requires_grad


def test_totals_of_several_processes_are_added_up() -> None:
    means = added(EpochMeans(), [(1.0, 1), (4.0, 3)])
    # The other process has the same sums but one row more, all of figure 0.
    totals = iter([13.0 + 13.0, 4.0 + 5.0])
    assert means.compute(lambda _: torch.tensor(next(totals)))["train/loss"] == pytest.approx(26 / 9)
