"""Means over an epoch: weighted, and the same after they were saved and loaded in its middle."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sentattn.training.lit_module import EpochMeans

STEPS = st.lists(st.tuples(st.floats(-1e3, 1e3, allow_subnormal=False), st.integers(1, 500)), min_size=1, max_size=30)


def added(means: EpochMeans, steps: list[tuple[float, int]]) -> EpochMeans:
    for value, rows in steps:
        means.add({"train/loss": torch.tensor(value)}, weight=rows)
    return means


@given(STEPS)
def test_mean_by_numpy(steps: list[tuple[float, int]]) -> None:
    values, rows = np.array(steps, dtype=np.float64).T
    expected = np.average(values, weights=rows)
    assert added(EpochMeans(), steps).compute()["train/loss"] == pytest.approx(expected, abs=1e-5 * 1e3)


@given(STEPS, st.data())
def test_saved_and_loaded_in_the_middle(steps: list[tuple[float, int]], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(steps)))
    first = added(EpochMeans(), steps[:cut])
    second = EpochMeans()
    second.load_state_dict(first.state_dict())
    assert added(second, steps[cut:]).compute() == added(EpochMeans(), steps).compute()


def test_a_new_epoch_begins_empty() -> None:
    means = added(EpochMeans(), [(1.0, 2)])
    means.reset()
    assert means.compute() == {}


def test_values_are_kept_without_their_gradient() -> None:
    means = EpochMeans()
    means.add({"train/loss": torch.ones((), requires_grad=True) * 2}, weight=3)
    assert not means.state_dict()["sums"]["train/loss"].requires_grad
