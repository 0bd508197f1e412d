"""A linear score of each token: the attention probe of McKenzie et al. (2025, arXiv 2506.10805)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sentattn.config.types import Count, checked
from sentattn.models.attention.base import Attended, Attention, Normalizer, masked_softmax, weighted_sum


class Linear(Attention):
    """A hop r weighs softmax over the real tokens of q_r . h_t + p_r t.

    All of q and p are 0 at the start, so that it begins as the mean; the head distinguishes the hops. The term p_r t, a
    preference for early or late tokens, is that of EleutherAI's attention probes (2025). Parameters: R D, and R with
    `position`.

    Args:
        hops: Rows R of the attention matrix.
        position: Whether scores have the term p_r t.
        normalizer: What makes weights of scores: `softmax`; `sparsemax` and `entmax15` give weights of exactly 0.
    """

    @checked
    def __init__(
        self, *, dim: Count, hops: Count = 1, position: bool = True, normalizer: Normalizer = "softmax"
    ) -> None:
        super().__init__()
        self.out_dim, self.hops, self.normalizer = dim, hops, normalizer
        self.queries_RD = nn.Parameter(torch.zeros(hops, dim))
        self.slopes_R = nn.Parameter(torch.zeros(hops)) if position else None

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Returns values_BRD = weights_BRL @ states_BLD."""
        scores_BRL = (states_BLD @ self.queries_RD.T).transpose(1, 2)
        if self.slopes_R is not None:
            places_L = torch.arange(mask_BL.shape[1], device=mask_BL.device)
            scores_BRL = scores_BRL + self.slopes_R[:, None] * places_L
        weights_BRL = masked_softmax(scores_BRL, mask_BL, self.normalizer)
        return Attended(weighted_sum(weights_BRL, states_BLD), weights_BRL)
