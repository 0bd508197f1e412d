"""Numbers behind the charts of a report: Pareto front, reliability, confusion, learning curves, hops."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from sentattn.compare.comparison import Comparison
from sentattn.compare.names import rest
from sentattn.compare.runs import Setting
from sentattn.compare.statistics import Floats
from sentattn.config.groups import get_path
from sentattn.metrics import BINS, calibration_bins, f1
from sentattn.run import METRICS, MODEL

HOPS = "model.attention.hops"
LABELS = "labels.json"


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
