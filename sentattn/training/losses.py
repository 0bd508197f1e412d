"""The loss: cross entropy, optionally weighted by class, and the penalty that keeps hops apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from sentattn.config.types import Fraction, NonNegative, Positive, as_typed, checked

Number = TypeVar("Number", float, Tensor)
Reduce = Callable[[Tensor], Tensor]
"""Sums a tensor over the processes that share a batch, with a gradient."""


class LossParts(NamedTuple):
    """The loss of a batch and its terms by name."""

    loss: Tensor
    parts: dict[str, Tensor]


class ClassifierLoss(nn.Module):
    """Mean cross entropy + `penalty` x mean penalty.

    Args:
        class_counts: Number of training rows of each class, by name and in the order of the classes.
        penalty: Coefficient of the penalty on the attention's rows.
        penalty_form: See `PENALTIES`; a coefficient has no meaning without its form.
        class_weights: The weight of a row by its class: `none`, the same for all; `balanced`,
            (N / (C N_c))^power for a class with N_c of the N training rows; or a number a class.
        class_weight_power: The power in `balanced`: 1 gives all classes the same share in the loss, 0 all rows.
        class_weight_reduction: What the rows' sum is divided by: the sum of their weights (`weighted`,
            as PyTorch does), or their number (`mean`, as the Gluon tutorial does).
        label_smoothing: Share of the label spread evenly over the classes (Szegedy et al. 2016).

    Attributes:
        class_weights: Weight of each class, by name; empty where all rows count the same.

    Raises:
        ValueError: If the weights do not fit the classes, or are not positive numbers in 32 bits.
    """

    weights_C: Tensor | None

    @checked
    def __init__(
        self,
        *,
        class_counts: Mapping[str, int],
        penalty: NonNegative = 0.0,
        penalty_form: Literal["squared", "norm", "mean"] = "squared",
        class_weights: Literal["none", "balanced"] | list[Positive] = "none",
        class_weight_power: NonNegative = 1.0,
        class_weight_reduction: Literal["weighted", "mean"] = "weighted",
        label_smoothing: Fraction = 0.0,
    ) -> None:
        super().__init__()
        self.penalty, self.penalty_form = penalty, penalty_form
        self.by_weight = class_weight_reduction == "weighted"
        self.label_smoothing = label_smoothing
        weights_C = _weights(class_weights, class_weight_power, class_counts)
        # Not persistent: a checkpoint holds what was learned, and these follow from settings and data.
        self.register_buffer("weights_C", weights_C, persistent=False)
        self.class_weights = {} if weights_C is None else dict(zip(class_counts, weights_C.tolist(), strict=True))

    def forward(self, logits_BC: Tensor, labels_B: Tensor, weights_BRL: Tensor) -> LossParts:
        """Returns the loss of a batch and its parts, `cross_entropy` and, where it counts, `penalty`."""
        return self.with_penalty(self.cross_entropy(logits_BC, labels_B), weights_BRL)

    def with_penalty(self, cross_entropy: Tensor, weights_BRL: Tensor) -> LossParts:
        """Returns the loss of a batch from its cross entropy and its attention."""
        parts = {"cross_entropy": cross_entropy}
        if self.penalty:
            parts["penalty"] = PENALTIES[self.penalty_form](overlap(weights_BRL)).mean()
        return LossParts(self.total(parts), parts)

    def cross_entropy(self, logits_BC: Tensor, labels_B: Tensor, *, smooth: bool = True) -> Tensor:
        """Returns the cross entropy of a batch, with smoothed labels or with the labels as they are.

        It is the sum over rows of w_y ((1 - s) (-log p_y) + s / C sum_c (-log p_c)), divided as configured, with the
        smoothing s. PyTorch weighs the shares of a smoothed label by w_c instead: with rare classes of a large weight,
        the best prediction is then the rare class for every row.
        """
        smoothing = self.label_smoothing if smooth else 0.0
        logits_BC = at_least_float32(logits_BC)
        # Trainer.precision may have made the weights another kind of number than the logits are here.
        weights_C = None if self.weights_C is None else self.weights_C.to(logits_BC.dtype)
        if not smoothing:
            reduction = "mean" if self.by_weight else "sum"
            entropy = functional.cross_entropy(logits_BC, labels_B, weight=weights_C, reduction=reduction)
            return entropy if self.by_weight else entropy / len(labels_B)
        # With half the operations of `label_smoothing` of torch's function, forwards and backwards.
        rest = smoothing / logits_BC.shape[1]
        share_BC = torch.full_like(logits_BC, rest).scatter_(1, labels_B[:, None], 1 - smoothing + rest)
        divisor: int | Tensor = len(labels_B)
        if weights_C is not None:
            weights_B = weights_C[labels_B]
            share_BC *= weights_B[:, None]
            divisor = weights_B.sum() if self.by_weight else divisor
        return (share_BC * logits_BC.log_softmax(dim=-1)).sum() / -divisor

    @property
    def terms(self) -> list[str]:
        """The names of the terms that the loss is made of."""
        return ["cross_entropy", "penalty"] if self.penalty else ["cross_entropy"]

    def of_no_rows(self, zero: Tensor) -> LossParts:
        """Returns the loss of a process without a row of a batch; `zero` depends on all parameters."""
        return LossParts(zero, dict.fromkeys(self.terms, zero))

    def over_processes(self, local: LossParts, labels_B: Tensor, reduce: Reduce) -> tuple[LossParts, dict[str, Tensor]]:
        """Returns the loss of a batch that several processes share, from this process's, and the terms' weights."""
        weights = self.weights_of(labels_B)
        sums = [at_least_float32(part) * weights[name] for name, part in local.parts.items()]
        divisors = [divisor.to(sums[0]) for divisor in weights.values()]
        *sums, weight, rows = reduce(torch.stack([*sums, *divisors])).unbind()
        weights = {"cross_entropy": weight.detach(), "penalty": rows.detach()}
        parts = {name: total / weights[name] for name, total in zip(local.parts, sums, strict=True)}
        return LossParts(self.total(parts), parts), weights

    def weights_of(self, labels_B: Tensor) -> dict[str, Tensor]:
        """Returns what each term was divided by, which is the weight of the batch in a mean over batches."""
        rows = torch.full((), float(len(labels_B)), device=labels_B.device)
        if not self.by_weight or self.weights_C is None:
            return {"cross_entropy": rows, "penalty": rows}
        return {"cross_entropy": at_least_float32(self.weights_C)[labels_B].sum(), "penalty": rows}

    def total(self, terms: Mapping[str, Number]) -> Number:
        """Returns the loss of these terms, numbers or tensors."""
        loss = terms["cross_entropy"]
        return loss + self.penalty * terms["penalty"] if self.penalty else loss


class OwnLoss(ClassifierLoss):
    """A loss of PyTorch's form, from logits and labels to the mean over rows, in place of the cross entropy."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__(class_counts={})
        self.loss = loss

    def cross_entropy(self, logits_BC: Tensor, labels_B: Tensor, *, smooth: bool = True) -> Tensor:
        value: Tensor = self.loss(at_least_float32(logits_BC), labels_B)
        return value


