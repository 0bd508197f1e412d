"""Best epoch, stop at a NaN, averaged weights: by hand, without a training."""

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


def recorder(values: list[float], mode: str) -> EpochRecorder:
    found = EpochRecorder(Path("unused"), metric="val/x", mode=mode)
    found.rows = [{"epoch": i, "val/x": value} for i, value in enumerate(values, start=1)]
    return found


@pytest.mark.parametrize(
    ("values", "mode", "best"),
    [
        ([1, 3, 2], "max", 2),
        ([1, 3, 0.5], "min", 3),
        ([2, 2], "max", 1),
        ([math.nan, 1], "max", 2),
        ([5, math.nan], "min", 1),
    ],
)
def test_best_epoch(values: list[float], mode: str, best: int) -> None:
    assert recorder(values, mode).best["epoch"] == best


def steps(losses: list[float], every: int) -> None:
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


@pytest.mark.parametrize("every", [1, 3, 100])
@pytest.mark.parametrize(("losses", "batch"), [([1.0, math.nan, 2.0, 2.0], 2), ([1.0, 1.0, 1.0, math.inf], 4)])
def test_first_batch_that_is_no_number_is_named(losses: list[float], batch: int, every: int) -> None:
    with pytest.raises(TrainingError, match=rf"epoch 2, batch {batch}; .*learning rate was 0.5.*smaller optimizer.lr"):
        steps(losses, every)


def test_finite_losses_pass() -> None:
    callback_free = [1.0, 2.0, 3.0]
    assert steps(callback_free, every=2) is None


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
