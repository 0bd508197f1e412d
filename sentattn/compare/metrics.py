"""Metrics of stored predictions, with their errors from rows and seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from sentattn.compare.statistics import Estimate, Floats, Term, jackknife, row_term, seed_term

Ints = NDArray[np.int64]

BLOCKS = 200
"""Blocks of rows that the jackknife leaves out, one at a time."""
BINS = 15
ORDERED_ONLY = ("mean_absolute_error", "quadratic_kappa")
"""Metrics that mean something only where classes are steps of a scale."""
SMALLEST = float(np.finfo(np.float32).tiny)
"""Probabilities are stored in single precision; one that was rounded to 0 counts as this."""


def correct(probabilities_NC: Floats, labels_N: Ints) -> Floats:
    """Returns 1 for each row that is predicted correctly, else 0."""
    correct_N: Floats = (probabilities_NC.argmax(axis=1) == labels_N).astype(np.float64)
    return correct_N


def _log_loss(probabilities_NC: Floats, labels_N: Ints) -> Floats:
    of_label_N: Floats = probabilities_NC[np.arange(len(labels_N)), labels_N]
    return -np.log(np.maximum(of_label_N, SMALLEST))


def _brier(probabilities_NC: Floats, labels_N: Ints) -> Floats:
    """Brier (1950): the sum over classes of (p - 1 or 0)^2."""
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
    "brier_score": _brier,
    "mean_absolute_error": _absolute_error,
}
"""Metrics that are means over rows: a value for each row."""


def f1(confusion_CC: Floats) -> tuple[Floats, Floats]:
    """Returns F1 of each class, and the share of each class, from counts (..., true, predicted)."""
    hits = np.diagonal(confusion_CC, axis1=-2, axis2=-1)
    true, predicted = confusion_CC.sum(axis=-1), confusion_CC.sum(axis=-2)
    total = true + predicted
    return np.divide(2 * hits, total, out=np.zeros_like(total), where=total > 0), true


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
    """Cohen (1968): 1 - observed over expected squared distance; 0 where there is no distance to expect."""
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


def calibration_error(confidence_N: Floats, correct_N: Floats, *, is_sorted: bool = False) -> float:
    """Returns the expected calibration error of the predicted class over 15 bins of equal mass.

    The mean over rows of |accuracy - confidence| of a row's bin; bins hold equally many rows in the order of their
    confidence (Nguyen and O'Connor 2015; Guo et al. 2017 have bins of equal width).

    Args:
        confidence_N: Probability of the predicted class.
        correct_N: 1 where it is the label.
        is_sorted: Whether rows are in the order of their confidence.
    """
    gap_N = correct_N - confidence_N
    if not is_sorted:
        gap_N = gap_N[np.argsort(confidence_N, kind="stable")]
    starts = np.linspace(0, len(gap_N), min(BINS, len(gap_N)), endpoint=False).astype(np.int64)
    return float(np.abs(np.add.reduceat(gap_N, starts)).sum() / len(gap_N))


def estimates(
    probabilities_SNC: Floats, labels_N: Ints, group_N: Ints | None, *, ordered: bool, deterministic: bool = False
) -> dict[str, Estimate]:
    """Returns each metric of a setting as the mean over its seeds, with its standard error.

    The error has a term from the rows and one from the seeds; with one seed of a setting that is not deterministic
    it has the first alone.

    Args:
        probabilities_SNC: Probability of each class, for each seed and row.
        labels_N: Numbers of the true classes.
        group_N: Number of each row's group; None where rows are independent.
        ordered: Whether classes are steps of a scale.
        deterministic: Whether all trainings are equal.
    """
    result: dict[str, Estimate] = {}
    has_seed_term = len(probabilities_SNC) > 1 and not deterministic

    def add(name: str, values_S: Floats, rows: Term) -> None:
        terms = [rows, seed_term(values_S)] if has_seed_term else [rows]
        result[name] = Estimate.of(float(values_S.mean()), terms)

    for name, metric in ROW_METRICS.items():
        if ordered or name not in ORDERED_ONLY:
            values_SN = np.stack([metric(probabilities_NC, labels_N) for probabilities_NC in probabilities_SNC])
            add(name, values_SN.mean(axis=1), row_term(values_SN.mean(axis=0), group_N))

    block_N = blocks(len(labels_N), group_N)
    counts_SKCC = np.stack([_confusion(p_NC, labels_N, block_N) for p_NC in probabilities_SNC])
    all_SCC = counts_SKCC.sum(axis=1)
    for name, of_counts in CONFUSION_METRICS.items():
        if ordered or name not in ORDERED_ONLY:
            values_S = of_counts(all_SCC)
            without_K = of_counts(all_SCC[:, None] - counts_SKCC).mean(axis=0)
            add(name, values_S, jackknife(float(values_S.mean()), without_K))

    errors = [_calibration(probabilities_NC, labels_N, block_N) for probabilities_NC in probabilities_SNC]
    values_S = np.array([value for value, _ in errors])
    add("calibration_error", values_S, jackknife(float(values_S.mean()), np.mean([k for _, k in errors], axis=0)))
    return result


def blocks(rows: int, group_N: Ints | None) -> Ints:
    """Returns the number of each row's block; the rows of a group are in one block, drawn with a fixed seed."""
    units_N = np.arange(rows) if group_N is None else group_N
    count = int(units_N.max()) + 1
    block_of_unit = np.random.default_rng(0).permutation(np.arange(count) % min(BLOCKS, count))
    block_N: Ints = block_of_unit[units_N]
    return block_N


def _confusion(probabilities_NC: Floats, labels_N: Ints, block_N: Ints) -> Floats:
    """Counts of true and predicted classes in each block, (K, C, C)."""
    classes, blocks = probabilities_NC.shape[1], int(block_N.max()) + 1
    cell_N = (block_N * classes + labels_N) * classes + probabilities_NC.argmax(axis=1)
    counts = np.bincount(cell_N, minlength=blocks * classes**2).astype(np.float64)
    return counts.reshape(blocks, classes, classes)


def _calibration(probabilities_NC: Floats, labels_N: Ints, block_N: Ints) -> tuple[float, Floats]:
    """The calibration error over all rows, and without each block, (K,)."""
    confidence_N, correct_N = probabilities_NC.max(axis=1), correct(probabilities_NC, labels_N)
    order = np.argsort(confidence_N, kind="stable")
    confidence_N, correct_N, block_N = confidence_N[order], correct_N[order], block_N[order]
    without = [
        calibration_error(confidence_N[keep], correct_N[keep], is_sorted=True)
        for keep in (block_N != block for block in range(int(block_N.max()) + 1))
    ]
    return calibration_error(confidence_N, correct_N, is_sorted=True), np.array(without)
