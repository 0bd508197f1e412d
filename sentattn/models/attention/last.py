"""The state after the last word, the usual reading of a recurrent encoder (Sutskever et al. 2014)."""

from __future__ import annotations

import torch
from torch import Tensor

from sentattn.config.types import Count, checked
from sentattn.models.attention.base import Attended, Fixed


class Last(Fixed):
    """All weight on the last real token, whose state is the value. No parameters.

    Where the second half of a state comes from reading backwards, that reading ends at the first token: the value is
    then the forward half at the last and the backward half at the first token, and each of the two weighs one half (a
    text of one token: 1).

    Args:
        bidirectional: Whether the second half of a state was read backwards.
    """

    @checked
    def __init__(self, *, dim: Count, bidirectional: bool) -> None:
        super().__init__(dim=dim)
        assert dim % 2 == 0 or not bidirectional, "both directions are equally wide"
        self.bidirectional = bidirectional

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Returns the final state, of each direction where there are two, as values_BRD with R = 1."""
        last_B = mask_BL.sum(dim=1) - 1
        positions_L = torch.arange(mask_BL.shape[1], device=mask_BL.device)
        is_last_BL = positions_L == last_B[:, None]
        weights_BL = is_last_BL.to(torch.promote_types(states_BLD.dtype, torch.float32))
        # not len(last_B), which an exported graph would keep as a number
        values_BD = states_BLD[torch.arange(last_B.shape[0], device=last_B.device), last_B]
        if self.bidirectional:
            weights_BL = (weights_BL + (positions_L == 0)) / 2
            half = self.out_dim // 2
            values_BD = torch.cat([values_BD[:, :half], states_BLD[:, 0, half:]], dim=1)
        return Attended(values_BD[:, None], weights_BL[:, None])
