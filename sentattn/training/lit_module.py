"""The LightningModule that trains and evaluates every model."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pytorch_lightning import LightningModule
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn.utils import clip_grad_value_, clip_grads_with_norm_, get_total_norm
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from sentattn.build import explained, instantiate
from sentattn.config.compose import override
from sentattn.config.parameters import known
from sentattn.config.types import Node
from sentattn.data.batching import Batch
from sentattn.distributed import ranks
from sentattn.errors import first_line
from sentattn.metrics import CONFUSION_METRICS, classifier_metrics
from sentattn.models.classifier import Classified, TextClassifier
from sentattn.prediction.model import load
from sentattn.run import Run
from sentattn.training.losses import ClassifierLoss, LossParts, OwnLoss, at_least_float32
from sentattn.training.schedulers import Steps

Schedule = Callable[[Optimizer, Steps], LRScheduler | None]
State = dict[str, Any]
"""Content of a checkpoint, or a part of it."""


class EpochMeans:
    """Weighted means over an epoch of what each step computes, such as its loss; a checkpoint holds them.

    They are summed on the device, so that a GPU is not synchronized at each step.
    """

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._weights: dict[str, float | Tensor] = {}

    @torch.no_grad()
    def add(self, values: Mapping[str, Tensor], *, weight: float | Tensor) -> None:
        """Adds the values of a step, scalars by name, with a weight such as the rows of the batch."""
        for name, value in values.items():
            if name not in self._sums:
                self._sums[name] = torch.zeros_like(at_least_float32(value))
            # What was loaded from a checkpoint is in main memory.
            total = self._sums[name] = self._sums[name].to(value.device)
            if isinstance(weight, Tensor):
                total.addcmul_(value, weight)
            else:
                total.add_(value, alpha=weight)
            self._weights[name] = weight + self._weights.get(name, 0)

    def compute(self) -> dict[str, float]:
        """Returns the means of the epoch so far."""
        return {name: float(self._sums[name] / self._weights[name]) for name in sorted(self._sums)}

    def reset(self) -> None:
        """Begins a new epoch."""
        self._sums, self._weights = {}, {}

    def state_dict(self) -> State:
        return {
            "sums": {name: total.cpu() for name, total in self._sums.items()},
            "weights": {name: float(total) for name, total in self._weights.items()},
        }

    def load_state_dict(self, state: State) -> None:
        self._sums, self._weights = dict(state["sums"]), dict(state["weights"])


class LitClassifier(LightningModule):
    """Trains a `TextClassifier`, and evaluates it on validation and test rows.

    `means` holds means over the epoch, under names such as `train/loss`, which are recorded at its end.
    `ordered` says whether the classes are steps of a scale. `probabilities`, (rows of the split, C), are those of the
    last validation or test, in the split's order; its metrics are computed from them. `lr` is the learning rate of the
    last step, of the optimizer's first group.
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
        self.classes, self.ordered = classes, ordered
        self.means = EpochMeans()
        self._counts_CC: Tensor | None = None
        self._accumulated = 1
        self.lr = math.nan
        self.probabilities: NDArray[np.float32] = np.empty((0, classes), np.float32)

    @classmethod
    def from_run(cls, run: Run | str | os.PathLike[str], *, trust: bool = False) -> LitClassifier:
        """Returns the module of a finished run with its weights, and the loss, optimizer and schedule of its settings.

        Any Trainer of Lightning trains it on. The schedule is a new one, over the epochs of that Trainer.

        Args:
            run: A run, its directory, or `latest`.
            trust: Whether the run may name classes of your own, whose code is then run.

        Raises:
            UserError: If there is no such run, or it has no model.
        """
        path, trust = (run.path, run.trust or trust) if isinstance(run, Run) else (run, trust)
        classifier = (loaded := load(path, trust=trust)).classifier
        settings = override(loaded.settings, [], only=[], trust=trust)
        counts, ordered = classifier.config["class_counts"], classifier.config["ordered"]
        return build_lit(settings, classifier.model.train(), class_counts=counts, ordered=ordered)

    def forward(self, tokens_BL: Tensor, mask_BL: Tensor, states_BLE: Tensor | None = None) -> Classified:
        classified: Classified = self.model(tokens_BL, mask_BL, states_BLE=states_BLE)
        return classified

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        self._accumulated = 1 + batch_idx % self.trainer.accumulate_grad_batches
        (loss, parts), weights = self.compute_global_loss(batch)
        for term, value in parts.items():
            self.means.add({f"train/{term}": value}, weight=weights[term])
        return loss

    def _counts(self) -> Tensor:
        """Returns the numbers of training rows of the epoch by true and predicted class, on the device."""
        if self._counts_CC is None:
            self._counts_CC = torch.zeros(self.classes, self.classes, dtype=torch.int64, device=self.device)
        # What was loaded from a checkpoint is in main memory.
        self._counts_CC = self._counts_CC.to(self.device)
        return self._counts_CC

    def on_train_epoch_end(self) -> None:
        """Logs the metrics of the training passes, over all ranks, and begins a new epoch.

        `train/accuracy` and `train/f1_weighted` are those of the logits that the loss was computed from: with dropout,
        and of weights that change with each step. `train/lr` is the learning rate of the last step.
        """
        counts_CC = ranks.all_reduce_sum(self._counts()).cpu().numpy().astype(np.float64)
        accuracy, f1_weighted = np.trace(counts_CC) / counts_CC.sum(), CONFUSION_METRICS["f1_weighted"](counts_CC)
        metrics = {"train/lr": self.lr, "train/accuracy": float(accuracy), "train/f1_weighted": float(f1_weighted)}
        self._log_exactly(self.train_means() | metrics)
        self.means.reset()
        self._counts_CC = None

    def _log_exactly(self, metrics: Mapping[str, float]) -> None:
        """Logs numbers as tensors in main memory, which Lightning leaves there and in their precision."""
        self.log_dict({name: torch.tensor(value, dtype=torch.float64) for name, value in metrics.items()})

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
        self.lr = float(optimizer.param_groups[0]["lr"])
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        gradients = [p.grad for p in parameters]
        # Lightning divides each loss by the number of batches of a step, of which the last of an epoch may have fewer.
        if (batches := self.trainer.accumulate_grad_batches) != self._accumulated:
            for gradient in gradients:
                gradient.mul_(batches / self._accumulated)
        norm = get_total_norm(gradients)
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

    def on_save_checkpoint(self, checkpoint: State) -> None:
        checkpoint["means"] = self.means.state_dict()
        checkpoint["confusion"] = ranks.all_reduce_sum(self._counts()).cpu()

    def on_load_checkpoint(self, checkpoint: State) -> None:
        self.means.load_state_dict(checkpoint["means"])
        if ranks.is_rank_zero():  # which has the sum over all ranks
            self._counts_CC = checkpoint["confusion"]

    def on_validation_epoch_start(self) -> None:
        # Row, label, logits, and logits of each part: on the device until the end of the epoch, and copied once.
        self._rows = [self._exact(torch.empty(0, 2 + self.classes * (1 + len(self.model.parts)), device=self.device))]
        self._terms = self._exact(torch.zeros(len(self.loss.terms), 2, device=self.device))

    def _exact(self, values: Tensor) -> Tensor:
        """Values in the precision that holds numbers of rows; Apple's devices have no float64."""
        return values.float() if values.device.type == "mps" else values.double()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        classified, (_, parts) = self.compute_loss(batch)
        weights = self.loss.weights_of(batch.labels_B)  # the loss of a split must not depend on its batches
        terms = [(self._exact(parts[term]), self._exact(weights[term])) for term in self.loss.terms]
        self._terms = self._terms + torch.stack([torch.stack([mean * weight, weight]) for mean, weight in terms])
        numbers_B2 = torch.stack([batch.rows_B, batch.labels_B], dim=1)
        logits = [classified.logits_BC, *self.model.part_logits(classified).values()]
        self._rows.append(torch.cat([self._exact(values) for values in (numbers_B2, *logits)], dim=1))

    def on_validation_epoch_end(self) -> None:
        width, terms = self._rows[0].shape[1], len(self.loss.terms)
        local = torch.cat([torch.cat(self._rows).flatten(), self._terms.flatten()]).cpu().double().numpy()
        gathered = [np.split(values, [len(values) - 2 * terms]) for values in ranks.all_gather(local)]
        rows = np.concatenate([values.reshape(-1, width) for values, _ in gathered])
        rows = rows[rows[:, 0].argsort()]
        sums, weights = np.sum([values for _, values in gathered], axis=0).reshape(terms, 2).T
        labels_N = rows[:, 1].astype(np.int64)
        logits_PNC = torch.from_numpy(rows[:, 2:].astype(np.float32)).view(len(rows), -1, self.classes).transpose(0, 1)
        self.probabilities, *of_parts = logits_PNC.softmax(dim=-1).numpy()
        loss = self.loss.total(dict(zip(self.loss.terms, (sums / weights).tolist(), strict=True)))
        metrics = {"loss": loss, **classifier_metrics(self.probabilities, labels_N, ordered=self.ordered)}
        for part, probabilities_NC in zip(self.model.parts, of_parts, strict=True):
            metrics[f"accuracy_{part}"] = float((probabilities_NC.argmax(axis=1) == labels_N).mean())
        split = "test" if self.trainer.testing else "val"
        self._log_exactly({f"{split}/{name}": value for name, value in metrics.items()})

    on_test_epoch_start = on_validation_epoch_start
    test_step = validation_step
    on_test_epoch_end = on_validation_epoch_end

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer = self.optimizer(self.model)
        total = int(self.trainer.estimated_stepping_batches)
        steps = Steps(total=total, per_epoch=max(1, total // (self.trainer.max_epochs or 1)))
        schedule = self.scheduler(optimizer, steps)
        if schedule is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def compute_loss(self, batch: Batch) -> tuple[Classified, LossParts]:
        """Classifies a batch and returns its loss too."""
        classified: Classified = self.model(
            batch.tokens_BL,
            batch.mask_BL,
            labels_B=batch.labels_B if self.training else None,
            states_BLE=batch.states_BLE,
        )
        if self.training:
            places = (batch.labels_B, classified.logits_BC.argmax(dim=-1))
            self._counts().index_put_(places, torch.ones_like(batch.labels_B), accumulate=True)
        entropy = self.model.cross_entropy(classified, batch.labels_B, self.loss.cross_entropy)
        return classified, self.loss.with_penalty(entropy, classified.attended.weights_BRL)

    def compute_global_loss(self, batch: Batch) -> tuple[LossParts, Mapping[str, float | Tensor]]:
        """Returns the loss of a batch and the weight of each term, over all ranks that share the batch."""
        if not ranks.several():
            loss = self.compute_loss(batch)[1]
            if self.loss.weights_C is not None:
                return loss, self.loss.weights_of(batch.labels_B)
            return loss, dict.fromkeys(self.loss.terms, len(batch.labels_B))
        if len(batch.labels_B):
            local = self.compute_loss(batch)[1]
        else:
            trainable = (parameter for parameter in self.model.parameters() if parameter.requires_grad)
            local = self.loss.of_no_rows(0 * torch.stack([parameter.sum() for parameter in trainable]).sum())
        return self.loss.over_processes(local, batch.labels_B, ranks.differentiable_sum)


def build_lit(
    settings: Node, model: TextClassifier, *, class_counts: Mapping[str, int], ordered: bool
) -> LitClassifier:
    """Returns the LightningModule that trains and measures a model.

    `class_counts` are the rows of each class that the model is, or was, trained on, and `ordered` says whether the
    classes are steps of a scale.

    Raises:
        SettingError: If the schedule or the loss refuses its settings.
    """
    counts = {"class_counts": class_counts} if "class_counts" in known(settings["loss"]).parameters else {}
    with explained("loss"):
        loss = instantiate(settings["loss"], nn.Module, **counts)
    return LitClassifier(
        model=model,
        loss=loss if isinstance(loss, ClassifierLoss) else OwnLoss(loss),
        optimizer=partial(build_optimizer, settings),
        scheduler=instantiate(settings["scheduler"]),
        classes=len(class_counts),
        ordered=ordered,
    )


def build_optimizer(settings: Node, model: TextClassifier) -> Optimizer:
    """Returns the optimizer of a model's parameters.

    Raises:
        SettingError: If it refuses its settings or the model.
    """
    node = settings["optimizer"]
    with explained("optimizer"):
        groups = model.parameter_groups(settings["weight_decay_on"], known(node).parameters)
        if any(parameter.is_meta for parameter in model.parameters()):  # which some optimizers refuse
            groups = [{**group, "params": [nn.Parameter(torch.zeros(1))]} for group in groups]
        try:
            optimizer: Optimizer = instantiate(node, Optimizer, params=groups)
        except RuntimeError as error:  # with which torch refuses what cannot go with `fused`
            if not node.get("fused"):
                raise
            raise ValueError(f"{first_line(error)}: type optimizer.fused=false") from error
    return optimizer
