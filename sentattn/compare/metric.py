"""The metric by which settings are compared: a value for each row of a run, whose mean over rows is the metric.

A metric that is a mean over rows, such as accuracy, has its own values. Any other has its value plus its derivative by
the weight of the row (the influence function: Hampel 1974; the variance of the mean of these values is that of the
infinitesimal jackknife, Jaeckel 1972), so that groups, seeds and pairs of rows count as they do for accuracy.

Shapes: N rows, C classes. Shares (C, C) are counts of true and predicted classes over N.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from sentattn.compare.statistics import TWO_EACH, Estimate, average
from sentattn.config.schema import BETTER, BOUNDS
from sentattn.errors import Fault, SettingError, suggestion
from sentattn.metrics import CONFUSION_METRICS, ORDERED_ONLY, ROW_METRICS, Floats, Ints, class_values, confusion, f1

RowValues: TypeAlias = Callable[[Floats, Ints], Floats]
"""Returns a value for each row from the probabilities (N, C) and the labels (N,)."""
OF_PROBABILITIES = ("log_loss", "brier_score", "auroc")
"""Metrics that need the probability of each class, not the predicted one alone."""
FEWEST_ROWS = 30
"""Rows of a class below which a metric that is no mean over rows has no verdict."""
MARGIN = 0.5
"""By default in hundredths of the metric."""


@dataclass(frozen=True)
class Metric:
    """A metric.

    Attributes:
        name: As it is typed, such as `f1_macro` or `recall:negative`.
        of_rows: Returns a value for each row, whose mean is the metric; None for `score`.
        bounds: The least and the largest value.
        is_loss: Whether lower is better.
        classes: The numbers of the classes of which it needs `FEWEST_ROWS` rows each; None for all that occur.
    """

    name: str
    of_rows: RowValues | None
    bounds: tuple[float, float] = (0.0, 1.0)
    is_loss: bool = False
    classes: Sequence[int] | None = ()

    @property
    def scale(self) -> float:
        """Of what is shown: differences of a metric between 0 and 1, or -1 and 1, are in points, hundredths."""
        return 100.0 if max(map(abs, self.bounds)) <= 1 else 1.0

    @property
    def half_rows(self) -> Sequence[float]:
        """What is added to the rows of a setting for its interval."""
        return TWO_EACH if self.name == "accuracy" else ()

    @property
    def unit(self) -> str:
        """What follows a shown difference."""
        points = " points" if self.scale > 1 else ""
        return points if self.name == "accuracy" else f"{points} of {self.name}"

    @property
    def default_margin(self) -> float:
        """The default margin in its unit: half a hundredth."""
        return MARGIN / 100 * self.scale

    def average(
        self, values_SN: Floats, group_N: Ints | None, *, fold_SN: Ints | None = None, deterministic: bool = False
    ) -> Estimate:
        """Returns the metric as `statistics.average` of its values of rows."""
        return average(
            values_SN,
            group_N,
            fold_SN=fold_SN,
            deterministic=deterministic,
            bounds=self.bounds,
            half_rows=self.half_rows,
        )

    def difference(self, value: float, sign: str = "") -> str:
        """Returns a difference without its unit."""
        return f"{self.scale * value:{sign}.{2 if self.scale > 1 else 4}f}"

    def rare_classes(self, labels_N: Ints) -> list[int]:
        """Returns the numbers of the classes that have too few rows for a verdict."""
        counts_C = np.bincount(labels_N)
        classes = np.flatnonzero(counts_C) if self.classes is None else self.classes
        return [int(c) for c in classes if c >= len(counts_C) or counts_C[c] < FEWEST_ROWS]


def of_counts(
    value: Callable[[Floats], Floats | float],
    gradient: Callable[[Floats], Floats],
    probabilities_NC: Floats,
    labels_N: Ints,
) -> Floats:
    """Returns the values of rows of a metric of counts, which has a derivative by the shares of N rows."""
    shares_CC = confusion(probabilities_NC, labels_N) / len(labels_N)
    gradient_CC, predicted_N = gradient(shares_CC), probabilities_NC.argmax(axis=1)
    values_N: Floats = float(value(shares_CC)) + gradient_CC[labels_N, predicted_N]
    return values_N


def _f1_gradient(shares_CC: Floats, weights_C: Floats) -> Floats:
    """The derivative of sum_c w_c F1_c with constant weights: F1_c = 2 p_cc / (p_c. + p_.c)."""
    total_C = shares_CC.sum(axis=0) + shares_CC.sum(axis=1)
    per_share_C = np.divide(weights_C, total_C, out=np.zeros_like(total_C), where=total_C > 0)
    fall_C = per_share_C * f1(shares_CC)[0]
    gradient: Floats = np.diag(2 * per_share_C) - np.add.outer(fall_C, fall_C)
    return gradient


def _f1_macro_gradient(shares_CC: Floats) -> Floats:
    occurs_C = (shares_CC.sum(axis=0) + shares_CC.sum(axis=1) > 0).astype(np.float64)
    return _f1_gradient(shares_CC, occurs_C / occurs_C.sum())


def _f1_weighted_gradient(shares_CC: Floats) -> Floats:
    scores_C, true_C = f1(shares_CC)
    gradient: Floats = _f1_gradient(shares_CC, true_C) + (scores_C - true_C @ scores_C)[:, None]
    return gradient


def _quadratic_kappa_gradient(shares_CC: Floats) -> Floats:
    """The derivative of 1 - O / E, with O = sum_jk d_jk p_jk and E = sum_jk d_jk p_j. p_.k."""
    numbers = np.arange(len(shares_CC))
    distance_CC = np.subtract.outer(numbers, numbers) ** 2.0
    true_C, predicted_C = shares_CC.sum(axis=1), shares_CC.sum(axis=0)
    observed, expected = float((distance_CC * shares_CC).sum()), float(true_C @ distance_CC @ predicted_C)
    if not expected:
        return np.zeros_like(shares_CC)
    # E is quadratic in the shares: its derivative is by both factors, less E, since shares sum to 1.
    of_expected = np.add.outer(distance_CC @ predicted_C, true_C @ distance_CC) - expected
    gradient: Floats = (observed * of_expected / expected - distance_CC) / expected
    return gradient


GRADIENTS: Mapping[str, Callable[[Floats], Floats]] = {
    "f1_macro": _f1_macro_gradient,
    "f1_weighted": _f1_weighted_gradient,
    "quadratic_kappa": _quadratic_kappa_gradient,
}


def _of_class(place: int, number: int, shares_CC: Floats) -> float:
    return float(class_values(shares_CC)[place][number])


def _recall_gradient(number: int, shares_CC: Floats) -> Floats:
    gradient, true = np.zeros_like(shares_CC), float(shares_CC[number].sum())
    if true:
        gradient[number] = (np.arange(len(shares_CC)) == number) / true - shares_CC[number, number] / true**2
    return gradient


def _f1_of_class_gradient(number: int, shares_CC: Floats) -> Floats:
    return _f1_gradient(shares_CC, (np.arange(len(shares_CC)) == number).astype(np.float64))


OF_CLASS = {"recall": (1, _recall_gradient), "f1": (2, _f1_of_class_gradient)}
"""Metrics of one class, as in `f1:negative`, with their place in `class_values` and their derivative."""


def auroc(probabilities_NC: Floats, labels_N: Ints) -> Floats:
    """The area under the ROC curve of the second of two classes, by the components of DeLong et al. (1988).

    Rows of one class alone have an area of 1/2.
    """
    from scipy.stats import rankdata

    scores_N, is_positive_N = probabilities_NC[:, 1], labels_N == 1
    sizes = np.array([(~is_positive_N).sum(), is_positive_N.sum()])
    if not sizes.all():
        return np.full(len(labels_N), 0.5)
    within_N = np.empty(len(labels_N))
    for inside_N in (is_positive_N, ~is_positive_N):
        within_N[inside_N] = rankdata(scores_N[inside_N])
    below_N = (rankdata(scores_N) - within_N) / sizes[(~is_positive_N).astype(int)]  # of the other class, ties half
    wins_N = np.where(is_positive_N, below_N, 1 - below_N)
    area = float(wins_N[is_positive_N].mean())
    values_N: Floats = area + (wins_N - area) * len(labels_N) / sizes[is_positive_N.astype(int)]
    return values_N


def _named(name: str) -> Metric:
    of_rows = ROW_METRICS.get(name) or partial(of_counts, CONFUSION_METRICS[name], GRADIENTS[name])
    return Metric(name, of_rows, BOUNDS[name], BETTER[name] == "min", () if name in ROW_METRICS else None)


METRICS: Mapping[str, Metric] = {name: _named(name) for name in (*ROW_METRICS, *CONFUSION_METRICS)}
ACCURACY, AUROC = METRICS["accuracy"], Metric("auroc", auroc, classes=None)
SCORE = Metric("score", None, (-np.inf, np.inf))
"""The metric of a number for each row, which a table of predictions has."""


def find_metric(name: str, labels: Sequence[str], *, ordered: bool, has_probabilities: bool, has_score: bool) -> Metric:
    """Returns a metric of predictions.

    Args:
        name: Such as `f1_macro`, `recall:negative`, `auroc` or `score`.
        labels: The names of the classes.
        ordered: Whether classes are steps of a scale.
        has_probabilities: Whether the probability of each class is known, not only the predicted one.
        has_score: Whether there is a number for each row.

    Raises:
        SettingError: If there is no such metric.
    """
    known = {each: metric for each, metric in METRICS.items() if ordered or each not in ORDERED_ONLY}
    known |= {AUROC.name: AUROC} if len(labels) == 2 else {}
    known |= {SCORE.name: SCORE} if has_score else {}
    known = {each: metric for each, metric in known.items() if has_probabilities or each not in OF_PROBABILITIES}
    measure, _, label = name.partition(":")
    if measure in OF_CLASS and label in labels:
        number, (place, gradient) = labels.index(label), OF_CLASS[measure]
        of_rows = partial(of_counts, partial(_of_class, place, number), partial(gradient, number))
        return Metric(name, of_rows, classes=(number,))
    if name not in known:
        classes = ", ".join(f"{each}:CLASS" for each in OF_CLASS)
        message = f"metric={name}: these predictions have {', '.join(known)}, {classes} with a CLASS of "
        message += f"{', '.join(labels)}.{suggestion(name, known)}"
        raise SettingError(Fault("metric", "unknown", message))
    return known[name]
