"""What happens around training: the record of epochs, the lines on the screen, the stop at a NaN."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import WeightAveraging
from torch import Tensor
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from sentattn.data.batching import Batch
from sentattn.distributed import ranks
from sentattn.errors import TrainingError
from sentattn.progress import Progress
from sentattn.run import write_atomically
from sentattn.training.lit_module import LitClassifier

Row = dict[str, float]
SPEED = "train/tokens_per_second"


class EpochRecorder(Callback):
    """Writes one line an epoch to `metrics.jsonl` and knows the best epoch by the objective.

    Args:
        path: The file, appended to.
        metric: The objective, such as `val/accuracy`.
        mode: `max` or `min`.

    Attributes:
        rows: One row of figures an epoch; epochs count from 1.
        tokens: Real tokens trained on so far.
        train_seconds: Seconds spent training so far, validation left out.
        seconds: Seconds spent on everything so far, those before an interruption included.
    """

    def __init__(self, path: Path, *, metric: str, mode: str) -> None:
        self.path = path
        self.metric = metric
        self.sign = 1.0 if mode == "max" else -1.0
        self.rows: list[Row] = []
        self.train_seconds = 0.0
        self._tokens: list[Tensor] = []
        self._since = time.perf_counter()
        self._started = time.perf_counter()

    @property
    def tokens(self) -> int:
        return int(sum(self._tokens))

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started

    @property
    def best(self) -> Row:
        """The row of the best epoch, the first of several equal ones."""
        return max(self.rows, key=self._merit)

    def _merit(self, row: Row) -> float:
        value = self.sign * row[self.metric]
        return -math.inf if math.isnan(value) else value

    def state_dict(self) -> dict[str, Any]:
        self._count()
        return {
            "rows": self.rows,
            "tokens": self.tokens,
            "train_seconds": self.train_seconds,
            "seconds": self.seconds,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.rows = state_dict["rows"]
        self._tokens = [torch.tensor(state_dict["tokens"])]
        self.train_seconds = state_dict["train_seconds"]
        self._started -= state_dict["seconds"]
        # Lines of epochs that came after the checkpoint are of a training that will come again.
        if ranks.is_rank_zero():
            write_atomically(self.path, "".join(map(_line, self.rows)))

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._since = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        self._tokens.append(ranks.total(batch.mask_BL.sum()))

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._count()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._since = time.perf_counter()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, LitClassifier)
        self._count()
        means = pl_module.means.compute() | {SPEED: self._speed()}
        pl_module.means.reset()
        pl_module.log_dict(means)
        figures = {name: float(value) for name, value in trainer.callback_metrics.items()} | means
        row = {"epoch": trainer.current_epoch + 1, **figures, "tokens": self.tokens}
        row["train_seconds"] = self.train_seconds
        self.rows.append(row)
        self._tokens = [torch.stack(self._tokens).sum()] if self._tokens else []
        if ranks.is_rank_zero():
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line(row))

    def _speed(self) -> float:
        """Tokens a second since the last row."""
        before = self.rows[-1] if self.rows else {"tokens": 0, "train_seconds": 0.0}
        return (self.tokens - before["tokens"]) / (self.train_seconds - before["train_seconds"])

    def _count(self) -> None:
        """Adds the seconds since training was last looked at."""
        now = time.perf_counter()
        self.train_seconds, self._since = self.train_seconds + now - self._since, now


def _line(row: Row) -> str:
    return json.dumps(row) + "\n"


class EpochLines(Callback):
    """Shows the progress of each epoch, and its figures in one line when it ends."""

    def __init__(self, recorder: EpochRecorder, progress: Progress) -> None:
        self.recorder = recorder
        self.progress = progress

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        stage = f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}"
        self.progress(stage, batch_idx + 1, int(trainer.num_training_batches))

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Batch, batch_idx: int, _: int = 0
    ) -> None:
        stage = f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}, validation"
        self.progress(stage, batch_idx + 1, _batches(trainer.num_val_batches))

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.progress.close()
        row = self.recorder.rows[-1]
        shown = ["train/loss", "val/loss", "val/accuracy"]
        if self.recorder.metric not in shown:
            shown.append(self.recorder.metric)
        figures = "   ".join(f"{name} {row[name]:.4f}" for name in shown if name in row)
        star = " *" if row is self.recorder.best else ""
        print(f"epoch {row['epoch']}/{trainer.max_epochs}   {figures}   {row['train_seconds']:.0f} s{star}", flush=True)


class JudgingProgress(Callback):
    """Shows how far the measuring of a split is."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Batch, batch_idx: int, _: int = 0
    ) -> None:
        self.progress("measuring val", batch_idx + 1, _batches(trainer.num_val_batches))

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Batch, batch_idx: int, _: int = 0
    ) -> None:
        self.progress("measuring test", batch_idx + 1, _batches(trainer.num_test_batches))


