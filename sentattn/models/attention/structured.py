"""Structured self-attention (Lin et al. 2017, A Structured Self-attentive Sentence Embedding)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sentattn.config.types import Count, Fraction, checked
from sentattn.models.attention.base import Attended, Attention, Normalizer, masked_softmax, weighted_sum
from sentattn.models.dropout import Dropout


class Structured(Attention):
    """R hops, each a softmax of its scores over the tokens (equations 5 to 8).

    S = W2 tanh(W1 h_t + b1) + b2, one softmax over the real tokens for each row of S. With one hop and no penalty this
    is additive attention (Bahdanau et al. 2015). The paper has no biases, the Gluon tutorial has them. Parameters:
    A D + A + R A + R with biases, A D + R A without.

    Args:
        hops: Rows R of the attention matrix.
        hidden: Width A of the hidden layer (d_a in the paper).
        bias: Whether both layers have one.
        dropout: Share of the scoring layers' incoming components set to 0 while training, as in the authors'
            released code; the values are made of states without it.
        normalizer: What makes weights of scores: `softmax`; `sparsemax` and `entmax15` give weights of exactly 0.
    """

    @checked
    def __init__(
        self,
        *,
        dim: Count,
        hops: Count = 4,
        hidden: Count = 64,
        bias: bool = True,
        dropout: Fraction = 0.0,
        normalizer: Normalizer = "softmax",
    ) -> None:
        super().__init__()
        self.out_dim, self.hops, self.normalizer = dim, hops, normalizer
        self.hidden = nn.Linear(dim, hidden, bias=bias)
        self.scores = nn.Linear(hidden, hops, bias=bias)
        self.dropout = Dropout(dropout)
        for layer in (self.hidden, self.scores):
            nn.init.xavier_uniform_(layer.weight)
            if bias:
                nn.init.zeros_(layer.bias)

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Returns values_BRD = weights_BRL @ states_BLD."""
        hidden_BLA = torch.tanh(self.hidden(self.dropout(states_BLD)))
        scores_BRL = self.scores(self.dropout(hidden_BLA)).transpose(1, 2)
        weights_BRL = masked_softmax(scores_BRL, mask_BL, self.normalizer)
        return Attended(weighted_sum(weights_BRL, states_BLD), weights_BRL)
