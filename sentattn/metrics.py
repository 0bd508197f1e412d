"""Metrics of a classifier, from the probabilities that are stored and the labels, in double precision.

Training, `evaluate`, references, `compare` and W&B all have their values from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

ORDERED_ONLY = ("mean_absolute_error", "quadratic_kappa")
"""Metrics that mean something only where classes are steps of a scale."""
BINS = 15
"""Bins of the calibration error."""
SMALLEST = float(np.finfo(np.float32).tiny)
"""Probabilities are stored in single precision; one that was rounded to 0 counts as this."""
DRAWS = 100
"""Draws of labels for the calibration error of a calibrated model."""
MAJORITY = "largest class"
"""The row of a model that always predicts the largest class of the rows."""


def format_value(value: float) -> str:
    """Returns a metric in at most 9 characters, so that columns stay apart after a diverged training too."""
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.2e}"


def classifier_metrics(probabilities_NC: NDArray[Any], labels_N: NDArray[Any], *, ordered: bool) -> dict[str, float]:
    """Returns every metric of predictions by its name.

    - `accuracy`: share of the rows that are predicted correctly; of equal probabilities the first class is predicted.
    - `log_loss`: mean of -log p(label), natural logarithm.
    - `brier_score`: mean over rows of the sum over classes of (p - 1 or 0)^2 (Brier 1950).
    - `mean_absolute_error`: mean distance in steps, where `ordered`.
    - `f1_macro`, `f1_weighted`: F1 averaged over classes, evenly and by their rows.
    - `quadratic_kappa`: Cohen's kappa with quadratic weights (Cohen 1968), where `ordered`.
    - `calibration_error`: see the function.

    Args:
        probabilities_NC: Probability of each class, of N rows, 1 or more.
        labels_N: Numbers of the true classes.
        ordered: Whether the classes are steps of a scale.
    """
    p_NC, labels_N = probabilities_NC.astype(np.float64), labels_N.astype(np.int64)
    counts_CC = confusion(p_NC, labels_N)
    metrics = {name: float(of_rows(p_NC, labels_N).mean()) for name, of_rows in ROW_METRICS.items()}
    metrics |= {name: float(of_counts(counts_CC)) for name, of_counts in CONFUSION_METRICS.items()}
    metrics["calibration_error"] = calibration_error(p_NC.max(axis=1), correct(p_NC, labels_N))
    return {name: value for name, value in metrics.items() if ordered or name not in ORDERED_ONLY}


def correct(probabilities_NC: Floats, labels_N: Ints) -> Floats:
    """Returns 1 for each row that is predicted correctly, else 0."""
    correct_N: Floats = (probabilities_NC.argmax(axis=1) == labels_N).astype(np.float64)
    return correct_N


def _log_loss(probabilities_NC: Floats, labels_N: Ints) -> Floats:
    of_label_N: Floats = probabilities_NC[np.arange(len(labels_N)), labels_N]
    return -np.log(np.maximum(of_label_N, SMALLEST))


def _brier_score(probabilities_NC: Floats, labels_N: Ints) -> Floats:
    errors_NC = probabilities_NC.copy()
    errors_NC[np.arange(len(labels_N)), labels_N] -= 1
    squared_N: Floats = np.square(errors_NC).sum(axis=1)
    return squared_N


def _absolute_error(probabilities_NC: Floats, labels_N: Ints) -> Floats:
    steps_N: Floats = np.abs(probabilities_NC.argmax(axis=1) - labels_N).astype(np.float64)
    return steps_N


ROW_METRICS: Mapping[str, Callable[[Floats, Ints], Floats]] = {
    "accuracy": correct,
    "log_loss": _log_loss,
    "brier_score": _brier_score,
    "mean_absolute_error": _absolute_error,
}
"""Metrics that are means over rows: a value for each row."""


def confusion(probabilities_NC: Floats, labels_N: Ints) -> Floats:
    """Returns the counts of true and predicted classes, (true, predicted)."""
    classes = probabilities_NC.shape[1]
    counts = np.bincount(labels_N * classes + probabilities_NC.argmax(axis=1), minlength=classes**2)
    return counts.astype(np.float64).reshape(classes, classes)


def f1(confusion_CC: Floats) -> tuple[Floats, Floats]:
    """Returns F1 of each class, and the number of rows of each class, from counts (..., true, predicted)."""
    hits = np.diagonal(confusion_CC, axis1=-2, axis2=-1)
    true, predicted = confusion_CC.sum(axis=-1), confusion_CC.sum(axis=-2)
    total = true + predicted
    return np.divide(2 * hits, total, out=np.zeros_like(total), where=total > 0), true


def class_values(confusion_CC: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns precision, recall and F1 of each class from counts (true, predicted); 0 where a class does not occur."""
    hits = np.diagonal(confusion_CC)
    predicted, true = confusion_CC.sum(axis=0), confusion_CC.sum(axis=1)
    precision, recall = (np.divide(hits, n, out=np.zeros_like(hits), where=n > 0) for n in (predicted, true))
    return precision, recall, f1(confusion_CC)[0]


