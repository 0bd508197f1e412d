"""The mean weighted by position (Muennighoff 2022, SGPT, arXiv 2202.08904), the baseline over decoders."""

from __future__ import annotations

import torch
from torch import Tensor

from sentattn.models.attention.base import Attended, Fixed, weighted_sum


class Position(Fixed):
    """The t-th of n real tokens weighs t / (1 + 2 + ... + n) (section 3.2), as a decoder's later states know more.

    No parameters.
    """

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Returns the weighted mean of the states as values_BRD with R = 1."""
        exact = torch.promote_types(states_BLD.dtype, torch.float32)
        places_BL = mask_BL.to(exact).cumsum(dim=1) * mask_BL
        weights_BRL = (places_BL / places_BL.sum(dim=1, keepdim=True).clamp_min(1))[:, None]
        return Attended(weighted_sum(weights_BRL, states_BLD), weights_BRL)
