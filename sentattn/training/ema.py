"""Exponential moving average of the weights."""

from __future__ import annotations

import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import WeightAveraging
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn


class WarmEMA(WeightAveraging):
    """Exponential moving average of the weights, used from the first validation on.

    After n steps the decay is min(decay, (1 + n) / (10 + n)), so that a short training is not measured with its
    initial weights.

    Args:
        decay: Share of the average that a step keeps.
    """

    def __init__(self, decay: float) -> None:
        super().__init__(use_buffers=False, multi_avg_fn=self._average)  # a table of n-grams is no average
        self.decay = decay
        self._steps = 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if self._average_model is not None and trainer.precision == "64-true":
            self._average_model.double()  # Lightning converts the module itself only later

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        """Returns whether an optimizer step has just been taken."""
        self._steps = step_idx if step_idx is not None else self._steps
        return step_idx is not None

    @torch.no_grad()
    def _average(self, averaged: list[Tensor], current: list[Tensor], num_averaged: Tensor | int) -> None:
        # Lightning's step counter replaces `num_averaged`, for which a GPU would have to be synchronized.
        decay = min(self.decay, (1 + self._steps) / (10 + self._steps))
        # An average in bfloat16, as with bf16-true, would not move: it is kept in float32.
        same_type = [new.to(old.dtype) for old, new in zip(averaged, current, strict=True)]
        update = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]  # torch has no types for it
        update(averaged, same_type, num_averaged)
