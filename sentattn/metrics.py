"""Metrics of a classifier, from logits and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torchmetrics import MeanMetric, Metric, MetricCollection
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassCalibrationError,
    MulticlassCohenKappa,
    MulticlassF1Score,
)
from torchmetrics.regression import MeanAbsoluteError

ORDERED_ONLY = ("mean_absolute_error", "quadratic_kappa")
"""Metrics that mean something only where classes are steps of a scale."""


def format_value(value: float) -> str:
    """Returns a metric in at most 9 characters, so that columns stay apart after a diverged training too."""
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.2e}"


class ClassifierMetrics:
    """Accuracy, macro and weighted F1, log loss and calibration error; for steps of a scale also the distance.

    - `accuracy`: share of the rows that are predicted correctly.
    - `f1_macro`, `f1_weighted`: F1 averaged over classes, evenly and by their rows.
    - `log_loss`: mean of -log p(label), natural logarithm.
    - `calibration_error`: expected difference between confidence and accuracy over 15 bins (Guo et al. 2017).
    - `mean_absolute_error`: mean distance in steps, where `ordered`.
    - `quadratic_kappa`: Cohen's kappa with quadratic weights, where `ordered`.

    Args:
        classes: Number of classes C.
        ordered: Whether the classes are steps of a scale.
        is_distributed: Whether other processes measure rows of the same split, so that states are summed.
    """

    def __init__(self, *, classes: int, ordered: bool, is_distributed: Callable[[], bool] = lambda: False) -> None:
        shared: dict[str, Any] = {"distributed_available_fn": is_distributed}
        of_labels: dict[str, Metric | MetricCollection] = {
            "accuracy": MulticlassAccuracy(classes, average="micro", **shared),
            "f1_macro": MulticlassF1Score(classes, average="macro", **shared),
            "f1_weighted": MulticlassF1Score(classes, average="weighted", **shared),
        }
        if ordered:
            of_labels["quadratic_kappa"] = MulticlassCohenKappa(classes, weights="quadratic", **shared)
        self.of_labels = MetricCollection(of_labels)
        self.log_loss = MeanMetric(**shared)
        self.calibration_error = MulticlassCalibrationError(classes, n_bins=15, **shared)
        self.distance = MeanAbsoluteError(**shared) if ordered else None

    def update(self, logits_BC: Tensor, labels_B: Tensor) -> None:
        """Adds a batch."""
        logits_BC = logits_BC.float()
        predicted_B = logits_BC.argmax(dim=-1)
        self.of_labels.update(predicted_B, labels_B)
        self.log_loss.update(functional.cross_entropy(logits_BC, labels_B, reduction="none"))
        self.calibration_error.update(logits_BC.softmax(dim=-1), labels_B)
        if self.distance is not None:
            self.distance.update(predicted_B.float(), labels_B.float())

    def compute(self) -> dict[str, Tensor]:
        """Returns each metric over all rows since the last reset, on all processes."""
        metrics: dict[str, Tensor] = dict(self.of_labels.compute())
        metrics |= {"log_loss": self.log_loss.compute(), "calibration_error": self.calibration_error.compute()}
        return metrics if self.distance is None else metrics | {"mean_absolute_error": self.distance.compute()}

    def reset(self, device: torch.device | None = None) -> None:
        """Forgets all rows; those that follow are on this device, or on the one of before."""
        for metric in (self.of_labels, self.log_loss, self.calibration_error, self.distance):
            if metric is not None:
                metric.to(device).reset()
