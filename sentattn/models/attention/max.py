"""Max over the tokens of each channel (Collobert and Weston 2008), seen as an attention."""

from __future__ import annotations

import torch
from torch import Tensor

from sentattn.config.types import Count, checked
from sentattn.models.attention.base import Attended, Attention


class Max(Attention):
    """Takes the maximum of each channel; a token weighs the share of the channels that it gives.

    Tokens that tie for a channel share it evenly. The values are the maxima, not
    weights_BRL @ states_BLD. No parameters.

    Args:
        dim: Width D of the states.

    Raises:
        SettingError: If an argument is out of range.
    """

    learns = False

    @checked
    def __init__(self, *, dim: Count) -> None:
        super().__init__()
        self.out_dim = dim
        self.hops = 1

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Returns the channels' maxima as values_BRD with R = 1."""
        lowest = torch.finfo(states_BLD.dtype).min
        real_BLD = states_BLD.masked_fill(~mask_BL[..., None], lowest)
        values_BRD = real_BLD.amax(dim=1, keepdim=True)
        dtype = torch.float64 if states_BLD.dtype == torch.float64 else torch.float32
        is_largest_BLD = ((real_BLD == values_BRD) & mask_BL[..., None]).to(dtype)
        shares_BLD = is_largest_BLD / is_largest_BLD.sum(dim=1, keepdim=True)
        return Attended(values_BRD, shares_BLD.mean(dim=2)[:, None])
