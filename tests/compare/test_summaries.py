"""Numbers behind the charts and the choice of texts, by hand and against scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import make_setting
from scipy import stats
from sklearn.metrics import confusion_matrix

from sentattn.compare.report.charts import confusion_charts
from sentattn.compare.report.summaries import (
    CONTRAST,
    MIN_ROWS,
    NEGATION,
    accuracy_on,
    by_length,
    by_value,
    curves,
    disagreements,
    examples,
    learning_curve,
    pareto,
    reliability,
    worst_errors,
)
from sentattn.compare.runs import Setting
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


def test_confusion_is_scikit_learns() -> None:
    random = np.random.default_rng(0)
    probabilities, labels = random.dirichlet(np.ones(3), (2, 90)), random.integers(3, size=90)
    [drawn] = confusion_charts([make_setting(probabilities, labels)], ["a", "b", "c"])
    predicted = probabilities.argmax(axis=2)
    counts = np.mean([confusion_matrix(labels, one) for one in predicted], axis=0)
    np.testing.assert_allclose(drawn.figure.data[0].z, counts / counts.sum(axis=1, keepdims=True))


def test_a_learning_curve_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert learning_curve(tmp_path) == []
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1, "val/accuracy": 0.5}\n{"epoch": 2')
    assert learning_curve(tmp_path) == []
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1, "val/accuracy": 0.5}\n3\n')
    assert learning_curve(tmp_path) == [{"epoch": 1, "val/accuracy": 0.5}]


def trained_with(*overrides: str, correct: Any = ((1, 0, 1, 1),), **result: Any) -> Setting:
    """A setting whose seeds predict rows of class 0 correctly where a cell is 1."""
    probabilities = np.where(np.array(correct)[..., None] == 1, [0.9, 0.1], [0.2, 0.8])
    settings = compose([*overrides, "logger=none"])
    made = make_setting(probabilities, np.zeros(len(correct[0]), int), overrides[0], settings=settings)
    return replace(made, runs=[replace(run, result=result) for run in made.runs])


def test_settings_that_differ_in_training_rows_alone_are_a_curve() -> None:
    def model(name: str, size: str, *others: str, rows: int | None = None) -> Setting:
        return trained_with(f"model={name}", f"data.train_size={size}", *others, rows={"train": rows})

    settings = [model("mean", "1000"), model("mean", "null", rows=22500), model("cnn", "null"), model("cnn", "50")]
    settings += [model("mean", "100"), model("mean", "500", "optimizer.lr=0.01"), model("mean", "null", "seed=1")]
    [curve] = curves(settings)
    assert (curve.name, curve.x) == ("mean", [100, 1000, 22500])


def test_of_several_draws_the_means_over_seeds_are_the_repeats() -> None:
    random = np.random.default_rng(0)
    draws = [(random.random((2, 400)) < share).astype(int) for share in (0.6, 0.7, 0.65)]
    settings = [
        trained_with("model=mean", "data.train_size=100", f"data.train_seed={n}", correct=draw)
        for n, draw in enumerate(draws)
    ]
    seeds = (random.random((3, 400)) < 0.8).astype(int)
    large = trained_with("model=mean", "data.train_size=200", correct=seeds)
    [curve] = curves([*settings, large])
    means = [draw.mean() for draw in draws]
    rows = np.concatenate([np.mean([draw.mean(axis=0) for draw in draws], axis=0), [1, 1, 0, 0]])
    of_rows = stats.t.ppf(0.975, 403 - 2) * (rows.var(ddof=1) / 402) ** 0.5
    of_draws = stats.t.ppf(0.975, 2) * (np.var(means, ddof=1) / 3) ** 0.5
    half, centre = np.hypot(of_rows, of_draws), rows.mean()
    (value, interval), (other, of_seeds) = curve.values
    assert curve.x == [100, 200]
    assert value == pytest.approx(np.mean(means))
    assert interval == pytest.approx((centre - half, centre + half), rel=2e-4)
    assert (other, of_seeds) == (pytest.approx(seeds.mean()), large.interval())
    [two] = curves([*settings[:2], large])
    assert two.values[0][1] is None


def setting(correct_SN: np.ndarray, *, groups: np.ndarray | None = None, deterministic: bool = False) -> Setting:
    """A setting that is right where it is told, on rows of class 0."""
    probabilities = np.where(correct_SN[..., None] == 1, [0.9, 0.1], [0.2, 0.8])
    return make_setting(probabilities, np.zeros(correct_SN.shape[1], int), groups=groups, deterministic=deterministic)


def test_slices_of_length_are_about_equally_large() -> None:
    lengths = np.random.default_rng(0).permutation(np.arange(1, 201))
    slices = by_length(lengths)
    assert list(slices) == ["1 to 40", "41 to 80", "81 to 120", "121 to 160", "161 to 200"]
    assert all(len(rows) == 40 for rows in slices.values())
    assert all(np.ptp(lengths[rows]) == 39 for rows in slices.values())


def test_rows_of_one_length_share_a_slice() -> None:
    slices = by_length(np.array([5] * 150 + [9] * 25 + [600] * 25))
    expected = {"5": range(150), "9": range(150, 175), "600": range(175, 200)}
    assert {name: rows.tolist() for name, rows in slices.items()} == {
        name: list(rows) for name, rows in expected.items()
    }
    assert by_length(np.full(100, 600)) == {}


def test_small_slices_and_a_single_one_are_left_out() -> None:
    labels, names = np.repeat([0, 1, 2], [MIN_ROWS, MIN_ROWS, MIN_ROWS - 1]), {0: "a", 1: "b", 2: "c"}
    assert {name: rows.tolist() for name, rows in by_value(labels, names).items()} == {
        "a": list(range(MIN_ROWS)),
        "b": list(range(MIN_ROWS, 2 * MIN_ROWS)),
    }
    assert by_value(labels[MIN_ROWS:], names) == {}


@pytest.mark.parametrize(
    ("text", "negation", "contrast"),
    [
        ("It was not good.", True, False),
        ("I DON'T know", True, False),
        ("I didn\u2019t laugh, but she did", True, True),
        ("Notable knots, a nobleman", False, False),
        ("However, it works", False, True),
        ("Buttons and yeti", False, False),
        ("nothing works; even if it is late", True, True),
    ],
)
def test_words_of_negation_and_contrast(text: str, *, negation: bool, contrast: bool) -> None:
    assert bool(NEGATION.search(text)) == negation
    assert bool(CONTRAST.search(text)) == contrast


def test_an_interval_counts_rows_and_seeds_of_the_slice_alone() -> None:
    correct = np.random.default_rng(1).integers(2, size=(3, 100))
    chosen = np.arange(10, 60)
    part = correct[:, chosen]
    added = np.concatenate([part.mean(0), [1, 1, 0, 0]])  # Agresti and Coull
    rows, seeds, centre = added.var(ddof=1) / 54, part.mean(1).var(ddof=1) / 3, added.mean()
    of_rows, of_seeds = stats.t.ppf(0.975, 53) * rows**0.5, stats.t.ppf(0.975, 2) * seeds**0.5
    half = np.hypot(of_rows, of_seeds)
    value = accuracy_on(setting(correct), chosen)
    assert (value.value, *value.interval()) == pytest.approx((part.mean(), centre - half, centre + half), rel=1e-9)
    fixed = accuracy_on(setting(correct, deterministic=True), chosen)
    assert fixed.interval()[1] == pytest.approx(centre + of_rows)


def test_groups_without_a_row_in_the_slice_do_not_count() -> None:
    correct = np.array([[1, 1, 0, 0, 1, 0, 1, 1, 1, 1]])
    groups = np.array([0, 0, 3, 3, 7, 7, 9, 9, 9, 9])
    value = accuracy_on(setting(correct, groups=groups), np.arange(6))
    # Sums of deviations from 1/2 are 1, -1, 0, each group has a third of the rows; those of four rows more 1/4 each.
    half = stats.t.ppf(0.975, 2) * ((2 / (1 - 1 / 3) + 1) / 10**2) ** 0.5
    assert value.half_width() == pytest.approx(half)


LABELS = np.array([0, 1, 0, 1])


def predicting(of_class_0: list[float], path: Path) -> Setting:
    p = np.array(of_class_0)
    return make_setting([np.stack([p, 1 - p], axis=1)], LABELS, path=path)


def trained(folder: Path, *of_class_0: list[float]) -> list[Setting]:
    (folder / "model").mkdir(exist_ok=True)
    return [predicting(p, folder) for p in of_class_0]


def test_the_surest_disagreements_come_first_with_the_two_settings_that_are_surest(tmp_path: Path) -> None:
    settings = trained(tmp_path, [0.9, 0.6, 0.9, 0.1], [0.8, 0.3, 0.7, 0.45], [0.2, 0.1, 0.95, 0.3])
    assert disagreements(settings) == [(0, (0, 2)), (1, (0, 2))]
    assert disagreements(settings, most=1) == [(0, (0, 2))]


def test_settings_without_a_model_are_not_shown(tmp_path: Path) -> None:
    settings = [
        predicting([0.1] * 4, tmp_path / "reference"),
        *trained(tmp_path, [0.9] * 4, [0.7, 0.7, 0.7, 0.2]),
    ]
    assert disagreements(settings) == [(3, (1, 2))]
    assert disagreements(settings[:2]) == []
    assert worst_errors(settings[:1], LABELS) == []


def test_worst_errors_are_the_surest(tmp_path: Path) -> None:
    [one] = trained(tmp_path, [0.4, 0.9, 0.8, 0.6])
    assert worst_errors([one], LABELS) == [(1, (0,)), (0, (0,)), (3, (0,))]


def test_a_model_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    class Texts:
        def texts(self, row: int) -> str:
            return f"text {row}"

    settings = trained(tmp_path, [0.4, 0.9, 0.8, 0.6])
    found, messages = examples(worst_errors(settings, LABELS), settings, "test", Texts(), LABELS, ["a", "b"])  # type: ignore[arg-type]
    assert found == []
    assert str(tmp_path) in messages[0]
