"""What the charts of a report draw."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from run_folders import make_run, make_setting

from sentattn.compare.leaderboard import Entry, leaderboard
from sentattn.compare.metrics import estimates
from sentattn.compare.report.prediction_charts import confusion_charts
from sentattn.compare.report.setting_charts import hop_chart
from sentattn.compare.runs import comparisons


def entries_of(folder: Path) -> list[Entry]:
    [comparison], _ = comparisons([folder], split="test")
    return leaderboard(comparison)


def test_hops_of_two_groups_of_settings(tmp_path: Path) -> None:
    for embedding in ("words", "ngrams"):
        for hops in (1, 3):
            make_run(tmp_path, f"model/embedding={embedding}", f"model.attention.hops={hops}", accuracy=0.6 + hops / 10)
    entries = entries_of(tmp_path)
    [chart] = hop_chart(entries)
    accuracies = {entry.setting.name: entry.metrics["accuracy"].value for entry in entries}
    assert chart.table is not None
    drawn = [dict(zip(trace.text, trace.y, strict=True)) for trace in chart.figure.data]
    assert [len(one) for one in drawn] == [2, 2]
    assert drawn[0] | drawn[1] == pytest.approx(accuracies)
    assert {name: value for name, _, value, _ in chart.table.rows} == {
        name: f"{100 * value:.2f}%" for name, value in accuracies.items()
    }


def test_names_of_classes_are_escaped_once_for_every_setting() -> None:
    labels = np.array([0, 1, 0, 1])
    probabilities = np.eye(2)[labels][None]
    entries = [
        Entry(make_setting(probabilities, labels, name), estimates(probabilities, labels, None, ordered=False))
        for name in ("first", "second", "third")
    ]
    for _, figure, table in confusion_charts(entries, labels, ["R&B", "jazz"]):
        assert figure.layout.xaxis.ticktext == ("R&amp;B", "jazz")  # plotly reads it as HTML
        assert table is not None
        assert table.heading[1] == "as R&B"  # the page escapes its tables
        assert [row[0] for row in table.rows] == ["R&B", "jazz"]