def at_least_float32(numbers: Tensor) -> Tensor:
    """Returns bfloat16 and float16 as float32, and other numbers as they are."""
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))


def _weights(weights: str | list[float], power: float, counts: Mapping[str, int]) -> Tensor | None:
    """Returns the weight of each class, (C), or None where all rows count the same."""
    if weights == "none":
        return None
    if isinstance(weights, list):
        if len(weights) != len(counts):
            raise ValueError(f"class_weights={as_typed(weights)} must be a number for each of {', '.join(counts)}")
        weights_C = torch.tensor(weights, dtype=torch.float32)
    else:
        if missing := [name for name, count in counts.items() if not count]:
            raise ValueError(
                f"class_weights=balanced needs rows of every class, there are none of {', '.join(missing)}"
            )
        counts_C = torch.tensor(list(counts.values()), dtype=torch.float64)
        weights_C = (counts_C.mean() / counts_C).pow(power).float()
    if not bool((weights_C.isfinite() & (weights_C > 0)).all()):
        shown = ", ".join(f"{name} {weight:.3g}" for name, weight in zip(counts, weights_C.tolist(), strict=True))
        raise ValueError(f"class_weights must be finite and > 0 in 32 bits, got {shown}; lower class_weight_power")
    return weights_C


def overlap(weights_BRL: Tensor) -> Tensor:
    """Returns G = A A^T - I for each example, (B, R, R) (Lin et al. 2017, equation 8)."""
    identity_RR = torch.eye(weights_BRL.shape[1], dtype=weights_BRL.dtype, device=weights_BRL.device)
    return weights_BRL @ weights_BRL.transpose(1, 2) - identity_RR


PENALTIES: dict[str, Callable[[Tensor], Tensor]] = {
    # the squared Frobenius norm of the paper's formula
    "squared": lambda overlap_BRR: overlap_BRR.square().sum(dim=(1, 2)),
    # what the Gluon tutorial's code computes; unlike a square root of the sum it has a finite gradient at G = 0, where
    # a hop reads one token
    "norm": torch.linalg.matrix_norm,
    # what the authors' released code computes: the sum of G^2 / R^2
    "mean": lambda overlap_BRR: overlap_BRR.square().mean(dim=(1, 2)),
}
"""The penalty of each example, (B), from its overlap G."""
