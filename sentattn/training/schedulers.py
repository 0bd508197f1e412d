"""Learning rate schedules, sized as shares of the training so that they fit any number of epochs.

Each is called with an optimizer and the steps to take, and returns the schedule, which is stepped after each of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, OneCycleLR, StepLR

from sentattn.config.types import Count, Fraction, Positive, checked


class Steps(NamedTuple):
    """Optimizer steps that a training will take."""

    total: int
    per_epoch: int


class Constant:
    """The optimizer's learning rate throughout."""

    def __call__(self, optimizer: Optimizer, steps: Steps) -> None:
        return None


class Step:
    """Multiplies the learning rate by `gamma` every `step_epochs` epochs.

    Args:
        step_epochs: Epochs between two drops.
        gamma: Factor of a drop.
    """

    @checked
    def __init__(self, *, step_epochs: Count = 1, gamma: Positive = 0.5) -> None:
        self.step_epochs, self.gamma = step_epochs, gamma

    def __call__(self, optimizer: Optimizer, steps: Steps) -> LRScheduler:
        return StepLR(optimizer, step_size=self.step_epochs * steps.per_epoch, gamma=self.gamma)


class OneCycle:
    """Rises along a cosine to the optimizer's learning rate, then falls to almost 0 (Smith and Topin 2018).

    Args:
        warmup_fraction: Share of the steps that rise.
        initial_divisor: The peak is this many times the first learning rate.
        final_divisor: The first learning rate is this many times the last.
    """

    @checked
    def __init__(
        self, *, warmup_fraction: Fraction = 0.25, initial_divisor: Positive = 25.0, final_divisor: Positive = 1e4
    ) -> None:
        self.warmup_fraction = warmup_fraction
        self.initial_divisor, self.final_divisor = initial_divisor, final_divisor

    def __call__(self, optimizer: Optimizer, steps: Steps) -> LRScheduler | None:
        """Returns the schedule; a rise takes two steps, and two steps have none."""
        if steps.total <= 2:
            return None
        rise = max(self.warmup_fraction, 2 / steps.total) if self.warmup_fraction else 0.0
        return OneCycleLR(
            optimizer,
            max_lr=[group["lr"] for group in optimizer.param_groups],
            total_steps=steps.total,
            pct_start=rise,
            div_factor=self.initial_divisor,
            final_div_factor=self.final_divisor,
            cycle_momentum=False,
        )


class Cosine:
    """Rises in a line to the optimizer's learning rate, then falls along a cosine (Loshchilov and Hutter 2017).

    Args:
        warmup_fraction: Share of the steps that rise.
        final_fraction: Share of the peak towards which the learning rate falls; one step more would reach it.
    """

    @checked
    def __init__(self, *, warmup_fraction: Fraction = 0.0, final_fraction: Fraction = 0.0) -> None:
        self.warmup_fraction, self.final_fraction = warmup_fraction, final_fraction

    def __call__(self, optimizer: Optimizer, steps: Steps) -> LRScheduler:
        rise = int(self.warmup_fraction * steps.total)
        fall = max(1, steps.total - rise)

        def share_of_peak(step: int) -> float:
            if step < rise:
                return (step + 1) / (rise + 1)
            return self.final_fraction + (1 - self.final_fraction) / 2 * (1 + math.cos(math.pi * (step - rise) / fall))

        return LambdaLR(optimizer, share_of_peak)
