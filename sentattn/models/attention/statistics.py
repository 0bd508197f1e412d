"""Mean and standard deviation (Okabe et al. 2018, Attentive Statistics Pooling for Deep Speaker Embedding)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from sentattn.config.types import Count, checked
from sentattn.models.attention.base import Attended, Attention, Normalizer, masked_softmax

LEAST = 1e-10
"""Of a variance. Rounding errors of equal states are below it, and the gradient of the root of 0 is not finite."""


class Statistics(Attention):
    """The weighted mean and standard deviation of each channel side by side, 2 D wide.

    mu = sum_t a_t h_t (equation 5) and sigma = sqrt(sum_t a_t (h_t - mu)^2), which is equation 6 without its
    cancellation of large squares. The weights a are the softmax over the real tokens of
    e_t = v . tanh(W h_t + b) (equations 3 and 4, without the bias k that a softmax cannot see), or all the same
    (equations 1 and 2). Where a channel is constant, as in a text of one token, sigma is 1e-5 with gradient 0.
    Parameters: A D + 2 A, or none with `uniform`.

    Args:
        weights: Whether tokens have learned weights (`attentive`) or all the same (`uniform`).
        hidden: Width A of the hidden layer of `attentive`.
        normalizer: What makes weights of scores: `softmax`; `sparsemax` and `entmax15` give weights of exactly 0.
    """

    @checked
    def __init__(
        self,
        *,
        dim: Count,
        weights: Literal["attentive", "uniform"] = "attentive",
        hidden: Count = 64,
        normalizer: Normalizer = "softmax",
    ) -> None:
        super().__init__()
        self.out_dim, self.hops, self.normalizer = 2 * dim, 1, normalizer
        self.score: nn.Sequential | None = None
        if weights == "attentive":
            layer, score = nn.Linear(dim, hidden), nn.Linear(hidden, 1, bias=False)
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
            nn.init.xavier_uniform_(score.weight)
            self.score = nn.Sequential(layer, nn.Tanh(), score)

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Returns [mu; sigma] as values_BRD with R = 1."""
        scores_BL1 = torch.zeros_like(states_BLD[..., :1]) if self.score is None else self.score(states_BLD)
        weights_BRL = masked_softmax(scores_BL1.transpose(1, 2), mask_BL, self.normalizer)
        weights_BL1 = weights_BRL.transpose(1, 2)  # products with it are in single precision or better
        mean_BRD = (weights_BL1 * states_BLD).sum(dim=1, keepdim=True)
        variance_BRD = (weights_BL1 * (states_BLD - mean_BRD).square()).sum(dim=1, keepdim=True)
        values_BRD = torch.cat([mean_BRD, variance_BRD.clamp_min(LEAST).sqrt()], dim=2)
        return Attended(values_BRD.to(states_BLD.dtype), weights_BRL)
