"""One-directional LSTM (Hochreiter and Schmidhuber 1997)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sentattn.config.types import Count, Fraction, checked
from sentattn.models.dropout import Dropout
from sentattn.models.encoders.base import Encoder


class LSTM(Encoder):
    """Reads the text forwards, so that a state depends on the tokens before it.

    Real tokens come first in each row, so no real token is read after padding and nothing needs to be packed.
    Parameters a layer: 4 U (in + U) + 8 U.

    Args:
        hidden: Units U, the width of the states.
        layers: Number of layers.
        dropout: Share of each layer's outgoing components set to 0 while training.
        output_dropout: The same for the last layer alone; None for as much as between layers, 0 for that of `nn.LSTM`.
    """

    @checked
    def __init__(
        self,
        *,
        dim: Count,
        hidden: Count = 100,
        layers: Count = 1,
        dropout: Fraction = 0.0,
        output_dropout: Fraction | None = None,
    ) -> None:
        super().__init__()
        self.out_dim = hidden
        self.layers = nn.ModuleList(one_layer(width, hidden) for width in [dim] + [hidden] * (layers - 1))
        self.dropouts = dropouts(layers, dropout, output_dropout)

    def forward(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns states_BLD."""
        if leaves_autocast(states_BLE.device.type):
            with torch.autocast(states_BLE.device.type, enabled=False):
                exact_BLD: Tensor = self(states_BLE.float(), mask_BL)
            return exact_BLD
        states = states_BLE
        for layer, dropout in zip(self.layers, self.dropouts, strict=True):
            ahead, _ = layer(states)
            states = dropout(ahead)
        return states


def leaves_autocast(device: str) -> bool:
    """Returns whether LSTMs have to leave autocast on a type of device, to be computed in float32.

    On an NVIDIA GPU torch calls cuDNN's LSTM in float16 for any type of autocast (ATen, AutocastRNN.cpp), and with
    bfloat16 nothing scales the loss: small gradients would be rounded to 0.
    """
    return device == "cuda" and torch.is_autocast_enabled(device)


def dropouts(layers: int, dropout: float, output_dropout: float | None) -> nn.ModuleList:
    """Returns the dropout after each layer."""
    last = dropout if output_dropout is None else output_dropout
    return nn.ModuleList(map(Dropout, [dropout] * (layers - 1) + [last]))


def one_layer(dim: int, hidden: int) -> nn.LSTM:
    """One direction of one layer: orthogonal recurrent weights (Saxe et al. 2014), Glorot input weights, no bias."""
    lstm = nn.LSTM(dim, hidden, batch_first=True)
    with torch.no_grad():
        for name, parameter in lstm.named_parameters():
            if name.startswith("bias"):
                nn.init.zeros_(parameter)
                continue
            for gate_weights in parameter.chunk(4):
                (nn.init.xavier_uniform_ if "ih" in name else nn.init.orthogonal_)(gate_weights)
    return lstm
