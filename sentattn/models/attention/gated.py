"""Gated attention (Ilse et al. 2018, Attention-based Deep Multiple Instance Learning)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sentattn.config.types import Count, checked
from sentattn.models.attention.base import Attended, Attention, Normalizer, masked_softmax, weighted_sum


class Gated(Attention):
    """A hidden layer scores each token, and each of its units has a gate (equation 9).

    s_t = w . (tanh(V h_t) * sigmoid(U h_t)) with V and U of A x D, softmax over the real tokens. A tanh is almost
    linear around 0; the gate is not. There are no biases, as in the paper. Its authors' code can have several rows w, a
    hop each. Parameters: 2 A D + R A.

    Args:
        hops: Rows R of the attention matrix.
        hidden: Width A of the hidden layer (L in the paper).
        normalizer: What makes weights of scores: `softmax`; `sparsemax` and `entmax15` give weights of exactly 0.
    """

    @checked
    def __init__(self, *, dim: Count, hops: Count = 1, hidden: Count = 64, normalizer: Normalizer = "softmax") -> None:
        super().__init__()
        self.out_dim, self.hops, self.normalizer = dim, hops, normalizer
        self.hidden = nn.Linear(dim, hidden, bias=False)
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.scores = nn.Linear(hidden, hops, bias=False)
        for layer in (self.hidden, self.gate, self.scores):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, states_BLD: Tensor, mask_BL: Tensor) -> Attended:
        """Returns values_BRD = weights_BRL @ states_BLD."""
        hidden_BLA = torch.tanh(self.hidden(states_BLD)) * torch.sigmoid(self.gate(states_BLD))
        weights_BRL = masked_softmax(self.scores(hidden_BLA).transpose(1, 2), mask_BL, self.normalizer)
        return Attended(weighted_sum(weights_BRL, states_BLD), weights_BRL)
