"""Metrics of a classifier, from logits and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from torchmetrics import MeanMetric, MetricCollection
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


class ClassifierMetrics(nn.Module):
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
        is_distributed: Returns whether other processes measure rows of the same split, so that states are summed.
    """

    def __init__(self, *, classes: int, ordered: bool, is_distributed: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        over_processes: dict[str, Any] = {"distributed_available_fn": is_distributed}
        self.predicted = MetricCollection(
            {
                "accuracy": MulticlassAccuracy(classes, average="micro", **over_processes),
                "f1_macro": MulticlassF1Score(classes, average="macro", **over_processes),
                "f1_weighted": MulticlassF1Score(classes, average="weighted", **over_processes),
            }
        )
        if ordered:
            self.predicted.add_metrics(
                {"quadratic_kappa": MulticlassCohenKappa(classes, weights="quadratic", **over_processes)}
            )
        self.calibration_error = MulticlassCalibrationError(classes, n_bins=15, **over_processes)
        self.log_loss = MeanMetric(**over_processes)
        self.distance = MeanAbsoluteError(**over_processes) if ordered else None

    def update(self, logits_BC: Tensor, labels_B: Tensor) -> None:
        """Adds a batch."""
        logits_BC = logits_BC.float()
        predicted_B = logits_BC.argmax(dim=-1)
        self.predicted.update(predicted_B, labels_B)
        self.calibration_error.update(logits_BC.softmax(dim=-1), labels_B)
        self.log_loss.update(functional.cross_entropy(logits_BC, labels_B, reduction="none"))
        if self.distance is not None:
            self.distance.update(predicted_B.float(), labels_B.float())

    def compute(self) -> dict[str, Tensor]:
        """Returns each metric over all rows since the last reset, on all processes."""
        metrics: dict[str, Tensor] = {
            **self.predicted.compute(),
            "log_loss": self.log_loss.compute(),
            "calibration_error": self.calibration_error.compute(),
        }
        if self.distance is not None:
            metrics["mean_absolute_error"] = self.distance.compute()
        return metrics

    def reset(self) -> None:
        """Forgets all rows."""
        self.predicted.reset()
        self.calibration_error.reset()
        self.log_loss.reset()
        if self.distance is not None:
            self.distance.reset()
