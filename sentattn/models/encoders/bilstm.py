"""Bidirectional LSTM (Schuster and Paliwal 1997; Hochreiter and Schmidhuber 1997), exact on padded batches."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sentattn.config.types import Count, Fraction, checked
from sentattn.models.encoders.base import Encoder
from sentattn.models.encoders.lstm import dropouts, leaves_autocast, one_layer


class BiLSTM(Encoder):
    """Two one-directional LSTMs a layer; the backward one reads each row reversed within its real length.

    Equal to a packed bidirectional `nn.LSTM` with the same weights, since neither direction reads padding before a real
    token; without packing it is faster, on CPUs and NVIDIA GPUs, and can be exported. Parameters a layer and direction:
    4 U (in + U) + 8 U.

    Args:
        hidden: Units U a direction; the states are 2 U wide.
        layers: Number of layers.
        dropout: Share of each layer's outgoing components set to 0 while training.
        output_dropout: The same for the last layer alone; None for as much as between layers, 0 for that of `nn.LSTM`.
    """

    bidirectional = True

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
        self.out_dim = 2 * hidden
        widths = [dim] + [self.out_dim] * (layers - 1)
        self.forwards = nn.ModuleList(one_layer(width, hidden) for width in widths)
        self.backwards = nn.ModuleList(one_layer(width, hidden) for width in widths)
        self.dropouts = dropouts(layers, dropout, output_dropout)

    def forward(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns states_BLD: the forward half, then the backward half."""
        if leaves_autocast(states_BLE.device.type):
            with torch.autocast(states_BLE.device.type, enabled=False):
                exact_BLD: Tensor = self(states_BLE.float(), mask_BL)
            return exact_BLD
        order_BL = reversal(mask_BL)
        states = states_BLE
        start_1BU = states.new_zeros(1, states.shape[0], self.out_dim // 2)  # made once, and not twice by each LSTM
        for forward, backward, dropout in zip(self.forwards, self.backwards, self.dropouts, strict=True):
            ahead, _ = forward(states, (start_1BU, start_1BU))
            backwards, _ = backward(reorder(states, order_BL), (start_1BU, start_1BU))
            states = dropout(torch.cat([ahead, reorder(backwards, order_BL)], dim=-1))
        return states


def reversal(mask_BL: Tensor) -> Tensor:
    """Returns the positions that reverse each row within its real length; applied twice they restore it."""
    lengths_B1 = mask_BL.sum(dim=1, keepdim=True)
    positions_L = torch.arange(mask_BL.shape[1], device=mask_BL.device)
    return torch.where(positions_L < lengths_B1, lengths_B1 - 1 - positions_L, positions_L)


def reorder(states_BLD: Tensor, order_BL: Tensor) -> Tensor:
    """Returns the states of each row in an order."""
    return states_BLD.gather(1, order_BL[..., None].expand_as(states_BLD))
