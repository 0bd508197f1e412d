"""What a report shows: Pareto front, reliability, confusion, learning curves, slices of rows, and chosen texts."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sentattn.compare.comparison import TRAIN_SEED
from sentattn.compare.metric import ACCURACY
from sentattn.compare.runs import Setting, names, rest
from sentattn.compare.statistics import Estimate
from sentattn.config.groups import get_path
from sentattn.config.schema import SEEDS
from sentattn.data.corpus import Split
from sentattn.errors import MALFORMED, UserError
from sentattn.metrics import BINS, Floats, Ints, calibration_bins
from sentattn.prediction.prediction import Prediction
from sentattn.run import METRICS_FILE, MODEL_FOLDER

TRAIN_SIZE, STRENGTH = "data.train_size", "model.c"
"""The strength of a reference is found for each number of training rows."""
LENGTH_BINS = 5
MIN_ROWS = 20
"""Slices of fewer rows are left out."""
MOST = 3
"""Texts that are shown."""
NEGATION = re.compile(
    r"\b(?:no|not|none|nobody|nothing|neither|nor|never|nowhere|cannot|without|hardly|scarcely|barely|\w+n['\u2019]t)\b",
    re.IGNORECASE,
)
CONTRAST = re.compile(
    r"\b(?:but|however|although|though|yet|despite|nevertheless|nonetheless|whereas|even if|in spite of"
    r"|on the other hand)\b",
    re.IGNORECASE,
)
Choice: TypeAlias = tuple[int, tuple[int, ...]]
"""A row, and the places in the leaderboard of the settings whose attention is shown."""
Example: TypeAlias = tuple[str, list[tuple[str, Prediction]]]
"""The label of a text, and the predictions of some settings for it by their names."""


class Curve(NamedTuple):
    """A metric of a setting by the number of training rows, each value with its 95% interval if there is one."""

    name: str
    metric: str
    x: Sequence[float]
    values: Sequence[tuple[float, tuple[float, float] | None]]


def pareto(costs: Sequence[float], values: Sequence[float]) -> list[int]:
    """Returns the numbers of the points on the Pareto front, by rising cost: no other is as cheap and as good."""
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


def learning_curve(folder: Path) -> list[dict[str, float]]:
    """Returns a row of metrics for each epoch of a run; none where it has no readable file of them."""
    with suppress(*MALFORMED):
        rows = [json.loads(line) for line in (folder / METRICS_FILE).read_text(encoding="utf-8").splitlines()]
        return [row for row in rows if isinstance(row, dict) and "epoch" in row]
    return []


def curves(settings: Sequence[Setting]) -> list[Curve]:
    """Returns the curves of settings that differ in the number of their training rows alone, or in their draw."""
    keys = (TRAIN_SIZE, TRAIN_SEED, STRENGTH)
    families: dict[str, dict[int, list[Setting]]] = defaultdict(lambda: defaultdict(list))
    for setting in settings:
        x = get_path(setting.settings, TRAIN_SIZE) or get_path(setting.runs[0].result, "rows.train")  # or all rows
        if isinstance(x, int):
            families[repr(sorted(rest(setting.settings, keys).items()))][x].append(setting)
    several = [sorted(family.items()) for family in families.values() if len(family) > 1]
    labels = names([family[0][1][0].settings for family in several], keys)
    return [
        Curve(name, settings[0].metric.name, [x for x, _ in family], [_value_over(draws) for _, draws in family])
        for name, family in zip(labels, several, strict=True)
    ]


def _value_over(draws: Sequence[Setting]) -> tuple[float, tuple[float, float] | None]:
    """Returns the metric over draws of the training rows, each the mean over its seeds, with its 95% interval."""
    metric = draws[0].metric
    if len(draws) == 1:  # whose seeds are the repeats
        return draws[0].metrics[metric.name].value, draws[0].interval()
    values_DN = np.stack([draw.values(metric).mean(axis=0) for draw in draws])
    estimate = metric.average(values_DN, draws[0].rows.group_N)
    return estimate.value, estimate.interval() if len(draws) >= SEEDS else None


def by_length(lengths_N: Ints) -> dict[str, Ints]:
    """Returns about equally large slices by the number of tokens that are read; equal lengths share a slice."""
    last = np.arange(1, LENGTH_BINS) * len(lengths_N) // LENGTH_BINS - 1
    edges = np.unique(np.sort(lengths_N)[last])  # the largest length of each slice but the last
    bin_N = np.searchsorted(edges, lengths_N)
    names = {}
    for number in np.unique(bin_N):
        low, high = (int(limit(lengths_N[bin_N == number])) for limit in (np.min, np.max))
        names[number] = f"{low}" if low == high else f"{low} to {high}"
    return by_value(bin_N, names)


def by_value(values_N: NDArray[np.generic], names: Mapping[Any, str]) -> dict[str, Ints]:
    """Returns the numbers of the rows with each value, by its name.

    Slices with few rows are left out, and all where fewer than two are left.
    """
    slices = {name: np.flatnonzero(values_N == value) for value, name in names.items()}
    large = {name: rows_K for name, rows_K in slices.items() if len(rows_K) >= MIN_ROWS}
    return large if len(large) > 1 else {}


def accuracy_on(setting: Setting, chosen_K: Ints) -> Estimate:
    """Returns the mean over seeds of the accuracy on some rows."""
    group_N = setting.rows.group_N
    groups_K = None if group_N is None else np.unique(group_N[chosen_K], return_inverse=True)[1]
    return ACCURACY.average(setting.correct[:, chosen_K], groups_K, deterministic=setting.deterministic)


def disagreements(settings: Sequence[Setting], most: int = MOST) -> list[Choice]:
    """Returns the rows on which two settings are surest of different classes, with these two.

    The first run of each setting counts. A row is ranked by the lower of their two probabilities.
    """
    trained = _trained(settings)
    if len(trained) < 2:
        return []
    surest_CN, best_CN = surest(np.stack([settings[rank].runs[0].probabilities_NC for rank in trained]))
    order_CN = np.argsort(-surest_CN, axis=0, kind="stable")
    together_N = np.take_along_axis(surest_CN, order_CN[1:2], axis=0)[0]
    rows = [int(row) for row in np.argsort(-together_N, kind="stable")[:most] if together_N[row] > 0]
    return [(row, tuple(sorted(trained[best_CN[c, row]] for c in order_CN[:2, row]))) for row in rows]


def surest(probabilities_ANC: Floats) -> tuple[Floats, Ints]:
    """Returns for each class the highest probability of a model that predicts it, 0 for none, and the model, (C, N)."""
    predicted_AN, confidence_AN = probabilities_ANC.argmax(axis=2), probabilities_ANC.max(axis=2)
    classes = range(probabilities_ANC.shape[2])
    of_class_CAN = np.stack([np.where(predicted_AN == c, confidence_AN, 0) for c in classes])
    return of_class_CAN.max(axis=1), of_class_CAN.argmax(axis=1)


def worst_errors(settings: Sequence[Setting], labels_N: Ints) -> list[Choice]:
    """Returns the rows of whose wrong class the best setting is surest; none where it has no model."""
    if 0 not in _trained(settings):
        return []
    wrong_N = errors(settings[0].runs[0].probabilities_NC, labels_N)
    return [(int(row), (0,)) for row in np.argsort(-wrong_N, kind="stable")[:MOST] if wrong_N[row] > 0]


def errors(probabilities_NC: Floats, labels_N: Ints) -> Floats:
    """Returns the probability of the predicted class of each row, 0 where it is correct."""
    return np.where(probabilities_NC.argmax(axis=1) != labels_N, probabilities_NC.max(axis=1), 0)


def examples(
    choices: Sequence[Choice],
    settings: Sequence[Setting],
    split: str,
    texts: Split,
    labels_N: Ints,
    names: Sequence[str],
) -> tuple[list[Example], list[str]]:
    """Predicts the chosen rows with their models; returns them, and a message for each model that cannot be loaded."""
    predictions: dict[tuple[int, int], Prediction] = {}
    messages = []
    for rank in sorted({rank for _, ranks in choices for rank in ranks}):
        rows = [row for row, ranks in choices if rank in ranks]
        try:
            classifier, its_texts = settings[rank].runs[0].open_model(split, texts)
            predicted = classifier.predict([its_texts.texts(row) for row in rows])
        except UserError as error:
            messages.append(str(error))
            continue
        predictions.update(zip(((rank, row) for row in rows), predicted, strict=True))
    shown = []
    for row, ranks in choices:
        known = [(settings[rank].name, predictions[rank, row]) for rank in ranks if (rank, row) in predictions]
        shown += [(names[labels_N[row]], known)] if known else []
    return shown, messages


def _trained(settings: Sequence[Setting]) -> list[int]:
    """The indices of the settings whose first run has a model."""
    return [rank for rank, setting in enumerate(settings) if (setting.runs[0].path / MODEL_FOLDER).is_dir()]
