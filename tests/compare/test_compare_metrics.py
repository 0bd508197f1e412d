"""Metrics of stored predictions against scikit-learn and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as reference

from sentattn.compare.metrics import BLOCKS, blocks, calibration_error, estimates
from sentattn.compare.statistics import Floats

RANDOM = np.random.default_rng(0)


def predictions(seeds: int, rows: int, classes: int) -> tuple[Floats, np.ndarray]:
    probabilities = RANDOM.dirichlet(np.ones(classes), (seeds, rows))
    return probabilities, RANDOM.integers(classes, size=rows)


@pytest.mark.parametrize("classes", [2, 5])
def test_values_are_scikit_learns(classes: int) -> None:
    probabilities, labels = predictions(1, 300, classes)
    predicted, one_hot = probabilities[0].argmax(1), np.eye(classes)[labels]
    expected = {
        "accuracy": reference.accuracy_score(labels, predicted),
        "log_loss": reference.log_loss(labels, probabilities[0]),
        "brier_score": ((probabilities[0] - one_hot) ** 2).sum(1).mean(),
        "mean_absolute_error": reference.mean_absolute_error(labels, predicted),
        "f1_macro": reference.f1_score(labels, predicted, average="macro"),
        "f1_weighted": reference.f1_score(labels, predicted, average="weighted"),
        "quadratic_kappa": reference.cohen_kappa_score(labels, predicted, weights="quadratic"),
    }
    found = estimates(probabilities, labels, None, ordered=True)
    assert set(found) == {*expected, "calibration_error"}
    assert {name: found[name].value for name in expected} == pytest.approx(expected, rel=1e-9)


def test_calibration_error_by_hand() -> None:
    confidence = np.linspace(0.5, 1, 30)  # 15 bins of two rows each
    correct = np.tile([1.0, 0.0], 15)
    gaps = [abs(0.5 - confidence[i : i + 2].mean()) for i in range(0, 30, 2)]
    assert calibration_error(confidence, correct) == pytest.approx(np.mean(gaps), rel=1e-9)
    shuffled = RANDOM.permutation(30)
    assert calibration_error(confidence[shuffled], correct[shuffled]) == pytest.approx(np.mean(gaps), rel=1e-9)


def test_only_ordered_classes_have_distances() -> None:
    probabilities, labels = predictions(1, 50, 3)
    found = estimates(probabilities, labels, None, ordered=False)
    assert not {"mean_absolute_error", "quadratic_kappa"} & set(found)


def test_errors_have_terms_of_rows_and_seeds() -> None:
    probabilities, labels = predictions(3, 400, 2)
    correct = probabilities.argmax(2) == labels
    rows, seeds = correct.mean(0).var(ddof=1) / 400, correct.mean(1).var(ddof=1) / 3
    found = estimates(probabilities, labels, None, ordered=False)["accuracy"]
    assert found.error == pytest.approx((rows + seeds) ** 0.5, rel=1e-9)
    alone = estimates(probabilities, labels, None, ordered=False, deterministic=True)["accuracy"]
    assert alone.error == pytest.approx(rows**0.5, rel=1e-9)


def test_f1_and_calibration_have_errors_near_a_bootstrap() -> None:
    probabilities, labels = predictions(1, 2000, 3)
    found = estimates(probabilities, labels, None, ordered=False)
    predicted = probabilities[0].argmax(1)
    draws = [RANDOM.integers(2000, size=2000) for _ in range(300)]
    f1 = [reference.f1_score(labels[rows], predicted[rows], average="macro") for rows in draws]
    assert found["f1_macro"].error == pytest.approx(np.std(f1), rel=0.2)


def test_blocks_keep_groups_together_and_are_even() -> None:
    groups = RANDOM.integers(450, size=5000)
    block = blocks(5000, groups)
    assert all(len(set(block[groups == group])) == 1 for group in set(groups))
    units = [len(set(groups[block == number])) for number in range(BLOCKS)]
    assert max(units) - min(units) <= 1
    assert len(set(blocks(7, None))) == 7


def test_a_probability_of_0_costs_no_infinity() -> None:
    found = estimates(np.array([[[0.0, 1.0]] * 4]), np.zeros(4, np.int64), None, ordered=False)
    assert np.isfinite(found["log_loss"].value)
