"""The one LightningModule: every variant is trained and tested by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.optim import Optimizer

from sentattn.data.batching import Batch
from sentattn.losses import ClassifierLoss, LossParts
from sentattn.metrics import ClassifierMetrics
from sentattn.models.classifier import Classified, TextClassifier
from sentattn.schedulers import Steps

Schedule = Callable[[Optimizer, Steps], dict[str, Any]]


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
            {f"{stage}_metrics": ClassifierMetrics(classes=classes, ordered=ordered) for stage in ("val", "test")}
        )
        self.scored: list[Scored] = []

    def forward(self, tokens_BL: Tensor, mask_BL: Tensor) -> Classified:
        """Classifies a batch."""
        classified: Classified = self.model(tokens_BL, mask_BL)
        return classified

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Returns the loss of a batch; logs its parts as means over the epoch."""
        _, (loss, parts) = self._lose(batch)
        means = {"train/loss": loss} | {f"train/{name}": part for name, part in parts.items()}
        self.log_dict(
            {name: mean.detach() for name, mean in means.items()},
            on_step=False,
            on_epoch=True,
            batch_size=len(batch.labels_B),
        )
        return loss

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

    def _start(self, stage: str) -> None:
        self.scored = []
        self._metrics(stage).reset()

    def _evaluate(self, batch: Batch, stage: str) -> None:
        classified, (loss, _) = self._lose(batch)
        self.log(f"{stage}/loss", loss, on_step=False, on_epoch=True, batch_size=len(batch.labels_B))
        self._metrics(stage).update(classified.logits_BC, batch.labels_B)
        self.scored.append(Scored(batch.rows_B.cpu(), classified.logits_BC.float().cpu()))

    def _log_figures(self, stage: str) -> None:
        self.log_dict({f"{stage}/{name}": value for name, value in self._metrics(stage).compute().items()})

    def _metrics(self, stage: str) -> ClassifierMetrics:
        metrics = self.metrics[f"{stage}_metrics"]
        assert isinstance(metrics, ClassifierMetrics)
        return metrics

    def scores(self) -> Tensor:
        """Returns the logits of the last validation or test, (rows of the split, C), in the split's order."""
        rows = torch.cat([scored.rows_B for scored in self.scored])
        logits = torch.cat([scored.logits_BC for scored in self.scored])
        return logits[rows.argsort()]
