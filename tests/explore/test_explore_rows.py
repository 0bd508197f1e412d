"""Rows to browse: errors, disagreements and filters against values by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentattn.explore.server import START, Filter, Rows, load_models, read_rows

TEXTS = ["It is bad", "It isn't bad", "Good", "x" * 500]


class Texts:
    def texts(self, row: int) -> str:
        return TEXTS[row]


def rows(**values: Any) -> Rows:
    return Rows(
        **{
            "data": "mine",
            "names": ("neg", "pos"),
            "texts": Texts(),
            "labels_N": np.array([0, 1, 1, 0]),
            "lengths_N": np.array([3, 4, 1, 1]),
            "models": [0, 2],
            # model 0 is wrong in row 1 (0.6) and row 2 (0.9), model 2 in row 0 (0.8)
            "probabilities_ANC": np.array(
                [[[0.9, 0.1], [0.6, 0.4], [0.9, 0.1], [0.7, 0.3]], [[0.2, 0.8], [0.3, 0.7], [0.05, 0.95], [0.6, 0.4]]]
            ),
            **values,
        }
    )


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Filter(), [2, 1]),
        (Filter(model=1), [0]),
        (Filter(order="disagreement"), [2, 0, 1]),  # the less sure of two: 0.9, 0.8, 0.6
        (Filter(order="rows"), [0, 1, 2, 3]),
    ],
)
def test_filters(wanted: Filter, expected: list[int]) -> None:
    assert rows().chosen(wanted).tolist() == expected


def test_a_summary_shows_label_and_predictions() -> None:
    assert rows().summary(1) == {
        "row": 1,
        "start": "It isn't bad",
        "label": "pos",
        "tokens": 4,
        "predicted": [
            {"label": "neg", "probability": 0.6},
            {"label": "pos", "probability": 0.7},
        ],
    }
    assert rows().summary(3)["start"] == "x" * START + "\u2026"


def test_rows_of_runs(outputs: Path) -> None:
    models, _ = load_models([outputs])
    found, faults = read_rows(models, "test")
    assert found is not None
    assert not faults
    assert found.models == [0, 1]
    stored = models[1].run.metrics["test/accuracy"]
    assert (found.probabilities_ANC[1].argmax(axis=1) == found.labels_N).mean() == pytest.approx(stored)
    text = found.texts.texts(7)
    [prediction] = models[1].run.predict([text])
    assert prediction.probabilities[found.names[0]] == pytest.approx(found.probabilities_ANC[1, 7, 0], abs=1e-5)


def test_runs_without_predictions_have_no_rows(outputs: Path, tmp_path: Path) -> None:
    models, _ = load_models([outputs])
    for model in models:
        (model.run.path / "predictions.parquet").rename(tmp_path / model.name)
    try:
        found, faults = read_rows(models, "test")
    finally:
        for model in models:
            (tmp_path / model.name).rename(model.run.path / "predictions.parquet")
    assert found is None
    assert {fault.kind for fault in faults} == {"missing", "not_found"}
