"""Runs that an older version has written are resumed as that version did it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning import Callback, LightningModule, Trainer

from sentattn import train
from sentattn.config.request import read_request
from sentattn.errors import Pruned
from sentattn.models import dropout
from sentattn.run import Run
from sentattn.training import fit

FIXTURES = Path(__file__).parent.parent / "fixtures" / "before_lean"
EXPECTED: dict[str, Any] = json.loads((FIXTURES / "expected.json").read_text())["runs"]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the runs and of the table that they were trained on; paths in their settings are relative to it."""
    for name in ("runs", "tables"):
        shutil.copytree(FIXTURES / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class EndsAfterAnEpoch(Callback):
    """Ends a training after its first epoch in this process."""

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        raise Pruned


def test_an_interrupted_run_is_resumed(copy: Path) -> None:
    request = read_request(["resume=runs/interrupted_table"])
    run = fit.train(request.settings, resume=Path("runs/interrupted_table"), callbacks=[EndsAfterAnEpoch()])
    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    before = EXPECTED["interrupted_table"]["interrupted"]
    assert [row["epoch"] for row in rows] == list(range(1, before["epoch"] + 2))
    assert run.result["setting"] == before["about"]["setting"]


@pytest.mark.slow
def test_an_interrupted_run_is_resumed_to_the_same_end(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dropout, "LEAST", 1.0)  # the older version drew its masks with torch's dropout
    assert train.main(["resume=runs/interrupted_table"]) == 0
    result, expected = Run(copy / "runs/interrupted_table").result, EXPECTED["interrupted_table"]["resumed"]
    for key in ("status", "setting", "data_fingerprint", "best_epoch", "parameters"):
        assert result[key] == expected[key], key
    assert {name: result["metrics"][name] for name in expected["metrics"]} == pytest.approx(
        expected["metrics"], abs=1e-4
    )
