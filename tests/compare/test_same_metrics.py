"""A training, `evaluate`, `compare` and a reference have the same metrics of the same predictions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tiny import tiny

from sentattn import evaluate, fit
from sentattn.compare.comparison import read_comparisons
from sentattn.compare.references import add_references
from sentattn.errors import RunError
from sentattn.run import Run

EXACT = 1e-9


def compared(path: Path, split: str) -> dict[str, float]:
    """The metrics of a run as `compare` has them."""
    [comparison], _ = read_comparisons([path], split=split)
    [setting] = comparison.leaderboard
    return {f"{split}/{name}": one.value for name, one in setting.metrics.items()}


@pytest.mark.parametrize("split", ["val", "test"])
def test_a_training_an_evaluation_and_a_comparison(tiny_run: Run, tmp_path: Path, split: str) -> None:
    stored = {name: value for name, value in tiny_run.metrics.items() if name.startswith(f"{split}/")}
    output = tmp_path / "metrics.json"
    assert evaluate.main([str(tiny_run.path), f"split={split}", f"output={output}"]) == 0
    assert json.loads(output.read_text()) == pytest.approx(stored, abs=EXACT)
    found = compared(tiny_run.path, split)
    assert set(found) == {*stored, f"{split}/calibration_error_calibrated"} - {f"{split}/loss"}
    assert {name: value for name, value in stored.items() if name in found} == pytest.approx(
        {name: value for name, value in found.items() if name in stored}, abs=EXACT
    )


def test_the_best_epoch_of_a_training_has_the_metrics_of_its_result(tiny_run: Run) -> None:
    rows = [json.loads(line) for line in (tiny_run.path / "metrics.jsonl").read_text().splitlines()]
    best = rows[tiny_run.result["best_epoch"] - 1]
    of_result = {name: value for name, value in tiny_run.metrics.items() if name.startswith("val/")}
    assert {name: best[name] for name in of_result} == pytest.approx(of_result, abs=1e-6)  # other batches, other sums
    assert any(value != float(f"{value:.6g}") for value in of_result.values())


def test_a_reference(tmp_path: Path) -> None:
    fit(tiny(f"output_dir={tmp_path}", "trainer.max_epochs=1"))
    [comparison], _ = read_comparisons([tmp_path], split="test")
    settings = add_references(["nbsvm"], comparison, tmp_path).settings
    [reference] = [one for one in settings if one.runs[0].result["model"] == "nbsvm"]
    path = reference.runs[0].run.path
    for split in ("val", "test"):
        stored = {name: value for name, value in Run(path).metrics.items() if name.startswith(f"{split}/")}
        found = compared(path, split)
        assert {name: found[name] for name in stored} == pytest.approx(stored, abs=EXACT)


@pytest.mark.parametrize("name", ["accuracy", "f1_macro", "log_loss", "brier_score", "calibration_error"])
def test_a_stored_metric_that_is_not_that_of_the_predictions(tiny_run: Run, tmp_path: Path, name: str) -> None:
    path = tmp_path / "run"
    shutil.copytree(tiny_run.path, path)
    result = json.loads((path / "result.json").read_text())
    result["format"] = 1
    result["metrics"][f"test/{name}"] += 0.01
    (path / "result.json").write_text(json.dumps(result))
    with pytest.raises(RunError) as caught:
        read_comparisons([path], split="test")
    assert caught.value.faults[0].kind == "damaged"
    assert f"test/{name}" in caught.value.faults[0].message
