"""Accuracy and F1 of the training passes, by scikit-learn, and the learning rate of each epoch."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning import Callback
from sklearn.metrics import accuracy_score, f1_score
from tiny import tiny

from sentattn.config.request import read_single
from sentattn.training.fit import fit as train
from sentattn.training.lit_module import LitClassifier


class Rates(Callback):
    """Notes the learning rate of each step."""

    def __init__(self) -> None:
        self.rates: list[float] = []

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        self.rates.append(optimizer.param_groups[0]["lr"])


@pytest.mark.parametrize("step", [1, 2])
def test_metrics_of_the_training_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    labels: list[list[int]] = []
    predicted: list[list[int]] = []
    compute_loss = LitClassifier.compute_loss

    def noting(self: LitClassifier, batch: Any) -> Any:
        classified, loss = compute_loss(self, batch)
        if self.training:
            labels.append(batch.labels_B.tolist())
            predicted.append(classified.logits_BC.argmax(dim=-1).tolist())
        return classified, loss

    monkeypatch.setattr(LitClassifier, "compute_loss", noting)
    settings = tiny(
        f"output_dir={tmp_path}", "test=false", "optimizer.lr=0.05", f"trainer.accumulate_grad_batches={step}"
    )
    rates = Rates()
    run = train(read_single(settings).settings, callbacks=[rates])
    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert len(labels) == 20, "one pass an epoch"
    for row, start in zip(rows, (0, 10), strict=True):
        true, guessed = (list(chain(*batches[start : start + 10])) for batches in (labels, predicted))
        assert row["train/accuracy"] == pytest.approx(accuracy_score(true, guessed), abs=1e-12)
        assert row["train/f1_weighted"] == pytest.approx(f1_score(true, guessed, average="weighted"), abs=1e-12)
    last_steps = rates.rates[10 // step - 1 :: 10 // step]
    assert [row["train/lr"] for row in rows] == last_steps
    assert run.metrics["train/accuracy"] == rows[run.result["best_epoch"] - 1]["train/accuracy"]