def _batches(of_each_loader: list[int | float]) -> int:
    return int(sum(of_each_loader))


class FiniteLoss(Callback):
    """Stops the training when the loss is no number any more.

    The loss is looked at every `every` steps, so that a GPU is not waited for at each of them; the
    first faulty step is remembered on the device.
    """

    def __init__(self, every: int = 20) -> None:
        self.every = every
        self._losses: list[Tensor] = []

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        self._losses.append(outputs["loss"].detach())
        if len(self._losses) == self.every or trainer.is_last_batch:
            finite = torch.stack(self._losses).isfinite()
            first, self._losses = batch_idx + 1 - len(self._losses), []
            if not finite.all():
                self._stop(trainer, pl_module, first + int(finite.int().argmin()))

    def _stop(self, trainer: Trainer, pl_module: LightningModule, batch_idx: int) -> None:
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        wrong = [n for n, p in pl_module.named_parameters() if not bool(p.isfinite().all())]
        if trainer.precision.startswith("16"):
            cause = "float16 overflows easily: try trainer.precision=bf16-mixed or 32-true"
        elif trainer.gradient_clip_val is None:
            cause = f"the gradient is not clipped: try trainer.gradient_clip_val=1.0 (learning rate {rate:.2g})"
        else:
            cause = f"the learning rate was {rate:.2g} then: try a smaller optimizer.lr"
        where = f" {len(wrong)} parameters are no longer finite ({wrong[0]}, ...)." if wrong else ""
        raise TrainingError(
            f"The loss became NaN or infinite in epoch {trainer.current_epoch + 1}, batch {batch_idx + 1}; "
            f"likely cause: {cause}.{where}"
        )


class GradientNorm(Callback):
    """Records the norm of the gradient before it is clipped, `train/gradient_norm`: the mean over the steps."""

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        norm = get_total_norm([p.grad for p in pl_module.parameters() if p.grad is not None])
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if scaler is not None:
            if any(group.get("fused") for group in optimizer.param_groups):  # it unscales the gradients itself
                norm = norm / scaler.get_scale()
            if not norm.isfinite():  # the step will be left out, and the next ones scaled by less
                return
        assert isinstance(pl_module, LitClassifier)
        pl_module.means.add({"train/gradient_norm": norm}, weight=1)


class WarmEMA(WeightAveraging):
    """Exponential moving average of the weights, used from the first validation on.

    After n steps the decay is min(decay, (1 + n) / (10 + n)), so that a short training is not
    measured with the weights it began with.

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
            self._average_model.double()  # the model becomes that only later

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        """Returns whether an optimizer step has just been taken."""
        self._steps = step_idx if step_idx is not None else self._steps
        return step_idx is not None

    @torch.no_grad()
    def _average(self, averaged: list[Tensor], current: list[Tensor], num_averaged: Tensor | int) -> None:
        # Lightning's step counter stands in for `num_averaged`, which on a GPU would have to be waited for.
        decay = min(self.decay, (1 + self._steps) / (10 + self._steps))
        # With bf16-true an average in bfloat16 would not move: it is one of float32.
        torch._foreach_lerp_(averaged, [c.to(a.dtype) for a, c in zip(averaged, current, strict=True)], 1 - decay)
