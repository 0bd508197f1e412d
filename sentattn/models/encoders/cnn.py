"""Convolutions over the words (Kim 2014, Convolutional Neural Networks for Sentence Classification)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from sentattn.config.types import Count, Fraction, checked
from sentattn.models.dropout import Dropout
from sentattn.models.encoders.base import Encoder


class CNN(Encoder):
    """Filters of several widths side by side, then relu; a state knows the few words around it.

    The output is as long as the input: a filter of width W at token t sees tokens t - (W - 1) // 2 to t + W // 2, with
    zeros beyond the real ones. Kim takes the maximum over the tokens (`max` attention), and convolves only where the
    whole filter fits; here it may reach over the edge, so that a text of one word has a state too. Parameters a layer:
    the sum over the widths of (W in + 1) channels.

    Args:
        widths: Widths of the filters in tokens, each with `channels` filters.
        channels: Filters of each width; the states are len(widths) channels wide.
        layers: Number of layers.
        dropout: Share of each layer's outgoing components set to 0 while training.
    """

    @checked
    def __init__(
        self,
        *,
        dim: Count,
        widths: Sequence[Count] = (3, 4, 5),
        channels: Count = 100,
        layers: Count = 1,
        dropout: Fraction = 0.0,
    ) -> None:
        super().__init__()
        if not widths:
            raise ValueError("widths must be one width or more, such as [3,4,5], got []")
        self.out_dim = len(widths) * channels
        incoming = [dim] + [self.out_dim] * (layers - 1)
        self.layers = nn.ModuleList(Filters(dim=width, widths=widths, channels=channels) for width in incoming)
        self.dropout = Dropout(dropout)

    def forward(self, states_BLE: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns states_BLD."""
        pad_BL1 = ~mask_BL[..., None]
        states = states_BLE
        for layer in self.layers:
            states = self.dropout(torch.relu(layer(states.masked_fill(pad_BL1, 0.0))))
        return states


class Filters(nn.Module):
    """One layer; weights start as He et al. (2015) have them for relu, biases at 0."""

    def __init__(self, *, dim: int, widths: Sequence[int], channels: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv1d(dim, channels, width) for width in widths)
        self.edges = [((width - 1) // 2, width // 2) for width in widths]
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.kaiming_uniform_(parameter, nonlinearity="relu")

    def forward(self, states_BLE: Tensor) -> Tensor:
        """Returns the outputs of the filters, those of the first width first, (B, L, len(widths) channels)."""
        pairs = zip(self.convolutions, self.edges, strict=True)
        return torch.cat([_convolve(convolution, pad(states_BLE, (0, 0, *edges))) for convolution, edges in pairs], 2)


def _convolve(convolution: nn.Module, states_BLE: Tensor) -> Tensor:
    """Returns the outputs token by token, as the states come: `conv1d` would rearrange them channel by channel."""
    assert isinstance(convolution, nn.Conv1d)
    image_BE1L, weight = states_BLE.transpose(1, 2)[:, :, None], convolution.weight[:, :, None]
    return conv2d(image_BE1L, weight, convolution.bias)[:, :, 0].transpose(1, 2)
