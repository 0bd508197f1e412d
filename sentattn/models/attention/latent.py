"""Latent attention (Lee et al. 2024, NV-Embed): states are rewritten by a learned dictionary, then averaged."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from sentattn.config.types import Count, checked
from sentattn.models.attention.base import Attended, Attention
from sentattn.models.attention.uniform import Uniform


class Latent(Attention):
    """Each state attends to M learned latents, a network follows, and the value is the mean over the tokens.

    o_t = h_t + sum_m c_tm k_m, where c_t is the softmax over the latents k_m of k_m . h_t / sqrt(D) (equation 1),
    u_t = o_t + W2 gelu(W1 o_t + b1) + b2 (section 3.2), and the value is the mean of u_t. So each token weighs 1/n:
    what is learned is which latents a state reads, not which token counts. Scale and residuals are those of the
    released code; without residuals the gradient of the encoder almost vanishes at first. Left out are its 8 heads with
    projections and its layer norms. Parameters: M D + (D F + F) + (F D + D).

    Args:
        latents: Number M of latents.
        hidden: Width F of the network's hidden layer.
    """

    learns = False

    @checked
    def __init__(self, *, dim: Count, latents: Count = 32, hidden: Count = 64) -> None:
        super().__init__()
        self.out_dim, self.hops = dim, 1
        self.latents_MD = nn.Parameter(torch.randn(latents, dim))
        self.network = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))
        self.mean = Uniform(dim=dim)

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Returns the mean of the rewritten states as values_BRD with R = 1."""
        scores_BLM = states_BLD @ self.latents_MD.t() / self.out_dim**0.5
        read_BLD = states_BLD + scores_BLM.softmax(dim=2) @ self.latents_MD
        attended: Attended = self.mean(read_BLD + self.network(read_BLD), mask_BL)
        return attended

    def scoring_parameters(self) -> Iterator[nn.Parameter]:
        """Yields the latents, which score themselves for each token; the network does not score."""
        return iter((self.latents_MD,))
