"""Means over an epoch: weighted, and the same after they were saved and loaded in its middle; the loss of an epoch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tiny import tiny

from sentattn import fit
from sentattn.data.batching import Batch
from sentattn.training.lit_module import EpochMeans, LitClassifier

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


CLASS_WEIGHTS = np.array([1.0, 7.0])


def loss_by_numpy(batches: list[tuple[NDArray[Any], ...]], reduction: str) -> float:
    """The cross entropy of all rows, weighted by class, + 0.3 x the mean over the rows of |A A^T - I|^2."""
    total = weight = penalty = rows = 0.0
    for logits_BC, labels_B, weights_BRL in batches:
        log_p = logits_BC - np.log(np.exp(logits_BC).sum(axis=1, keepdims=True))
        total -= (CLASS_WEIGHTS[labels_B] * log_p[np.arange(len(labels_B)), labels_B]).sum()
        weight += CLASS_WEIGHTS[labels_B].sum()
        rows += len(labels_B)
        overlap_BRR = weights_BRL @ weights_BRL.swapaxes(1, 2) - np.eye(weights_BRL.shape[1])
        penalty += np.square(overlap_BRR).sum()
    return float(total / (weight if reduction == "weighted" else rows) + 0.3 * penalty / rows)


@pytest.mark.parametrize("reduction", ["weighted", "mean"])
def test_loss_of_an_epoch_by_numpy_in_float64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reduction: str) -> None:
    seen: dict[bool, list[tuple[NDArray[Any], ...]]] = {True: [], False: []}
    original = LitClassifier.compute_loss

    def spying(self: LitClassifier, batch: Batch) -> Any:
        classified, parts = original(self, batch)
        tensors = (classified.logits_BC, batch.labels_B, classified.attended.weights_BRL)
        seen[self.training].append(tuple(tensor.detach().numpy().copy() for tensor in tensors))
        return classified, parts

    monkeypatch.setattr(LitClassifier, "compute_loss", spying)
    run = fit(
        tiny(
            *(f"output_dir={tmp_path}", "test=false", "trainer.max_epochs=1", "trainer.precision=64-true"),
            *("loss.class_weights=[1,7]", f"loss.class_weight_reduction={reduction}", "loss.label_smoothing=0"),
            *("loss.penalty=0.3", "data.batch_size=17"),
        )
    )
    [row] = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    of_validation = seen[False][: len(seen[False]) // 2]  # the best epoch is evaluated once more
    assert seen[True][0][0].dtype == np.float64
    assert row["train/loss"] == pytest.approx(loss_by_numpy(seen[True], reduction), rel=1e-12)
    assert row["val/loss"] == pytest.approx(loss_by_numpy(of_validation, reduction), rel=1e-12)
    assert run.metrics["val/loss"] == pytest.approx(row["val/loss"], rel=1e-12)
