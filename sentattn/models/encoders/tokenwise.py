"""A layer on each token by itself; with the mean behind it, Deep Sets (Zaheer et al. 2017)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sentattn.config.types import Count, Fraction, checked
from sentattn.models.dropout import Dropout
from sentattn.models.encoders.base import Encoder


class Tokenwise(Encoder):
    """relu(W h_t + b) for each token, which sees no other token.

    With `uniform` attention behind it, a text is rho(1/n sum_t phi(h_t)), as in theorem 2 of the paper: the control
    that shows what a model gains from a map of the tokens alone, without weights. Parameters: (E + 1) width.

    Args:
        width: Width of the states.
        dropout: Share of the states' components set to 0 while training.
    """

    @checked
    def __init__(self, *, dim: Count, width: Count = 100, dropout: Fraction = 0.0) -> None:
        super().__init__()
        self.out_dim = width
        self.layer = nn.Linear(dim, width)
        nn.init.kaiming_uniform_(self.layer.weight, nonlinearity="relu")
        nn.init.zeros_(self.layer.bias)
        self.dropout = Dropout(dropout)

    def forward(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns states_BLD."""
        states_BLD: Tensor = self.dropout(torch.relu(self.layer(states_BLE)))
        return states_BLD
