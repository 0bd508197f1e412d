"""Runs and an export that an earlier version wrote: they load, predict and export as before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from sentattn import evaluate, predict
from sentattn import list as list_command
from sentattn.export import __main__ as export
from sentattn.export import predict as script
from sentattn.prediction.model import load

FIXTURES = Path(__file__).parent / "fixtures" / "before_lean"
EXPECTED: dict[str, Any] = json.loads((FIXTURES / "expected.json").read_text())
TEXTS: list[str] = EXPECTED["texts"]
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the fixtures' runs, table and export."""
    folder = tmp_path_factory.mktemp("before_lean")
    for name in ("runs", "tables", "onnx"):
        shutil.copytree(FIXTURES / name, folder / name)
    return folder


@pytest.mark.parametrize("name", [name for name, run in EXPECTED["runs"].items() if "predict" in run])
def test_a_run_predicts_as_before(folder: Path, name: str) -> None:
    run = load(folder / "runs" / name)
    assert run.result["setting"] == EXPECTED["runs"][name]["setting"]
    for prediction, expected in zip(run.predict(TEXTS), EXPECTED["runs"][name]["predict"], strict=True):
        assert prediction.label == expected["label"]
        assert prediction.probabilities == pytest.approx(expected["probabilities"], abs=TOLERANCE)


def test_the_predict_command_reads_an_old_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict.main([str(folder / "runs/finished"), f"text={TEXTS[0]}", "format=json"]) == 0
    record = json.loads(capsys.readouterr().out)
    expected = EXPECTED["runs"]["finished"]["predict"][0]
    assert record["probabilities"] == pytest.approx(expected["probabilities"], abs=TOLERANCE)


@pytest.mark.parametrize("split", ["val", "test"])
def test_an_old_run_is_evaluated_as_before(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: str
) -> None:
    monkeypatch.chdir(folder)
    output = tmp_path / "metrics.json"
    assert evaluate.main(["runs/finished_table", f"split={split}", f"output={output}"]) == 0
    expected = EXPECTED["runs"]["finished_table"]["evaluate"][split]
    del expected[f"{split}/calibration_error"]  # over bins of equal width then
    metrics = json.loads(output.read_text())
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, abs=TOLERANCE)


def test_an_old_run_is_exported(folder: Path) -> None:
    assert export.main([str(folder / "runs/finished")]) == 0
    predictions = script.Model(folder / "runs/finished/onnx").predict(TEXTS)
    for prediction, expected in zip(predictions, EXPECTED["runs"]["finished"]["predict"], strict=True):
        assert prediction["label"] == expected["label"]
        assert prediction["probabilities"] == pytest.approx(expected["probabilities"], abs=TOLERANCE)


def test_an_old_export_still_runs_and_is_replaced(folder: Path) -> None:
    before = script.Model(folder / "onnx").predict(TEXTS)  # with today's script
    for prediction, expected in zip(before, EXPECTED["runs"]["finished"]["predict"], strict=True):
        assert prediction["probabilities"] == pytest.approx(expected["probabilities"], abs=TOLERANCE)
    old = onnxruntime.InferenceSession(folder / "onnx/model.onnx")
    assert export.main([str(folder / "runs/finished"), f"output={folder / 'onnx'}"]) == 0
    new = onnxruntime.InferenceSession(folder / "onnx/model.onnx")
    inputs = {"tokens": np.array([[2, 3, 4]]), "lengths": np.array([3])}
    for array, expected in zip(new.run(None, inputs), old.run(None, inputs), strict=True):
        assert array == pytest.approx(expected, abs=TOLERANCE)


def test_old_runs_are_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list_command.main(["runs", f"output_dir={folder / 'runs'}"]) == 0
    listed = capsys.readouterr().out
    assert "structured" in listed
    assert "feedforward" in listed
