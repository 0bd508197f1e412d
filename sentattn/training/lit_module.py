"""The one LightningModule: every variant is trained and tested by it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.optim import Optimizer
from torchmetrics import MeanMetric

from sentattn.data.batching import Batch
from sentattn.distributed import ranks
from sentattn.losses import ClassifierLoss, LossParts
from sentattn.metrics import OVER_RANKS, ClassifierMetrics
from sentattn.models.classifier import Classified, TextClassifier
from sentattn.schedulers import Steps
from sentattn.training.means import EpochMeans

Schedule = Callable[[Optimizer, Steps], dict[str, Any]]
STAGES = ("val", "test")


class Scored(NamedTuple):
    """Rows of a split and the logits they were given."""

    rows_B: Tensor
    logits_BC: Tensor


class LitClassifier(LightningModule):
    """Trains a `TextClassifier`, and measures it on validation and test rows.

    Args:
        model: What is trained.
        loss: What is minimised.
        optimizer: The model to an optimizer of its parameters.
        scheduler: Optimizer and number of steps to Lightning's description of a schedule.
        classes: Number of classes.
        ordered: Whether the classes are steps of a scale.

    Attributes:
        means: Means over the epoch; what is added here, under a name such as `train/loss`, is recorded at its end.
    """

    def __init__(
        self,
        *,
        model: TextClassifier,
        loss: ClassifierLoss,
        optimizer: Callable[[TextClassifier], Optimizer],
        scheduler: Schedule,
        classes: int,
        ordered: bool,
    ) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.metrics = nn.ModuleDict(
            {f"{stage}_metrics": ClassifierMetrics(classes=classes, ordered=ordered) for stage in STAGES}
            # A NaN stays one; with nan_strategy="disable" torchmetrics would leave the weights out.
            | {f"{stage}_loss": MeanMetric(**OVER_RANKS, nan_strategy=math.nan) for stage in STAGES}
        )
        self.means = EpochMeans()
        self.scored: list[Scored] = []

    def forward(self, tokens_BL: Tensor, mask_BL: Tensor) -> Classified:
        """Classifies a batch."""
        classified: Classified = self.model(tokens_BL, mask_BL)
        return classified

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Returns the loss of a batch; its parts count for the means of the epoch."""
        (loss, parts), rows = self._lose_together(batch)
        figures = {"train/loss": loss} | {f"train/{name}": part for name, part in parts.items()}
        self.means.add(figures, weight=rows)
        return loss

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clips gradients, also those of a fused optimizer.

        Lightning refuses these with any mixed precision; only float16's gradients are scaled, and come to this
        without a fused optimizer.
        """
        if self.trainer.precision != "bf16-mixed" or not gradient_clip_val:
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)
        elif gradient_clip_algorithm == "value":
            self.trainer.precision_plugin.clip_grad_by_value(optimizer, gradient_clip_val)
        else:
            self.trainer.precision_plugin.clip_grad_by_norm(optimizer, gradient_clip_val)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Puts the means of the epoch so far into a checkpoint."""
        checkpoint["means"] = self.means.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Goes on with the means of the epoch."""
        self.means.load_state_dict(checkpoint["means"])

    def on_validation_epoch_start(self) -> None:
        """Starts measuring anew."""
        self._start("val")

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Measures a batch of validation rows."""
        self._evaluate(batch, "val")

    def on_validation_epoch_end(self) -> None:
        """Logs the figures as `val/...`."""
        self._log_figures("val")

    def on_test_epoch_start(self) -> None:
        """Starts measuring anew."""
        self._start("test")

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Measures a batch of test rows."""
        self._evaluate(batch, "test")

    def on_test_epoch_end(self) -> None:
        """Logs the figures as `test/...`."""
        self._log_figures("test")

    def configure_optimizers(self) -> Any:
        """Returns the optimizer, and the schedule where there is one."""
        optimizer = self.optimizer(self.model)
        total = int(self.trainer.estimated_stepping_batches)
        steps = Steps(total=total, per_epoch=max(1, total // (self.trainer.max_epochs or 1)))
        schedule = self.scheduler(optimizer, steps)
        return {"optimizer": optimizer, "lr_scheduler": schedule} if schedule else optimizer

    def _lose(self, batch: Batch) -> tuple[Classified, LossParts]:
        classified = self(batch.tokens_BL, batch.mask_BL)
        return classified, self.loss(classified.logits_BC, batch.labels_B, classified.attended.weights_BRL)

    def _lose_together(self, batch: Batch) -> tuple[LossParts, Tensor | int]:
        """Returns the loss of a batch, and its rows: over all ranks where they share it."""
        if not ranks.several():
            return self._lose(batch)[1], len(batch.labels_B)
        if len(batch.labels_B):
            local = self._lose(batch)[1]
        else:
            learned = (parameter for parameter in self.model.parameters() if parameter.requires_grad)
            local = self.loss.of_no_rows(0 * torch.stack([parameter.sum() for parameter in learned]).sum())
        return self.loss.over_ranks(local, batch.labels_B)

    def _start(self, stage: str) -> None:
        self.scored = []
        self._metrics(stage).reset()
        self._mean_loss(stage).reset()

    def _evaluate(self, batch: Batch, stage: str) -> None:
        classified, (loss, _) = self._lose(batch)
        self._mean_loss(stage).update(loss, len(batch.labels_B))
        self._metrics(stage).update(classified.logits_BC, batch.labels_B)
        self.scored.append(Scored(batch.rows_B.cpu(), classified.logits_BC.float().cpu()))

    def _log_figures(self, stage: str) -> None:
        self.scored = [scored for each in ranks.gather(self.scored) for scored in each]
        figures = {"loss": self._mean_loss(stage).compute(), **self._metrics(stage).compute()}
        self.log_dict({f"{stage}/{name}": value for name, value in figures.items()})

    def _mean_loss(self, stage: str) -> MeanMetric:
        mean_loss = self.metrics[f"{stage}_loss"]
        assert isinstance(mean_loss, MeanMetric)
        return mean_loss

    def _metrics(self, stage: str) -> ClassifierMetrics:
        metrics = self.metrics[f"{stage}_metrics"]
        assert isinstance(metrics, ClassifierMetrics)
        return metrics

    def scores(self) -> Tensor:
        """Returns the logits of the last validation or test, (rows of the split, C), in the split's order."""
        rows = torch.cat([scored.rows_B for scored in self.scored])
        logits = torch.cat([scored.logits_BC for scored in self.scored])
        return logits[rows.argsort()]
