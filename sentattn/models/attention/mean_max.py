"""Mean and maximum side by side, from the concat pooling of ULMFiT (Howard and Ruder 2018)."""

from __future__ import annotations

import torch
from torch import Tensor

from sentattn.config.types import Count, checked
from sentattn.models.attention.base import Attended, Fixed
from sentattn.models.attention.max import Max
from sentattn.models.attention.uniform import Uniform


class MeanMax(Fixed):
    """The mean of the states and the maximum of each channel, 2 D wide.

    The paper has the last state too (equation 4). A token weighs the mean of its weights in `uniform` and in `max`.
    No parameters.
    """

    @checked
    def __init__(self, *, dim: Count) -> None:
        super().__init__(dim=2 * dim)
        self.mean, self.max = Uniform(dim=dim), Max(dim=dim)

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Returns [mean; maximum] as values_BRD with R = 1."""
        mean, maximum = self.mean(states_BLD, mask_BL), self.max(states_BLD, mask_BL)
        values_BRD = torch.cat([mean.values_BRD, maximum.values_BRD], dim=2)
        return Attended(values_BRD, (mean.weights_BRL + maximum.weights_BRL) / 2)
