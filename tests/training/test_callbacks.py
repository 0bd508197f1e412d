"""The best epoch, the stop at a NaN, the lines of epochs: by hand, without a training."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from pytorch_lightning import LightningModule, Trainer
from torch import nn

from sentattn.errors import TrainingError
from sentattn.training.callbacks import EpochRecorder, FiniteLoss, WarmEMA


def make_recorder(values: list[float], mode: str = "max", losses: list[float] | None = None) -> EpochRecorder:
    recorder = EpochRecorder(Path("unused"), metric="val/x", mode=mode)
    for epoch, (value, loss) in enumerate(zip(values, losses or [0.5] * len(values), strict=True), start=1):
        recorder.add({"epoch": epoch, "val/x": value, "val/log_loss": loss})
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
def test_best_epoch(values: list[float], mode: str, best: int) -> None:
    assert make_recorder(values, mode).best["epoch"] == best


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize(("losses", "best"), [([0.1, 0.4, 0.2, 0.2], 3), ([0.1, math.nan, 9.0, math.nan], 3)])
def test_of_equal_epochs_the_one_with_the_lower_log_loss_is_best(mode: str, losses: list[float], best: int) -> None:
    worse = 1.0 if mode == "max" else 3.0
    assert make_recorder([worse, 2.0, 2.0, 2.0], mode, losses).best["epoch"] == best


def test_the_best_epoch_is_that_of_the_weights_that_were_kept(tmp_path: Path) -> None:
    recorder = make_recorder([2.0, 2.0, 1.0], losses=[0.4, 0.2, 0.1])
    resumed, older = (EpochRecorder(tmp_path / "rows", metric="val/x", mode="max") for _ in range(2))
    resumed.load_state_dict(recorder.state_dict())
    assert resumed.best is resumed.rows[1]
    # A checkpoint of before there was a tie-break has the weights of the first of equal epochs.
    older.load_state_dict({key: value for key, value in recorder.state_dict().items() if key != "best_epoch"})
    assert older.best is older.rows[0]


def steps(losses: list[float], every: int) -> FiniteLoss:
    callback = FiniteLoss(every=every)
    for i, loss in enumerate(losses):
        trainer = SimpleNamespace(
            is_last_batch=i == len(losses) - 1,
            current_epoch=1,
            precision="32-true",
            gradient_clip_val=1.0,
            optimizers=[SimpleNamespace(param_groups=[{"lr": 0.5}])],
        )
        module = cast("LightningModule", nn.Linear(1, 1))
        outputs = {"loss": torch.tensor(loss)}
        callback.on_train_batch_end(cast("Trainer", trainer), module, outputs, cast("Any", None), i)
    return callback


@pytest.mark.parametrize("every", [1, 3, 100])
@pytest.mark.parametrize(("losses", "batch"), [([1.0, math.nan, 2.0, 2.0], 2), ([1.0, 1.0, 1.0, math.inf], 4)])
def test_first_batch_that_is_no_number_is_named(losses: list[float], batch: int, every: int) -> None:
    with pytest.raises(TrainingError, match=rf"epoch 2, batch {batch};") as caught:
        steps(losses, every)
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("optimizer.lr", "diverged")]


def test_finite_losses_pass_and_are_not_kept() -> None:
    assert steps([1.0, 2.0, 3.0], every=2)._losses == []


def test_average_by_hand() -> None:
    average = WarmEMA(decay=0.9)
    averaged, expected = [torch.tensor([0.0])], 0.0
    for step in range(50):
        assert average.should_update(step_idx=step)
        average._average(averaged, [torch.tensor([float(step)])], step)
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * step
    assert float(averaged[0]) == pytest.approx(expected, rel=1e-5)
    assert not average.should_update(epoch_idx=0)
