"""Uniform weights: the mean over the tokens, the baseline of every comparison."""

from __future__ import annotations

from torch import Tensor

from sentattn.config.types import Count, checked
from sentattn.models.attention.base import Attended, Attention


class Uniform(Attention):
    """Each of the n real tokens weighs 1/n. No parameters.

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
        """Returns the mean of the states as values_BRD with R = 1."""
        dtype = states_BLD.dtype if states_BLD.dtype.itemsize >= 4 else None
        ones_BL = mask_BL.to(dtype) if dtype else mask_BL.float()
        weights_BRL = (ones_BL / ones_BL.sum(dim=1, keepdim=True).clamp_min(1))[:, None]
        return Attended(weights_BRL.to(states_BLD.dtype) @ states_BLD, weights_BRL)
