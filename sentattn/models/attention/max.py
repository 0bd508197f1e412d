"""Max over the tokens of each channel (Collobert and Weston 2008), seen as an attention."""

from __future__ import annotations

import torch
from torch import Tensor

from sentattn.models.attention.base import Attended, Fixed


class Max(Fixed):
    """Takes the maximum of each channel; a token weighs the share of the channels that it gives.

    Tokens that tie for a channel share it evenly. The values are the maxima, not weights_BRL @ states_BLD.
    No parameters.
    """

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Returns the channels' maxima as values_BRD with R = 1."""
        real_BLD = states_BLD.masked_fill(~mask_BL[..., None], torch.finfo(states_BLD.dtype).min)
        values_BRD = real_BLD.amax(dim=1, keepdim=True)
        is_largest_BLD = (real_BLD == values_BRD) & mask_BL[..., None]
        ones_BLD = is_largest_BLD.to(torch.promote_types(states_BLD.dtype, torch.float32))
        shares_BLD = ones_BLD / ones_BLD.sum(dim=1, keepdim=True)
        return Attended(values_BRD, shares_BLD.mean(dim=2)[:, None])
