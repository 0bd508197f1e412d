"""Numbers behind the charts: Pareto front, reliability, confusion and others, by hand and against scikit-learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from run_folders import make_setting
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from sentattn.compare.report.summaries import (
    class_values,
    confusion,
    hop_groups,
    hops,
    learning_curve,
    pareto,
    reliability,
)
from sentattn.compare.settings import Setting
from sentattn.config.compose import compose


@pytest.mark.parametrize(
    ("costs", "values", "front"),
    [
        ([3, 1, 2], [0.9, 0.7, 0.8], [1, 2, 0]),
        ([3, 1, 2], [0.8, 0.7, 0.9], [1, 2]),
        ([1, 1, 2], [0.7, 0.8, 0.8], [1]),  # as dear and worse; dearer and as good
        ([2, float("nan"), 1], [0.9, 0.99, 0.8], [2, 0]),
        ([], [], []),
    ],
)
def test_pareto_front(costs: list[float], values: list[float], front: list[int]) -> None:
    assert pareto(costs, values) == front


def test_reliability_has_bins_of_equal_mass() -> None:
    confidence = np.linspace(0.51, 0.99, 30)
    labels = np.tile([0, 1], 15)  # of each pair of neighbours the first is right
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    other = np.stack([confidence, 1 - confidence], axis=1)
    other[labels == 1] = other[labels == 1][:, ::-1]  # right everywhere
    order = np.random.default_rng(0).permutation(30)
    found = reliability(make_setting([probabilities[order], other[order]], labels[order]))
    np.testing.assert_allclose(found[0], confidence.reshape(15, 2).mean(axis=1))
    np.testing.assert_allclose(found[1], np.full(15, (0.5 + 1) / 2))


def test_confusion_and_values_by_class_are_scikit_learns() -> None:
    random = np.random.default_rng(0)
    probabilities, labels = random.dirichlet(np.ones(3), (2, 90)), random.integers(3, size=90)
    counts = confusion(make_setting(probabilities, labels))
    predicted = probabilities.argmax(axis=2)
    np.testing.assert_allclose(counts, np.mean([confusion_matrix(labels, one) for one in predicted], axis=0))
    expected = precision_recall_fscore_support(np.tile(labels, 2), predicted.ravel())[:3]
    np.testing.assert_allclose(class_values(counts), expected)


def test_a_class_without_rows_has_values_of_0() -> None:
    assert [one.tolist() for one in class_values(np.array([[2.0, 0], [0, 0]]))] == [[1, 0]] * 3


def test_a_learning_curve_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert learning_curve(tmp_path) == []
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1, "val/accuracy": 0.5}\n{"epoch": 2')
    assert learning_curve(tmp_path) == []
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1, "val/accuracy": 0.5}\n3\n')
    assert learning_curve(tmp_path) == [{"epoch": 1, "val/accuracy": 0.5}]


def with_settings(*overrides: str) -> Setting:
    return make_setting([[[1.0, 0]]], [0], settings=compose([*overrides, "logger=none"]))


def test_settings_that_differ_in_hops_alone_are_a_group() -> None:
    many, few, one = (with_settings("model=structured", f"model.attention.hops={n}") for n in (8, 2, 1))
    other = with_settings("model=structured", "model.attention.hops=4", "optimizer.lr=0.01")
    [group] = hop_groups([many, other, few, with_settings("model=mean"), one])
    assert [hops(one) for one in group] == [1, 2, 8]
    assert hop_groups([few, other]) == []
