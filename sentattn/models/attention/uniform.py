"""Uniform weights: the mean over the tokens, the baseline of every comparison."""

from __future__ import annotations

import torch
from torch import Tensor

from sentattn.models.attention.base import Attended, Fixed, weighted_sum


class Uniform(Fixed):
    """Each of the n real tokens weighs 1/n. No parameters."""

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Returns the mean of the states as values_BRD with R = 1."""
        ones_BL = mask_BL.to(torch.promote_types(states_BLD.dtype, torch.float32))
        weights_BRL = (ones_BL / ones_BL.sum(dim=1, keepdim=True).clamp_min(1))[:, None]
        return Attended(weighted_sum(weights_BRL, states_BLD), weights_BRL)
