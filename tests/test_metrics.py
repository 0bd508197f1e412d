"""Metrics against numbers worked out by NumPy from their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sentattn.metrics import ClassifierMetrics

RNG = np.random.default_rng(5)
LOGITS = RNG.normal(size=(400, 4))
LABELS = np.where(RNG.random(400) < 0.5, LOGITS.argmax(1), RNG.integers(0, 4, 400))


def compute(*, ordered: bool, batches: int = 3) -> dict[str, float]:
    metrics = ClassifierMetrics(classes=4, ordered=ordered)
    for rows in np.array_split(np.arange(400), batches):
        metrics.update(torch.from_numpy(LOGITS[rows]), torch.from_numpy(LABELS[rows]))
    return {name: float(value) for name, value in metrics.compute().items()}


def probabilities() -> np.ndarray:
    exponentials = np.exp(LOGITS)
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def f1s() -> np.ndarray:
    predicted = LOGITS.argmax(1)
    hits = np.array([np.sum((predicted == c) & (LABELS == c)) for c in range(4)])
    return 2 * hits / np.array([np.sum(predicted == c) + np.sum(LABELS == c) for c in range(4)])


def test_accuracy_and_f1() -> None:
    found = compute(ordered=False)
    assert found["accuracy"] == pytest.approx(np.mean(LOGITS.argmax(1) == LABELS))
    assert found["f1_macro"] == pytest.approx(f1s().mean(), abs=1e-6)
    assert found["f1_weighted"] == pytest.approx(np.sum(f1s() * np.bincount(LABELS)) / 400, abs=1e-6)
    assert "quadratic_kappa" not in found


def test_log_loss_is_over_rows_whatever_the_batches() -> None:
    expected = -np.log(probabilities()[np.arange(400), LABELS]).mean()
    assert compute(ordered=False, batches=3)["log_loss"] == pytest.approx(expected, rel=1e-5)
    assert compute(ordered=False, batches=7)["log_loss"] == pytest.approx(expected, rel=1e-5)


def test_calibration_error_is_the_weighted_gap_of_fifteen_bins() -> None:
    confidence, right = probabilities().max(1), LOGITS.argmax(1) == LABELS
    bins = np.minimum((confidence * 15).astype(int), 14)
    gaps = [np.sum(bins == b) / 400 * abs(confidence[bins == b].mean() - right[bins == b].mean()) for b in set(bins)]
    assert compute(ordered=False)["calibration_error"] == pytest.approx(sum(gaps), abs=1e-5)


def test_ordered_classes_also_have_a_distance() -> None:
    found = compute(ordered=True)
    predicted = LOGITS.argmax(1)
    assert found["mean_absolute_error"] == pytest.approx(np.abs(predicted - LABELS).mean(), abs=1e-6)
    cost = (np.arange(4)[:, None] - np.arange(4)[None]) ** 2
    seen = np.zeros((4, 4))
    np.add.at(seen, (LABELS, predicted), 1)
    by_chance = np.outer(seen.sum(1), seen.sum(0)) / 400
    assert found["quadratic_kappa"] == pytest.approx(1 - (cost * seen).sum() / (cost * by_chance).sum(), abs=1e-5)


def test_reset_forgets() -> None:
    metrics = ClassifierMetrics(classes=2, ordered=True)
    metrics.update(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
    metrics.reset()
    metrics.update(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    assert metrics.compute()["accuracy"] == 1.0
    assert metrics.compute()["mean_absolute_error"] == 0.0
