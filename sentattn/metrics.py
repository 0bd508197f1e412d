"""What is measured: logits and labels to figures, by name."""

from __future__ import annotations

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

from sentattn.distributed import ranks

OVER_RANKS: dict[str, Any] = {"distributed_available_fn": ranks.several}
"""How a metric of torchmetrics knows whether other processes have rows of the same figure."""
ORDERED_ONLY = ("mean_absolute_error", "quadratic_kappa")
"""Figures that mean something only where classes are steps of a scale."""


class ClassifierMetrics(nn.Module):
    """Accuracy, macro and weighted F1, log loss and calibration error; for steps of a scale also the distance.

    - `accuracy`: share of the rows predicted right.
    - `f1_macro`, `f1_weighted`: F1 averaged over classes, evenly and by their rows.
    - `log_loss`: mean of -log p(label), natural logarithm.
    - `calibration_error`: expected difference between confidence and accuracy over 15 bins (Guo et al. 2017).
    - `mean_absolute_error`: mean distance in steps, where `ordered`.
    - `quadratic_kappa`: Cohen's kappa with quadratic weights, where `ordered`.

    Args:
        classes: Number of classes C.
        ordered: Whether the classes are steps of a scale.
    """

    def __init__(self, *, classes: int, ordered: bool) -> None:
        super().__init__()
        self.predicted = MetricCollection(
            {
                "accuracy": MulticlassAccuracy(classes, average="micro", **OVER_RANKS),
                "f1_macro": MulticlassF1Score(classes, average="macro", **OVER_RANKS),
                "f1_weighted": MulticlassF1Score(classes, average="weighted", **OVER_RANKS),
            }
        )
        if ordered:
            self.predicted.add_metrics(
                {"quadratic_kappa": MulticlassCohenKappa(classes, weights="quadratic", **OVER_RANKS)}
            )
        self.calibration_error = MulticlassCalibrationError(classes, n_bins=15, **OVER_RANKS)
        self.log_loss = MeanMetric(**OVER_RANKS)
        self.distance = MeanAbsoluteError(**OVER_RANKS) if ordered else None

    def update(self, logits_BC: Tensor, labels_B: Tensor) -> None:
        """Takes a batch in."""
        logits_BC = logits_BC.float()
        predicted_B = logits_BC.argmax(dim=-1)
        self.predicted.update(predicted_B, labels_B)
        self.calibration_error.update(logits_BC.softmax(dim=-1), labels_B)
        self.log_loss.update(functional.cross_entropy(logits_BC, labels_B, reduction="none"))
        if self.distance is not None:
            self.distance.update(predicted_B.float(), labels_B.float())

    def compute(self) -> dict[str, Tensor]:
        """Returns each figure over all that was taken in, on all ranks that measure together."""
        figures: dict[str, Tensor] = {
            **self.predicted.compute(),
            "log_loss": self.log_loss.compute(),
            "calibration_error": self.calibration_error.compute(),
        }
        if self.distance is not None:
            figures["mean_absolute_error"] = self.distance.compute()
        return figures

    def reset(self) -> None:
        """Forgets all that was taken in."""
        self.predicted.reset()
        self.calibration_error.reset()
        self.log_loss.reset()
        if self.distance is not None:
            self.distance.reset()
