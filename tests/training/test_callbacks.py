"""The stop at a NaN and the average of the weights: by hand, without data."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from pytorch_lightning import LightningModule, Trainer
from refusals import assert_refused
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sentattn.training.callbacks import FiniteLoss, WeightAverage


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
def test_the_first_batch_whose_loss_is_no_number_is_named(losses: list[float], batch: int, every: int) -> None:
    assert_refused(lambda: steps(losses, every), "optimizer.lr", "diverged", f"epoch 2, batch {batch};")


class Line(LightningModule):
    """y = w x with a frozen bias and a buffer; a step adds the number of the step to w."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(3))
        self.bias = nn.Parameter(torch.ones(2), requires_grad=False)
        self.register_buffer("table", torch.arange(4))
        self.seen: list[float] = []
        self.validated: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return -(self.w * (self.global_step + 1)).sum()

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self.seen.append(float(self.w[0]))

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.validated.append(float(self.w[0]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD([self.w], lr=1.0)


def train_line(folder: Path, *, epochs: int, **trainer: Any) -> tuple[Line, Path]:
    """Trains 6 batches an epoch with an average; returns the module and its last checkpoint."""
    line, loader = Line(), DataLoader(TensorDataset(torch.zeros(6)), batch_size=1)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    quiet |= {"num_sanity_val_steps": 0, "max_epochs": epochs, "callbacks": [WeightAverage(0.5)]}
    fitting = Trainer(**quiet, default_root_dir=folder, **trainer)
    fitting.fit(line, loader, DataLoader(TensorDataset(torch.zeros(1))))
    fitting.save_checkpoint(folder / "last.ckpt")
    return line, folder / "last.ckpt"


def averages(values: list[float], decay: float) -> list[float]:
    """The average after each step: the first value, then a share min(decay, (1 + n) / (10 + n)) of it is kept."""
    kept, result = values[0], [values[0]]
    for n, value in enumerate(values[1:], start=1):
        share = min(decay, (1 + n) / (10 + n))
        kept = share * kept + (1 - share) * value
        result.append(kept)
    return result


def test_validation_uses_the_average_and_training_the_weights(tmp_path: Path) -> None:
    line, checkpoint = train_line(tmp_path, epochs=2)
    weights = np.cumsum(np.arange(1.0, 13.0)).tolist()  # after each of 12 steps
    assert line.seen == pytest.approx([0.0, *weights[:-1]])
    expected = averages(weights, 0.5)
    assert line.validated == pytest.approx([expected[5], expected[11]], rel=1e-6)
    saved = torch.load(checkpoint, weights_only=True)
    assert saved["state_dict"]["w"].tolist() == pytest.approx([expected[11]] * 3, rel=1e-6)
    assert saved["current_model_state"]["w"].tolist() == [weights[-1]] * 3
    assert saved["state_dict"]["table"].tolist() == [0, 1, 2, 3]


def test_the_average_changes_with_steps_not_batches(tmp_path: Path) -> None:
    line, _ = train_line(tmp_path, epochs=1, accumulate_grad_batches=3)
    assert line.validated == pytest.approx([averages([1.0, 3.0], 0.5)[-1]])  # a mean gradient of 1, then of 2


def test_the_average_of_bfloat16_weights_has_single_precision(tmp_path: Path) -> None:
    _, checkpoint = train_line(tmp_path, epochs=1, precision="bf16-true")
    saved = torch.load(checkpoint, weights_only=True)
    assert saved["current_model_state"]["w"].dtype == torch.bfloat16
    assert saved["state_dict"]["w"].dtype == torch.float32
    weights = np.cumsum(np.arange(1.0, 7.0)).tolist()
    assert float(saved["state_dict"]["w"][0]) == pytest.approx(averages(weights, 0.5)[-1], rel=1e-6)
