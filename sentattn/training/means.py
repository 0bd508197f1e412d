"""Means over an epoch that outlive an interruption in the middle of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

Reduce = Callable[[Tensor], Tensor]


class EpochMeans:
    """Weighted means of figures that a training step gives, such as its loss.

    They are summed where they are, so that a GPU is not waited for at each step.
    """

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._weights: dict[str, Tensor] = {}

    def add(self, figures: Mapping[str, Tensor], *, weight: float | Tensor) -> None:
        """Takes in a step's figures.

        Args:
            figures: Scalars by name, such as `train/loss`.
            weight: What they count, such as the rows of the batch.
        """
        for name, figure in figures.items():
            figure = figure.detach().float()
            counted = torch.as_tensor(weight, dtype=figure.dtype, device=figure.device)
            if name in self._sums:
                # What was loaded from a checkpoint lies in main memory.
                self._sums[name] = self._sums[name].to(figure.device) + weight * figure
                self._weights[name] = self._weights[name].to(figure.device) + counted
            else:
                self._sums[name], self._weights[name] = weight * figure, counted

    def compute(self, reduce: Reduce = lambda total: total) -> dict[str, float]:
        """Returns the means of the epoch so far.

        Args:
            reduce: Adds up a total over processes, where there are several.
        """
        return {name: float(reduce(self._sums[name]) / reduce(self._weights[name])) for name in sorted(self._sums)}

    def reset(self) -> None:
        """Begins a new epoch."""
        self._sums, self._weights = {}, {}

    def state_dict(self) -> dict[str, Any]:
        """Returns sums and weights."""
        return {
            "sums": {name: total.cpu() for name, total in self._sums.items()},
            "weights": {name: total.cpu() for name, total in self._weights.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on with sums and weights as they were."""
        self._sums, self._weights = dict(state["sums"]), dict(state["weights"])
