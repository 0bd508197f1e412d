"""What every encoder gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor, nn


class Encoder(nn.Module, ABC):
    """Turns the vectors of words into states that know their context.

    Attributes:
        out_dim: Width D of a state.
        bidirectional: Whether the second half of a state comes from reading the text backwards.
    """

    bidirectional: ClassVar[bool] = False
    out_dim: int

    @abstractmethod
    def forward(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns states_BLD; those at padded positions, which come last in each row, have no meaning."""

    def pairs(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor | None:
        """Returns token-to-token weights, (B, H, L, L), where the encoder has them; see `Attention.pairs`."""
        return None
