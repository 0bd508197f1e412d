"""The best epoch and what a checkpoint keeps of the epochs, by hand; when callbacks see them, in a training."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from recorders import make_recorder
from tiny import tiny

from sentattn.config.request import read_request
from sentattn.errors import Pruned
from sentattn.run import Run
from sentattn.training.fit import fit as train
from sentattn.training.recorder import Recorder


def recorded(folder: Path, values: list[float], mode: str = "max", losses: list[float] | None = None) -> Recorder:
    recorder = make_recorder(folder, mode=mode)
    for epoch, (value, loss) in enumerate(zip(values, losses or [0.5] * len(values), strict=True), start=1):
        recorder.rows.append({"epoch": epoch, "val/x": value, "val/log_loss": loss})
    recorder.best = recorder.best_of(recorder.rows)
    return recorder


@pytest.mark.parametrize(
    ("values", "mode", "best"),
    [
        ([1, 3, 2], "max", 2),
        ([1, 3, 0.5], "min", 3),
        ([2, 2], "max", 1),
        ([math.nan, 1], "max", 2),
        ([5, math.nan], "min", 1),
        ([math.nan, math.nan], "min", 1),
    ],
)
def test_best_epoch(tmp_path: Path, values: list[float], mode: str, best: int) -> None:
    recorder = recorded(tmp_path, values, mode)
    assert recorder.best["epoch"] == recorder.best_of(recorder.rows)["epoch"] == best
    assert recorder.best_of([]) == {}


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize(("losses", "best"), [([0.1, 0.4, 0.2, 0.2], 3), ([0.1, math.nan, 9.0, math.nan], 3)])
def test_log_loss_decides_between_equal_epochs(tmp_path: Path, mode: str, losses: list[float], best: int) -> None:
    worse = 1.0 if mode == "max" else 3.0
    assert recorded(tmp_path, [worse, 2.0, 2.0, 2.0], mode, losses).best["epoch"] == best


class Looking(Callback):
    """Notes what it sees when epochs start and when the training ends; ends the training after an epoch."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.seen: list[tuple[int, float, bool]] = []

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        recorder = Recorder.of(trainer)
        if recorder.rows:
            self.note(recorder)
        if len(recorder.rows) == self.last:
            raise Pruned

    def note(self, recorder: Recorder) -> None:
        saved = torch.load(recorder.run.last_checkpoint, weights_only=True)
        lines = (recorder.run.path / "metrics.jsonl").read_text().splitlines()
        is_saved = [json.loads(line) for line in lines] == saved["callbacks"]["Recorder"]["rows"] == recorder.rows
        self.seen.append((len(recorder.rows), recorder.rows[-1]["train/loss"], is_saved))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.note(Recorder.of(trainer))


def test_a_callback_finds_each_epoch_recorded_and_saved(tiny_run: Run, tmp_path: Path) -> None:
    looking = Looking(last=9)
    run = train(read_request(tiny(f"output_dir={tmp_path}")).settings, callbacks=[looking])
    rows = [json.loads(line) for line in (tiny_run.path / "metrics.jsonl").read_text().splitlines()]
    assert looking.seen == [(1, rows[0]["train/loss"], True), (2, rows[1]["train/loss"], True)]
    assert run.result["status"] == "finished"


def test_a_pruned_trial_has_the_metrics_of_its_best_epoch(tiny_run: Run, tmp_path: Path) -> None:
    settings = read_request(tiny(f"output_dir={tmp_path / 'outputs'}")).settings
    directory = tmp_path / "study" / "trials" / "7"
    run = train(settings, directory=directory, study="a-study", callbacks=[Looking(last=1)])
    assert run.path == directory
    assert not any((tmp_path / "outputs").iterdir())
    assert (run.result["status"], run.result["study"], run.result["best_epoch"]) == ("pruned", "a-study", 1)
    first = json.loads((tiny_run.path / "metrics.jsonl").read_text().splitlines()[0])
    speed = "train/tokens_per_second"
    assert run.metrics == {name: value for name, value in first.items() if "/" in name and name != speed}
    assert not (directory / "model").exists()
