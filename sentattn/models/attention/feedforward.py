"""Feed-forward attention (Raffel and Ellis 2015): one linear score a token."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from sentattn.config.types import Count, checked
from sentattn.models.attention.base import Attended, Attention, Normalizer, masked_softmax, weighted_sum


class Feedforward(Attention):
    """One hop whose scores are a single linear layer: s_t = w . h_t + b, softmax over the real tokens.

    Without a hidden layer the score of a token depends on its state only, along one direction. Raffel and Ellis squash
    the score by a tanh, as does the PyTorch post on word attention: it then lies in [-1, 1], so no token can weigh more
    than e^2 times another. The post also has a bias for each position. Parameters: D + 1, with biases for N positions
    D + N.

    Args:
        squash: What bounds the scores, after the bias is added: `none` or `tanh`.
        position_bias: Number N of positions with a bias each instead of b; no text may be longer.
            None for one bias.
        normalizer: What makes weights of scores: `softmax`; `sparsemax` and `entmax15` give weights of exactly 0.
    """

    @checked
    def __init__(
        self,
        *,
        dim: Count,
        squash: Literal["none", "tanh"] = "none",
        position_bias: Count | None = None,
        normalizer: Normalizer = "softmax",
    ) -> None:
        super().__init__()
        self.out_dim, self.hops = dim, 1
        self.squash, self.normalizer = squash, normalizer
        self.weight = nn.Parameter(torch.empty(1, dim))
        self.bias = nn.Parameter(torch.zeros(position_bias or 1))
        nn.init.xavier_uniform_(self.weight)
        self.positions = position_bias

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Returns values_BRD = weights_BRL @ states_BLD with R = 1."""
        length = states_BLD.shape[1]
        assert self.positions is None or length <= self.positions, "texts are clipped to the positions there are"
        bias_L = self.bias if self.positions is None else self.bias[:length]
        scores_BRL = nn.functional.linear(states_BLD, self.weight).transpose(1, 2) + bias_L
        scores_BRL = scores_BRL.tanh() if self.squash == "tanh" else scores_BRL
        weights_BRL = masked_softmax(scores_BRL, mask_BL, self.normalizer)
        return Attended(weighted_sum(weights_BRL, states_BLD), weights_BRL)
