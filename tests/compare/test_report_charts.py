"""What the charts of a report draw."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_folders import compare, make_run, make_setting

from sentattn.compare.report.charts import (
    accuracy_range,
    apart,
    confusion_charts,
    cost_charts,
    hop_chart,
    learning_charts,
)


def test_hops_of_two_groups_of_settings(tmp_path: Path) -> None:
    for embedding in ("words", "ngrams"):
        for hops in (1, 3):
            make_run(tmp_path, f"model/embedding={embedding}", f"model.attention.hops={hops}", accuracy=0.6 + hops / 10)
    ranked = compare(tmp_path).leaderboard
    [chart] = hop_chart(ranked)
    accuracies = {setting.name: setting.metrics["accuracy"].value for setting in ranked}
    assert chart.table is not None
    drawn = [dict(zip(trace.text, trace.y, strict=True)) for trace in chart.figure.data]
    assert [len(one) for one in drawn] == [2, 2]
    assert drawn[0] | drawn[1] == pytest.approx(accuracies)
    assert {name: value for name, _, value, _ in chart.table.rows} == {
        name: f"{100 * value:.2f}%" for name, value in accuracies.items()
    }


def test_every_mark_of_accuracy_against_cost_has_its_interval(tmp_path: Path) -> None:
    for seed in range(3):
        for model, accuracy in (("mean", 0.8), ("cnn", 0.81)):
            make_run(tmp_path, f"model={model}", seed=seed, accuracy=accuracy)
    make_run(tmp_path, "model=lstm", accuracy=0.8)  # one seed: no interval
    ranked = compare(tmp_path).leaderboard
    charts = cost_charts(ranked)
    assert charts
    for _, figure, table in charts:
        assert table is not None
        marks = {mark.hovertemplate.partition("<br>")[0]: mark for mark in figure.data if mark.hovertemplate}
        for setting in ranked:
            mark, value = marks[setting.name], setting.metrics["accuracy"].value
            ends = (value - mark.error_y.arrayminus[0], value + mark.error_y.array[0])
            expected = setting.metrics["accuracy"].interval() if setting.has_seeds else (value, value)
            assert ends == pytest.approx(expected)
            low, high = figure.layout.yaxis.range
            assert low < ends[0]
            assert ends[1] < high
        assert ["" if name == "lstm" else "to" for _, name, *_ in table.rows] == [
            "to" if " to " in cell else "" for *_, cell, _ in table.rows
        ]


@pytest.mark.parametrize(("low", "high"), [(0.915, 0.926), (0.9, 0.9), (0.3, 0.9)])
def test_an_axis_of_accuracies_spans_five_points_at_least(low: float, high: float) -> None:
    start, end = accuracy_range([low, high], [None, (high - 0.001, high + 0.001)])
    assert start < low
    assert high + 0.001 < end
    assert end - start >= 0.05 - 1e-12


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(1e-3, 0.3))
def test_labels_are_apart_and_in_the_order_of_their_values(values: list[float], gap: float) -> None:
    found = apart(values, gap)
    order = np.argsort(values, kind="stable")
    assert (np.diff(np.array(found)[order]) >= gap - 1e-9).all()
    assert sum(found) == pytest.approx(sum(values), abs=1e-6)
    if len(values) > 1 and np.diff(np.sort(values)).min() >= gap:
        assert found == pytest.approx(values)


def test_ends_of_curves_have_one_label_a_setting(tmp_path: Path) -> None:
    for seed in range(2):
        for model in ("mean", "cnn"):
            path = make_run(tmp_path, f"model={model}", seed=seed)
            rows = [{"epoch": n, "val/accuracy": 0.8 + n / 100, "val/log_loss": 1 / n} for n in (1, 2)]
            (path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    accuracy, log_loss = learning_charts(compare(tmp_path).leaderboard)
    for chart, height in ((accuracy, 0.01), (log_loss, 0.5)):
        labels = {label.text: label.y for label in chart.figure.layout.annotations}
        assert set(labels) == {"1", "2"}
        assert abs(labels["1"] - labels["2"]) > 0.05 * height


def test_names_of_classes_are_escaped_once_for_every_setting() -> None:
    labels = np.array([0, 1, 0, 1])
    probabilities = np.eye(2)[labels][None]
    settings = [make_setting(probabilities, labels, name) for name in ("first", "second", "third")]
    for _, figure, table in confusion_charts(settings, ["R&B", "jazz"]):
        assert figure.layout.xaxis.ticktext == ("R&amp;B", "jazz")  # plotly reads it as HTML
        assert table is not None
        assert table.heading[1] == "as R&B"  # the page escapes its tables
        assert [row[0] for row in table.rows] == ["R&B", "jazz"]
