"""Metrics of stored predictions, with their errors from rows and seeds."""

from __future__ import annotations

import numpy as np

from sentattn.compare.statistics import UNKNOWN, Estimate, Term, accuracy, jackknife, row_term, seed_term
from sentattn.config.schema import BOUNDS
from sentattn.metrics import (
    CONFUSION_METRICS,
    ORDERED_ONLY,
    ROW_METRICS,
    Floats,
    Ints,
    calibrated_error,
    calibration_error,
    correct,
)

BLOCKS = 200
"""Blocks of rows that the jackknife leaves out, one at a time."""
CALIBRATED = "calibration_error_calibrated"
"""The mean calibration error of a perfectly calibrated model with the same confidences."""


def estimates(
    probabilities_SNC: Floats, labels_N: Ints, group_N: Ints | None, *, ordered: bool, deterministic: bool = False
) -> dict[str, Estimate]:
    """Returns each metric of a setting as the mean over its seeds, with its standard error.

    The error has a term from the rows and one from the seeds; with one seed of a setting that is not deterministic
    it has the first alone. The calibration error has none (NaN): its bias is of the size of its error. `CALIBRATED` is
    its mean value for a perfectly calibrated model with the same confidences.

    Args:
        probabilities_SNC: Probability of each class, for each seed and row.
        labels_N: Numbers of the true classes.
        group_N: Number of each row's group; None where rows are independent.
        ordered: Whether classes are steps of a scale.
        deterministic: Whether all trainings are equal.
    """
    correct_SN, confidence_SN = correct_of(probabilities_SNC, labels_N), probabilities_SNC.max(axis=2)
    result = {"accuracy": accuracy(correct_SN, group_N, deterministic=deterministic)}
    has_seed_term = len(probabilities_SNC) > 1 and not deterministic

    def add(name: str, values_S: Floats, rows: Term) -> None:
        terms = [rows, seed_term(values_S)] if has_seed_term else [rows]
        result[name] = Estimate.of(float(values_S.mean()), terms, bounds=BOUNDS[name])

    for name, metric in ROW_METRICS.items():
        if name != "accuracy" and (ordered or name not in ORDERED_ONLY):
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

    errors, calibrated = map(calibration_error, confidence_SN, correct_SN), map(calibrated_error, confidence_SN)
    for name, values in (("calibration_error", errors), (CALIBRATED, calibrated)):
        result[name] = Estimate.of(float(np.mean(list(values))), [UNKNOWN])
    return result


def correct_of(probabilities_SNC: Floats, labels_N: Ints) -> Floats:
    """Returns 1 for each seed and row that is predicted correctly, else 0, (S, N)."""
    return np.stack([correct(probabilities_NC, labels_N) for probabilities_NC in probabilities_SNC])


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
