"""Metrics against scikit-learn, SciPy and sums by hand, and what they do not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from sklearn import metrics as reference

from sentattn.metrics import (
    Floats,
    Ints,
    calibrated_error,
    calibration_bins,
    calibration_error,
    class_metrics,
    class_values,
    classifier_metrics,
)

RANDOM = np.random.default_rng(5)


def predictions(rows: int, classes: int, random: np.random.Generator = RANDOM) -> tuple[NDArray[np.float32], Ints]:
    probabilities = random.dirichlet(np.ones(classes), rows).astype(np.float32)
    return probabilities, random.integers(classes, size=rows)


@pytest.mark.parametrize("classes", [2, 5])
def test_values_are_those_of_scikit_learn(classes: int) -> None:
    probabilities, labels = predictions(300, classes)
    predicted, one_hot, exact = probabilities.argmax(1), np.eye(classes)[labels], probabilities.astype(float)
    expected = {
        "accuracy": reference.accuracy_score(labels, predicted),
        "log_loss": -np.log(exact[np.arange(300), labels]).mean(),
        "brier_score": ((exact - one_hot) ** 2).sum(1).mean(),
        "mean_absolute_error": reference.mean_absolute_error(labels, predicted),
        "f1_macro": reference.f1_score(labels, predicted, average="macro"),
        "f1_weighted": reference.f1_score(labels, predicted, average="weighted"),
        "quadratic_kappa": reference.cohen_kappa_score(labels, predicted, weights="quadratic"),
    }
    found = classifier_metrics(probabilities, labels, ordered=True)
    assert set(found) == {*expected, "calibration_error"}
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-12)


def test_metrics_of_classes_are_those_of_scikit_learn() -> None:
    probabilities, labels = predictions(90, 3)
    predicted, names = probabilities.argmax(1), ["a", "b", "c"]
    found = class_metrics(probabilities, labels, names)
    scores = [[found[name][score] for name in names] for score in ("precision", "recall", "f1", "rows")]
    np.testing.assert_allclose(scores, reference.precision_recall_fscore_support(labels, predicted))
    counts = [[found[true]["predicted"].get(other, 0) for other in names] for true in names]
    assert counts == reference.confusion_matrix(labels, predicted).tolist()


def test_a_class_without_rows_has_values_of_0() -> None:
    assert [values.tolist() for values in class_values(np.array([[2.0, 0], [0, 0]]))] == [[1, 0]] * 3
    assert class_metrics(np.array([[0.9, 0.1]]), np.array([0]), ["a", "b"])["b"]["predicted"] == {}


def test_only_ordered_classes_have_distances() -> None:
    assert not {"mean_absolute_error", "quadratic_kappa"} & set(classifier_metrics(*predictions(50, 3), ordered=False))


@pytest.mark.parametrize(("label", "accuracy", "f1"), [(1, 1.0, 1.0), (0, 0.0, 0.0)])
def test_labels_and_predictions_of_one_class_each(label: int, accuracy: float, f1: float) -> None:
    found = classifier_metrics(np.tile([0.2, 0.5, 0.3], (4, 1)), np.full(4, label), ordered=True)
    assert (found["accuracy"], found["f1_macro"], found["f1_weighted"]) == (accuracy, f1 / (2 - accuracy), f1)
    assert found["quadratic_kappa"] == 0


def test_log_loss_of_a_probability_of_0_is_finite() -> None:
    found = classifier_metrics(np.array([[0.0, 1.0]] * 4, np.float32), np.zeros(4, int), ordered=False)
    assert found["log_loss"] == pytest.approx(-np.log(2.0**-126))


def test_nan_probabilities_have_nan_metrics() -> None:
    found = classifier_metrics(np.full((4, 2), np.nan, np.float32), np.array([0, 1, 0, 1]), ordered=False)
    assert np.isnan([found["log_loss"], found["brier_score"], found["calibration_error"]]).all()


def test_calibration_error_by_hand() -> None:
    confidence = np.linspace(0.5, 1, 30)  # 15 bins of two rows each
    correct = np.tile([1.0, 0.0], 15)
    gaps = [abs(0.5 - confidence[i : i + 2].mean()) for i in range(0, 30, 2)]
    assert calibration_error(confidence, correct) == pytest.approx(np.mean(gaps), rel=1e-12)


def test_rows_with_equal_confidence_are_in_one_bin() -> None:
    """Sorted by label, a constant confidence of 0.6 with half of the rows right is 0.1 off."""
    assert calibration_error(np.full(1000, 0.6), np.repeat([1.0, 0.0], 500)) == pytest.approx(0.1)
    assert calibration_bins(np.array([0.6, 0.9, 0.6, 0.6])).tolist() == [3, 11, 3, 3]  # ranks 0 to 2 and 3 of 4


@pytest.mark.parametrize("rows", [1, 14, 15, 16, 1000])
def test_bins_have_equal_mass(rows: int) -> None:
    counts = np.bincount(calibration_bins(RANDOM.permutation(rows).astype(float)))
    counts = counts[counts > 0]
    assert len(counts) == min(rows, 15)
    assert counts.max() - counts.min() <= 1


ROWS = st.integers(0, 2**32 - 1).map(lambda seed: predictions(120, 4, np.random.default_rng(seed)))


@given(ROWS, st.permutations(range(120)), st.booleans())
def test_the_order_of_the_rows_has_no_influence(rows: tuple[Floats, Ints], order: list[int], coarse: bool) -> None:
    probabilities, labels = rows
    if coarse:  # many equal confidences
        probabilities = probabilities.round(1)
    expected = classifier_metrics(probabilities, labels, ordered=True)
    assert classifier_metrics(probabilities[order], labels[order], ordered=True) == pytest.approx(expected, abs=1e-12)
    confidence = probabilities.max(1).astype(float)
    assert calibrated_error(confidence[order]) == pytest.approx(calibrated_error(confidence), abs=1e-12)


@given(ROWS, st.permutations(range(4)))
def test_the_order_of_the_classes_has_no_influence(rows: tuple[Floats, Ints], order: list[int]) -> None:
    probabilities, labels = rows
    expected = classifier_metrics(probabilities, labels, ordered=False)
    permuted = classifier_metrics(probabilities[:, order], np.argsort(order)[labels], ordered=False)
    assert permuted == pytest.approx(expected, abs=1e-12)


def test_error_of_a_calibrated_model() -> None:
    """With one confidence p there is one bin, and |successes / n - p| has a mean that the binomial gives exactly."""
    p, n = 0.7, 50
    successes = np.arange(n + 1)
    expected = np.sum(stats.binom.pmf(successes, n, p) * np.abs(successes / n - p))
    assert calibrated_error(np.full(n, p)) == pytest.approx(expected, rel=0.25)  # 100 draws
    confidence = RANDOM.uniform(0.5, 1, 3000)  # 15 bins of 200: sqrt(2 / pi) standard deviations of their means
    by_bin = np.sort(confidence).reshape(15, 200)
    normal = np.mean(np.sqrt(2 / np.pi * np.mean(by_bin * (1 - by_bin), axis=1) / 200))
    assert calibrated_error(confidence) == pytest.approx(normal, rel=0.06)
    assert calibrated_error(np.ones(20)) == 0