def class_metrics(
    probabilities_NC: NDArray[Any], labels_N: NDArray[Any], names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Returns for each class its rows, precision, recall and F1, and how many of them were predicted as which class.

    Args:
        probabilities_NC: Probability of each class, of N rows.
        labels_N: Numbers of the true classes.
        names: The names of the classes.
    """
    counts_CC = confusion(probabilities_NC.astype(np.float64), labels_N.astype(np.int64))
    return {
        name: {
            "rows": int(counts_C.sum()),
            **dict(zip(("precision", "recall", "f1"), map(float, values), strict=True)),
            "predicted": {other: int(count) for other, count in zip(names, counts_C, strict=True) if count},
        }
        for name, counts_C, *values in zip(names, counts_CC, *class_values(counts_CC), strict=True)
    }


def _f1_macro(confusion_CC: Floats) -> Floats:
    """The mean over the classes that occur as label or prediction, as scikit-learn has it."""
    scores, true = f1(confusion_CC)
    occurs = true + confusion_CC.sum(axis=-2) > 0
    mean: Floats = (scores * occurs).sum(axis=-1) / occurs.sum(axis=-1)
    return mean


def _f1_weighted(confusion_CC: Floats) -> Floats:
    scores, true = f1(confusion_CC)
    mean: Floats = (scores * true).sum(axis=-1) / true.sum(axis=-1)
    return mean


def _quadratic_kappa(confusion_CC: Floats) -> Floats:
    """Cohen (1968): 1 - observed over expected squared distance.

    0, no agreement beyond chance, where no distance is expected: labels and predictions are all of one class.
    """
    classes = confusion_CC.shape[-1]
    distance_CC = np.subtract.outer(np.arange(classes), np.arange(classes)) ** 2
    true, predicted = confusion_CC.sum(axis=-1), confusion_CC.sum(axis=-2)
    expected = np.einsum("...i,...j,ij->...", true, predicted, distance_CC) / true.sum(axis=-1)
    observed = (confusion_CC * distance_CC).sum(axis=(-2, -1))
    kappa: Floats = 1 - np.divide(observed, expected, out=np.ones_like(expected), where=expected > 0)
    return kappa


CONFUSION_METRICS: Mapping[str, Callable[[Floats], Floats]] = {
    "f1_macro": _f1_macro,
    "f1_weighted": _f1_weighted,
    "quadratic_kappa": _quadratic_kappa,
}
"""Metrics of counts (..., true, predicted)."""


def calibration_bins(confidence_N: Floats) -> Ints:
    """Returns the bin of each row, a number below `BINS`: rows with equal confidence are in one bin.

    The bins are of equal mass: a bin holds a 15th of the rows, in the order of their confidence. Rows with equal
    confidence belong to the bin of their middle one.
    """
    _, value_N, count_V = np.unique(confidence_N, return_inverse=True, return_counts=True)
    twice_middle_V = 2 * np.cumsum(count_V) - count_V - 1  # the sum of the ranks of the first and the last row
    bin_N: Ints = (twice_middle_V * BINS // (2 * len(confidence_N)))[value_N]
    return bin_N


def calibration_error(confidence_N: Floats, correct_N: Floats) -> float:
    """Returns the expected calibration error of the predicted class over 15 bins of equal mass.

    The mean over rows of |accuracy - confidence| of a row's bin (Guo et al. 2017, equation 3; bins of equal mass as in
    Nguyen and O'Connor 2015). It is above 0 for a calibrated model too: see `calibrated_error`.

    Args:
        confidence_N: Probability of the predicted class.
        correct_N: 1 where it is the label.
    """
    gaps = np.bincount(calibration_bins(confidence_N), weights=correct_N - confidence_N)
    return float(np.abs(gaps).sum() / len(confidence_N))


def calibrated_error(confidence_N: Floats) -> float:
    """Returns the mean calibration error of a perfectly calibrated model with these confidences.

    Labels are drawn from the confidences, `DRAWS` times, with a fixed seed. The order of the rows has no influence.

    Args:
        confidence_N: Probability of the predicted class.
    """
    confidence_N = np.sort(confidence_N)
    starts = np.flatnonzero(np.diff(calibration_bins(confidence_N), prepend=-1))
    random = np.random.default_rng(0)
    gaps = [
        np.abs(np.add.reduceat((random.random(len(confidence_N)) < confidence_N) - confidence_N, starts)).sum()
        for _ in range(DRAWS)
    ]
    return float(np.mean(gaps) / len(confidence_N))


def majority_share(labels_N: Ints) -> float:
    """Returns the share of the largest class: the accuracy of a model that always predicts this class."""
    return float(np.bincount(labels_N).max() / len(labels_N))
