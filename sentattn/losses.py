"""The loss: cross entropy, and the penalty that keeps hops apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from sentattn.kinds import Fraction, NonNegative, checked


class LossParts(NamedTuple):
    """The loss of a batch and what it is made of, by name."""

    loss: Tensor
    parts: dict[str, Tensor]


class ClassifierLoss(nn.Module):
    """Mean cross entropy + `penalty` x mean penalty.

    Args:
        penalty: Coefficient of the penalty on the attention's rows.
        penalty_form: See `PENALTIES`; a coefficient has no meaning without its form.
        label_smoothing: Share of the label spread evenly over the classes (Szegedy et al. 2016).

    Raises:
        SettingError: If an argument is out of range.
    """

    @checked
    def __init__(
        self,
        *,
        penalty: NonNegative = 0.0,
        penalty_form: Literal["squared", "norm", "mean"] = "squared",
        label_smoothing: Fraction = 0.0,
    ) -> None:
        super().__init__()
        self.penalty = penalty
        self.penalty_form = penalty_form
        self.label_smoothing = label_smoothing

    def forward(self, logits_BC: Tensor, labels_B: Tensor, weights_BRL: Tensor) -> LossParts:
        """Returns the loss of a batch and its parts, `cross_entropy` and, where it counts, `penalty`."""
        parts = {
            "cross_entropy": functional.cross_entropy(logits_BC.float(), labels_B, label_smoothing=self.label_smoothing)
        }
        if not self.penalty:
            return LossParts(parts["cross_entropy"], parts)
        parts["penalty"] = PENALTIES[self.penalty_form](overlap(weights_BRL)).mean()
        return LossParts(parts["cross_entropy"] + self.penalty * parts["penalty"], parts)


def overlap(weights_BRL: Tensor) -> Tensor:
    """Returns G = A A^T - I for each example, (B, R, R) (Lin et al. 2017, equation 8)."""
    identity_RR = torch.eye(weights_BRL.shape[1], dtype=weights_BRL.dtype, device=weights_BRL.device)
    return weights_BRL @ weights_BRL.transpose(1, 2) - identity_RR


def squared(overlap_BRR: Tensor) -> Tensor:
    """Sum of G^2 of each example: the squared Frobenius norm of the paper's formula."""
    return overlap_BRR.square().sum(dim=(1, 2))


def norm(overlap_BRR: Tensor) -> Tensor:
    """Square root of the sum of G^2: what the Gluon tutorial's code works out."""
    # Unlike a square root of the sum it has a finite gradient at G = 0, where a hop reads one token.
    norms_B: Tensor = torch.linalg.matrix_norm(overlap_BRR)
    return norms_B


def mean(overlap_BRR: Tensor) -> Tensor:
    """Sum of G^2 / R^2: what the authors' released code works out."""
    return overlap_BRR.square().mean(dim=(1, 2))


PENALTIES: dict[str, Callable[[Tensor], Tensor]] = {"squared": squared, "norm": norm, "mean": mean}
