"""No encoder: the states are the embedded words."""

from __future__ import annotations

from torch import Tensor

from sentattn.config.types import Count, Fraction, checked
from sentattn.models.dropout import Dropout
from sentattn.models.encoders.base import Encoder


class Identity(Encoder):
    """The embedded words.

    Args:
        dropout: Share of the states' components set to 0 while training.
    """

    @checked
    def __init__(self, *, dim: Count, dropout: Fraction = 0.0) -> None:
        super().__init__()
        self.out_dim = dim
        self.dropout = Dropout(dropout)

    def forward(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns the states as they came."""
        states_BLD: Tensor = self.dropout(states_BLE)
        return states_BLD
