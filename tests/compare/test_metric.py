"""Metrics as values of rows, against scikit-learn, derivatives by weights and bootstrap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from run_folders import compare, make_seeds, make_setting
from sklearn import metrics as reference

from sentattn.compare.metric import METRICS, find_metric
from sentattn.metrics import Floats, Ints, classifier_metrics

LABELS = ["a", "b", "c"]
KNOWN = {"has_probabilities": True, "has_score": False}


def drawn(seed: int, rows: int = 300, classes: int = 3) -> tuple[Floats, Ints]:
    random = np.random.default_rng(seed)
    return random.dirichlet(np.ones(classes), rows), random.integers(classes, size=rows)


def weighted(name: str, p_NC: Floats, labels_N: Ints, weights_N: Floats) -> float:
    """The metric by scikit-learn where each row has a weight."""
    predicted_N = p_NC.argmax(axis=1)
    match name.partition(":"):
        case "auroc", _, _:
            return float(reference.roc_auc_score(labels_N, p_NC[:, 1], sample_weight=weights_N))
        case "quadratic_kappa", _, _:
            return float(
                reference.cohen_kappa_score(labels_N, predicted_N, weights="quadratic", sample_weight=weights_N)
            )
        case "f1_macro" | "f1_weighted", _, _:
            average = name.removeprefix("f1_")
            return float(reference.f1_score(labels_N, predicted_N, average=average, sample_weight=weights_N))
        case measure, _, label:
            function = reference.recall_score if measure == "recall" else reference.f1_score
            chosen = [LABELS.index(label)]
            return float(function(labels_N, predicted_N, labels=chosen, average="macro", sample_weight=weights_N))


@pytest.mark.parametrize("name", ["f1_macro", "f1_weighted", "quadratic_kappa", "recall:b", "f1:c", "auroc"])
def test_a_row_has_the_metric_and_its_derivative_by_the_weight_of_the_row(name: str) -> None:
    p_NC, labels_N = drawn(0, classes=2 if name == "auroc" else 3)
    metric = find_metric(name, LABELS[: p_NC.shape[1]], ordered=True, **KNOWN)
    values_N = make_setting([p_NC], labels_N).runs[0].values(metric)
    assert values_N.mean() == pytest.approx(weighted(name, p_NC, labels_N, np.ones(300)), rel=1e-9)
    step = 1e-5
    for row in range(0, 300, 29):
        weights_N = np.ones(300)
        weights_N[row] += step
        change = weighted(name, p_NC, labels_N, weights_N) - weighted(name, p_NC, labels_N, np.ones(300))
        assert values_N[row] - values_N.mean() == pytest.approx(300 * change / step, rel=1e-3, abs=1e-4)


@given(st.integers(0, 1000), st.integers(1, 60), st.integers(2, 5))
def test_the_mean_over_rows_is_the_metric_for_any_predictions(seed: int, rows: int, classes: int) -> None:
    p_NC, labels_N = drawn(seed, rows, classes)
    [run] = make_setting([p_NC], labels_N).runs
    expected = classifier_metrics(p_NC, labels_N, ordered=True)
    for name, metric in METRICS.items():
        assert run.values(metric).mean() == pytest.approx(expected[name], rel=1e-9, abs=1e-9)


def test_an_auroc_of_ties_is_a_half() -> None:
    labels_N = np.array([0, 1, 0, 1, 1])
    [run] = make_setting([np.full((5, 2), 0.5)], labels_N).runs
    assert run.values(find_metric("auroc", ["no", "yes"], ordered=False, **KNOWN)) == pytest.approx(np.full(5, 0.5))


@pytest.mark.parametrize("name", ["f1_macr", "recall:d", "auroc", "score", "quadratic_kappa", "f1", "log_loss"])
def test_unknown_metrics_are_refused(name: str) -> None:
    known = {"has_probabilities": name != "log_loss", "has_score": False}
    assert refused(lambda: find_metric(name, LABELS, ordered=False, **known)) == [("metric", "unknown")]


def test_a_metric_of_probabilities_needs_them() -> None:
    setting = make_setting([drawn(0)[0]], drawn(0)[1])
    runs = [replace(run, has_probabilities=False) for run in setting.runs]
    assert "log_loss" not in replace(setting, runs=runs).metrics
    assert "f1_macro" in replace(setting, runs=runs).metrics


def test_settings_are_ranked_and_tested_by_the_metric(tmp_path: Path) -> None:
    make_seeds(tmp_path, {"structured": 0.9, "lstm_mean": 0.6}, rows=400)
    by_accuracy = compare(tmp_path)
    for name in ("f1_macro", "log_loss"):
        found = replace(by_accuracy, metric=METRICS[name], margin=METRICS[name].default_margin)
        assert [setting.name for setting in found.leaderboard] == [each.name for each in by_accuracy.leaderboard]
        [pair] = [pair for pair in found.tests if pair.declared]
        assert pair.verdict == "better"
        gap = pair.first.metrics[name].value - pair.second.metrics[name].value
        assert pair.estimate.value == pytest.approx(-gap if name == "log_loss" else gap)
        assert name in pair.message(found.margin)


def test_a_class_with_few_rows_gives_no_verdict_by_its_metrics() -> None:
    labels_N = np.repeat([0, 1], [200, 29])
    assert METRICS["f1_macro"].rare_classes(labels_N) == [1]
    assert METRICS["accuracy"].rare_classes(labels_N) == []
    assert find_metric("recall:no", ["no", "yes"], ordered=False, **KNOWN).rare_classes(labels_N) == []
    assert find_metric("recall:yes", ["no", "yes"], ordered=False, **KNOWN).rare_classes(labels_N) == [1]


def test_a_margin_is_in_points_or_in_the_unit_of_a_loss() -> None:
    assert METRICS["f1_macro"].default_margin == 0.5
    assert METRICS["log_loss"].default_margin == 0.005
    assert METRICS["f1_macro"].difference(0.0123) == "1.23"
    assert METRICS["log_loss"].difference(0.0123, "+") == "+0.0123"
