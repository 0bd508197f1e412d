"""The numbers behind the charts of a report: Pareto front, reliability, confusion, learning curves, hops, slices."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sentattn.compare import statistics
from sentattn.compare.comparison import Comparison
from sentattn.compare.settings import Setting, rest
from sentattn.compare.statistics import Estimate
from sentattn.config.groups import get_path
from sentattn.metrics import BINS, Floats, Ints, calibration_bins, f1
from sentattn.run import METRICS, MODEL

HOPS = "model.attention.hops"
LABELS = "labels.json"
LENGTH_BINS = 5
MIN_ROWS = 20
"""Slices of fewer rows are left out."""
NEGATION = re.compile(
    r"\b(?:no|not|none|nobody|nothing|neither|nor|never|nowhere|cannot|without|hardly|scarcely|barely|\w+n['\u2019]t)\b",
    re.IGNORECASE,
)
CONTRAST = re.compile(
    r"\b(?:but|however|although|though|yet|despite|nevertheless|nonetheless|whereas|even if|in spite of"
    r"|on the other hand)\b",
    re.IGNORECASE,
)


def pareto(costs: Sequence[float], values: Sequence[float]) -> list[int]:
    """Returns the numbers of the points on the Pareto front, by rising cost: no other is as cheap and as good.

    A point whose cost is not known is not on it.
    """
    front: list[int] = []
    known = [i for i, cost in enumerate(costs) if np.isfinite(cost)]
    for i in sorted(known, key=lambda i: (costs[i], -values[i])):
        if not front or values[i] > values[front[-1]]:
            front.append(i)
    return front


def reliability(setting: Setting) -> tuple[Floats, Floats]:
    """Returns confidence and accuracy of the bins of the calibration error, over all seeds, (B,) each.

    A bin holds the rows of each run's bin with this number, and is left out where no run has a row in it.
    """
    confidence_SN = setting.probabilities.max(axis=2)
    bin_SN = np.stack([calibration_bins(confidence_N) for confidence_N in confidence_SN])
    sums = (np.bincount(bin_SN.ravel(), values_SN.ravel(), BINS) for values_SN in (confidence_SN, setting.correct))
    rows = np.bincount(bin_SN.ravel(), minlength=BINS)
    confidences, accuracies = (values[rows > 0] / rows[rows > 0] for values in sums)
    return confidences, accuracies


def confusion(setting: Setting) -> Floats:
    """Returns the counts of true and predicted classes, (true, predicted), means over seeds."""
    classes = setting.probabilities.shape[2]
    predicted_SN = setting.probabilities.argmax(axis=2)
    counts = np.bincount((setting.rows.labels_N * classes + predicted_SN).ravel(), minlength=classes**2)
    return counts.reshape(classes, classes) / len(predicted_SN)


def class_values(confusion_CC: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns precision, recall and F1 of each class from counts (true, predicted); 0 where a class does not occur."""
    hits = np.diagonal(confusion_CC)
    predicted, true = confusion_CC.sum(axis=0), confusion_CC.sum(axis=1)
    precision, recall = (np.divide(hits, n, out=np.zeros_like(hits), where=n > 0) for n in (predicted, true))
    return precision, recall, f1(confusion_CC)[0]


def learning_curve(folder: Path) -> list[dict[str, float]]:
    """Returns a row of metrics for each epoch of a run; none where it has no readable file of them."""
    try:
        lines = (folder / METRICS).read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return []
    return [row for row in rows if isinstance(row, dict) and "epoch" in row]


def hop_groups(settings: Sequence[Setting]) -> list[list[Setting]]:
    """Returns the settings that differ in their number of hops only, by hops; groups with one number are left out."""
    groups: dict[str, list[Setting]] = defaultdict(list)
    for setting in settings:
        if isinstance(hops(setting), int):
            groups[repr(sorted(rest(setting.settings, (HOPS,)).items()))].append(setting)
    several = [sorted(group, key=hops) for group in groups.values()]
    return [group for group in several if hops(group[0]) != hops(group[-1])]


def hops(setting: Setting) -> Any:
    """Returns the number of hops of a setting's attention, None where it has none."""
    return get_path(setting.settings, HOPS)


def class_names(comparison: Comparison) -> list[str]:
    """Returns the names of the classes, as a model of the comparison has them; else their numbers."""
    classes = comparison.runs[0].probabilities_NC.shape[1]
    for setting in comparison.settings:
        with suppress(OSError, ValueError):
            names = json.loads((setting.runs[0].path / MODEL / LABELS).read_text(encoding="utf-8"))
            if isinstance(names, list) and len(names) == classes:
                return [str(name) for name in names]
    return [str(number) for number in range(classes)]


class Slice(NamedTuple):
    """Some rows of a comparison: the property that they share, and their numbers."""

    name: str
    chosen_K: Ints


def by_length(lengths_N: Ints) -> list[Slice]:
    """Returns about equally large slices by the number of tokens that are read; equal lengths share a slice."""
    last = np.arange(1, LENGTH_BINS) * len(lengths_N) // LENGTH_BINS - 1
    edges = np.unique(np.sort(lengths_N)[last])  # the largest length of each slice but the last
    bin_N = np.searchsorted(edges, lengths_N)
    slices = []
    for number in np.unique(bin_N):
        chosen_K = np.flatnonzero(bin_N == number)
        low, high = int(lengths_N[chosen_K].min()), int(lengths_N[chosen_K].max())
        slices.append(Slice(f"{low}" if low == high else f"{low} to {high}", chosen_K))
    return large(slices)


def by_class(labels_N: Ints, names: Sequence[str]) -> list[Slice]:
    """Returns the rows of each class."""
    return large([Slice(name, np.flatnonzero(labels_N == number)) for number, name in enumerate(names)])


def by_stars(stars_N: Ints) -> list[Slice]:
    """Returns the rows of each number of stars."""
    return large([Slice(f"{number}", np.flatnonzero(stars_N == number)) for number in np.unique(stars_N)])


def by_words(texts: Sequence[str], words: re.Pattern[str]) -> list[Slice]:
    """Returns the rows without and those with one of some words."""
    has_N = np.array([words.search(text) is not None for text in texts])
    return large([Slice("without", np.flatnonzero(~has_N)), Slice("with", np.flatnonzero(has_N))])


def large(slices: Sequence[Slice]) -> list[Slice]:
    """Returns the slices that have enough rows; none where these are fewer than two."""
    kept = [part for part in slices if len(part.chosen_K) >= MIN_ROWS]
    return kept if len(kept) > 1 else []


def accuracy(setting: Setting, chosen_K: Ints) -> Estimate:
    """Returns the mean over seeds of the accuracy on some rows.

    Its interval counts rows (or their groups) and seeds, of a setting with one seed rows alone.
    """
    group_N = setting.rows.group_N
    groups_K = None if group_N is None else np.unique(group_N[chosen_K], return_inverse=True)[1]
    return statistics.accuracy(setting.correct[:, chosen_K], groups_K, deterministic=setting.deterministic)
