"""What every encoder gives."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn


class Encoder(nn.Module, ABC):
    """Turns the vectors of words into states that know their context.

    Attributes:
        out_dim: Width D of a state.
    """

    out_dim: int

    @abstractmethod
    def forward(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns states_BLD. What stands at padded positions is of no meaning.

        Args:
            states_BLE: Embedded tokens.
            mask_BL: True at real tokens, which stand first in each row.
        """
