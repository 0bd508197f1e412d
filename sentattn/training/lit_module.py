"""The LightningModule that trains and evaluates every model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from pytorch_lightning import LightningModule
from torch import Tensor
from torch.nn.utils import clip_grad_value_, clip_grads_with_norm_, get_total_norm
from torch.optim import Optimizer
from torchmetrics import MeanMetric

from sentattn.data.batching import Batch
from sentattn.distributed import ranks
from sentattn.losses import ClassifierLoss, LossParts, at_least_float32
from sentattn.metrics import ClassifierMetrics
from sentattn.models.classifier import Classified, TextClassifier
from sentattn.schedulers import Steps

Schedule = Callable[[Optimizer, Steps], dict[str, Any]]


class EpochMeans:
    """Weighted means over an epoch of what each step computes, such as its loss; a checkpoint holds them.

    They are summed on the device, so that a GPU is not synchronized at each step.
    """

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._weights: dict[str, float | Tensor] = {}

    def add(self, values: Mapping[str, Tensor], *, weight: float | Tensor) -> None:
        """Adds the values of a step, scalars by name, with a weight such as the rows of the batch."""
        for name, value in values.items():
            weighted = at_least_float32(value.detach()) * weight
            # What was loaded from a checkpoint is in main memory.
            self._sums[name] = self._sums[name].to(value.device) + weighted if name in self._sums else weighted
            self._weights[name] = weight + self._weights.get(name, 0)

    def compute(self) -> dict[str, float]:
        """Returns the means of the epoch so far."""
        return {name: float(self._sums[name] / self._weights[name]) for name in sorted(self._sums)}

    def reset(self) -> None:
        """Begins a new epoch."""
        self._sums, self._weights = {}, {}

    def state_dict(self) -> dict[str, Any]:
        return {
            "sums": {name: total.cpu() for name, total in self._sums.items()},
            "weights": {name: float(total) for name, total in self._weights.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._sums, self._weights = dict(state["sums"]), dict(state["weights"])


class LitClassifier(LightningModule):
    """Trains a `TextClassifier`, and evaluates it on validation and test rows.

    `means` holds means over the epoch; what is added to it, under a name such as `train/loss`, is recorded at its end.
    `ordered` says whether the classes are steps of a scale.
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
        self.model, self.loss, self.optimizer, self.scheduler = model, loss, optimizer, scheduler
        self.metrics = ClassifierMetrics(classes=classes, ordered=ordered, is_distributed=ranks.several)
        # No submodules, all of which each step would search for parameters: the average of the weights does so.
        # A NaN stays one; with nan_strategy="disable" torchmetrics would leave the weights out.
        self.terms = {
            term: MeanMetric(distributed_available_fn=ranks.several, nan_strategy=math.nan) for term in loss.terms
        }
        self.accuracies = {part: MeanMetric(distributed_available_fn=ranks.several) for part in model.shares}
        self.means = EpochMeans()
        self.logits: list[tuple[Tensor, Tensor]] = []

    def forward(self, tokens_BL: Tensor, mask_BL: Tensor, labels_B: Tensor | None = None) -> Classified:
        classified: Classified = self.model(tokens_BL, mask_BL, labels_B=labels_B)
        return classified

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        (loss, parts), weights = self.compute_global_loss(batch)
        for term, value in parts.items():
            self.means.add({f"train/{term}": value}, weight=weights[term])
        return loss

    def train_means(self) -> dict[str, float]:
        """Returns the means of the epoch so far: `train/loss`, its terms, and what else was added to `means`."""
        means = self.means.compute()
        loss = self.loss.total({term: means[f"train/{term}"] for term in self.loss.terms})
        return dict(sorted({**means, "train/loss": loss}.items()))

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clips gradients, and records their norm before it: `train/gradient_norm`, the mean over the steps."""
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        norm = get_total_norm([p.grad for p in parameters])
        if gradient_clip_val and gradient_clip_algorithm == "value":
            clip_grad_value_(parameters, gradient_clip_val)
        elif gradient_clip_val:
            clip_grads_with_norm_(parameters, gradient_clip_val, norm)
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        if scaler is not None:
            if any(group.get("fused") for group in optimizer.param_groups):  # it unscales the gradients itself
                norm = norm / scaler.get_scale()
            if not norm.isfinite():  # the step will be skipped, and the next ones scaled by less
                return
        self.means.add({"train/gradient_norm": norm}, weight=1)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["means"] = self.means.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.means.load_state_dict(checkpoint["means"])

    def on_validation_epoch_start(self) -> None:
        self.logits = []
        self.metrics.reset(self.device)
        for mean in (*self.terms.values(), *self.accuracies.values()):
            mean.to(self.device).reset()
        for term in self.terms.values():
            term.set_dtype(torch.promote_types(self.dtype, torch.float32))  # type: ignore[arg-type]

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        classified, (_, parts) = self.compute_loss(batch)
        weights = self.loss.weights_of(batch.labels_B)
        for term, value in parts.items():  # the loss of a split must not depend on how it is divided into batches
            self.terms[term].update(value, weights[term])
        self.metrics.update(classified.logits_BC, batch.labels_B)
        for part, accuracy in self.accuracies.items():
            accuracy.update((classified.parts[part].argmax(dim=-1) == batch.labels_B).float())
        self.logits.append((batch.rows_B.cpu(), classified.logits_BC.float().cpu()))

    def on_validation_epoch_end(self) -> None:
        self.logits = [logits for of_rank in ranks.gather(self.logits) for logits in of_rank]
        loss = self.loss.combine({term: mean.compute() for term, mean in self.terms.items()}).loss
        split = "test" if self.trainer.testing else "val"
        metrics = {"loss": loss, **self.metrics.compute()}
        metrics |= {f"accuracy_{part}": mean.compute() for part, mean in self.accuracies.items()}
        self.log_dict({f"{split}/{name}": value for name, value in metrics.items()})

    on_test_epoch_start = on_validation_epoch_start
    test_step = validation_step
    on_test_epoch_end = on_validation_epoch_end

    def configure_optimizers(self) -> Any:
        optimizer = self.optimizer(self.model)
        total = int(self.trainer.estimated_stepping_batches)
        steps = Steps(total=total, per_epoch=max(1, total // (self.trainer.max_epochs or 1)))
        schedule = self.scheduler(optimizer, steps)
        return {"optimizer": optimizer, "lr_scheduler": schedule} if schedule else optimizer

    def compute_loss(self, batch: Batch) -> tuple[Classified, LossParts]:
        """Classifies a batch and returns its loss too; while training, each part of a model has a loss of its own."""
        classified = self(batch.tokens_BL, batch.mask_BL, batch.labels_B if self.training else None)
        logits_BC, wide_BC = classified.logits_BC, None
        if classified.parts and (self.training or not self.model.shares):
            logits_BC, wide_BC = classified.parts.get("attention"), classified.parts["wide"]
        return classified, self.loss(logits_BC, batch.labels_B, classified.attended.weights_BRL, wide_BC)

    def compute_global_loss(self, batch: Batch) -> tuple[LossParts, dict[str, Tensor]]:
        """Returns the loss of a batch and the weight of each term, over all ranks that share the batch."""
        if not ranks.several():
            return self.compute_loss(batch)[1], self.loss.weights_of(batch.labels_B)
        if len(batch.labels_B):
            local = self.compute_loss(batch)[1]
        else:
            trainable = (parameter for parameter in self.model.parameters() if parameter.requires_grad)
            local = self.loss.of_no_rows(0 * torch.stack([parameter.sum() for parameter in trainable]).sum())
        return self.loss.over_processes(local, batch.labels_B, ranks.summed)

    def scores(self) -> Tensor:
        """Returns the logits of the last validation or test, (rows of the split, C), in the split's order."""
        rows_S, logits_SC = (torch.cat(tensors) for tensors in zip(*self.logits, strict=True))
        return logits_SC[rows_S.argsort()]
