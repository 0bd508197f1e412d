"""Callbacks of a training: points inside an epoch, the stop at a NaN, the average of the weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import LearningRateMonitor
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from sentattn.data.batching import Batch
from sentattn.errors import Fault, TrainingError
from sentattn.loggers.guard import Guard
from sentattn.training.lit_module import LitClassifier, State


class StepPoints(Callback):
    """Logs points inside an epoch, `every` so many steps (0 for never): `step/loss`, of a batch, and `step/lr`.

    To read the loss waits for a GPU. The run directory has the means of epochs only.
    """

    def __init__(self, loggers: Sequence[Guard], *, every: int) -> None:
        self.loggers, self.every = loggers, every
        self._step = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._step = trainer.global_step
        for logger in self.loggers:
            logger.epoch_steps = math.ceil(int(trainer.num_training_batches) / trainer.accumulate_grad_batches)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: Batch, batch_idx: int
    ) -> None:
        assert isinstance(pl_module, LitClassifier)
        is_step, self._step = trainer.global_step != self._step, trainer.global_step
        if is_step and self.every and self._step % self.every == 0:
            assert isinstance(outputs, Mapping)
            loss = float(outputs["loss"]) * trainer.accumulate_grad_batches  # by which Lightning has divided it
            for logger in self.loggers:
                logger.log_step({"step/loss": loss, "step/lr": pl_module.lr}, step=self._step)


class LearningRates(LearningRateMonitor):
    """Lightning's monitor of learning rates, which is idle on ranks without a logger, and where a run has none."""

    def on_train_start(self, trainer: Trainer, *args: object, **kwargs: object) -> None:
        if trainer.loggers:
            super().on_train_start(trainer, *args, **kwargs)


class FiniteLoss(Callback):
    """Stops the training when the loss, or the validation loss after an epoch, becomes NaN or infinite.

    It looks at the losses of `every` steps at once, so that a GPU is not synchronized at each of them.
    """

    def __init__(self, every: int = 20) -> None:
        self.every = every
        self._losses: list[Tensor] = []

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: Batch, batch_idx: int
    ) -> None:
        assert isinstance(outputs, Mapping)
        self._losses.append(outputs["loss"])  # which Lightning has detached
        if len(self._losses) == self.every or trainer.is_last_batch:
            finite = torch.stack(self._losses).isfinite()
            first, self._losses = batch_idx + 1 - len(self._losses), []
            if not finite.all():
                self._stop(trainer, "loss", first + int(finite.int().argmin()))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.callback_metrics.get("val/loss", torch.zeros(())).isfinite():  # after the last step
            self._stop(trainer, "validation loss", int(trainer.num_training_batches) - 1)

    def _stop(self, trainer: Trainer, part: str, batch_idx: int) -> None:
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        if trainer.precision.startswith("16"):
            key, advice = "trainer.precision", "float16 overflows easily: try trainer.precision=bf16-mixed or 32-true"
        elif trainer.gradient_clip_val is None:
            key, advice = "trainer.gradient_clip_val", "try trainer.gradient_clip_val=1.0"
        else:
            key, advice = "optimizer.lr", "try a smaller optimizer.lr"
        message = (
            f"The {part} became NaN or infinite in epoch {trainer.current_epoch + 1}, batch {batch_idx + 1}; "
            f"the learning rate was {rate:.2g}; {advice}."
        )
        raise TrainingError(Fault(key, "diverged", message))


class WeightAverage(Callback):
    """Exponential moving average of the trained weights, used from the first validation on.

    After n steps the decay, the share of the average that a step keeps, is min(decay, (1 + n) / (10 + n)), so that a
    short training is not evaluated with its initial weights; the average begins as the weights after the first step.
    Lightning's `WeightAveraging` compares a step counter on the device, which synchronizes a GPU twice a step, averages
    frozen parameters too, and copies all buffers.

    A checkpoint's `state_dict` holds the average, and its `current_model_state` the weights.
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self._steps = 0
        self._loaded: Mapping[str, Tensor] = {}
        self._average: dict[str, Tensor] = {}
        self._weights: list[Tensor] = []

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: State) -> None:
        self._loaded = checkpoint["state_dict"]
        pl_module.load_state_dict(checkpoint["current_model_state"])

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # An average in bfloat16, as with bf16-true, would not move: it is kept in float32.
        self._average = {
            name: self._loaded.get(name, weight)
            .detach()
            .to(device=weight.device, dtype=torch.promote_types(weight.dtype, torch.float32), copy=True)
            for name, weight in pl_module.named_parameters()
            if weight.requires_grad
        }

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._steps = trainer.global_step

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        if trainer.global_step == self._steps:  # the gradient is accumulated
            return
        decay = min(self.decay, (1 + self._steps) / (10 + self._steps)) if self._steps else 0.0
        self._steps = trainer.global_step
        update = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]  # torch has no types for it
        averages = list(self._average.values())
        update(averages, [new.to(old.dtype) for old, new in zip(averages, self._trained(pl_module), strict=True)], None)

    @torch.no_grad()
    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._weights = [weight.clone() for weight in self._trained(pl_module)]
        for weight, average in zip(self._trained(pl_module), self._average.values(), strict=False):
            weight.copy_(average)

    @torch.no_grad()
    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for weight, kept in zip(self._trained(pl_module), self._weights, strict=True):
            weight.copy_(kept)
        self._weights = []

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: State) -> None:
        checkpoint["current_model_state"] = checkpoint["state_dict"]
        checkpoint["state_dict"] = checkpoint["state_dict"] | self._average

    def _trained(self, pl_module: LightningModule) -> list[nn.Parameter]:
        return [weight for weight in pl_module.parameters() if weight.requires_grad]


def averaging(decay: float | None) -> list[Callback]:
    """Returns the average of the weights as callbacks: one, or none with `ema_decay=null`."""
    return [] if decay is None else [WeightAverage(decay)]
