"""Bidirectional LSTM (Schuster and Paliwal 1997; Hochreiter and Schmidhuber 1997), exact on padded batches."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from sentattn.config.types import Count, Fraction, checked
from sentattn.models.encoders.base import Encoder
from sentattn.models.encoders.lstm import dropouts, leaves_autocast, one_layer


class BiLSTM(Encoder):
    """Two one-directional LSTMs a layer; the backward one reads each row reversed within its real length.

    Equal to a packed bidirectional `nn.LSTM` with the same weights, since neither direction reads padding before a real
    token; without packing the fused kernels of a CPU apply, and the model can be exported. On an NVIDIA GPU, and where
    the lengths are known, cuDNN reads both directions of a layer in one packed call. Parameters a layer and direction:
    4 U (in + U) + 8 U.

    Args:
        hidden: Units U a direction; the states are 2 U wide.
        layers: Number of layers.
        dropout: Share of each layer's outgoing components set to 0 while training.
        output_dropout: The same for the last layer alone; None for as much as between layers, 0 for that of `nn.LSTM`.
    """

    bidirectional = True
    reads_lengths = True

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
        forwards = [one_layer(width, hidden) for width in widths]
        backwards = [one_layer(width, hidden) for width in widths]
        self.forwards, self.backwards = nn.ModuleList(forwards), nn.ModuleList(backwards)
        self.dropouts = dropouts(layers, dropout, output_dropout)
        # In a list, so that the parameters that they share are saved once.
        self._both = [_both(*directions) for directions in zip(forwards, backwards, strict=True)]

    def forward(self, states_BLE: Tensor, mask_BL: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Returns states_BLD: the forward half, then the backward half."""
        if leaves_autocast(states_BLE.device.type):
            with torch.autocast(states_BLE.device.type, enabled=False):
                exact_BLD: Tensor = self(states_BLE.float(), mask_BL, lengths_B)
            return exact_BLD
        if lengths_B is not None and states_BLE.is_cuda and not torch.compiler.is_compiling():
            return self.packed(states_BLE, lengths_B.numpy())
        order_BL = reversal(mask_BL)
        states = states_BLE
        start_1BU = states.new_zeros(1, states.shape[0], self.out_dim // 2)  # made once, and not twice by each LSTM
        for forward, backward, dropout in zip(self.forwards, self.backwards, self.dropouts, strict=True):
            ahead, _ = forward(states, (start_1BU, start_1BU))
            backwards, _ = backward(reorder(states, order_BL), (start_1BU, start_1BU))
            states = dropout(torch.cat([ahead, reorder(backwards, order_BL)], dim=-1))
        return states

    def packed(self, states_BLE: Tensor, lengths_B: NDArray[np.int64]) -> Tensor:
        """Returns the same states_BLD, computed on the real tokens alone; 0 on padding.

        The order of the tokens is found in main memory and copied without waiting for the GPU. Gathering them by it
        takes one operation; `pack_padded_sequence` takes one for each length.
        """
        batch, length = states_BLE.shape[:2]
        rows_B = np.argsort(-lengths_B, kind="stable")
        is_real_LB = np.arange(length)[:, None] < lengths_B[rows_B]
        steps_T, places_T = is_real_LB.nonzero()
        tokens_T = torch.from_numpy(rows_B[places_T] * length + steps_T).to(states_BLE.device, non_blocking=True)
        sizes_L = torch.from_numpy(is_real_LB.sum(axis=1)[: lengths_B.max()])
        states_TD = states_BLE.flatten(0, 1).index_select(0, tokens_T)
        for both, dropout in zip(self._both, self.dropouts, strict=True):
            if len({parameter.untyped_storage().data_ptr() for parameter in both.parameters()}) > 1:
                with torch.inference_mode(False):  # side by side in memory, as cuDNN wants them: once, on a GPU
                    both.flatten_parameters()
            states_TD = dropout(both(PackedSequence(states_TD, sizes_L))[0].data)
        padded_ND = states_TD.new_zeros(batch * length, self.out_dim).index_copy(0, tokens_T, states_TD)
        return padded_ND.view(batch, length, self.out_dim)


def _both(forward: nn.LSTM, backward: nn.LSTM) -> nn.LSTM:
    """Returns both directions as one LSTM, which shares their parameters."""
    both = nn.LSTM(forward.input_size, forward.hidden_size, bidirectional=True, batch_first=True, device="meta")
    for suffix, direction in (("", forward), ("_reverse", backward)):
        for name, parameter in direction.named_parameters():
            setattr(both, name + suffix, parameter)
    return both


def reversal(mask_BL: Tensor) -> Tensor:
    """Returns the positions that reverse each row within its real length; applied twice they restore it."""
    lengths_B1 = mask_BL.sum(dim=1, keepdim=True)
    positions_L = torch.arange(mask_BL.shape[1], device=mask_BL.device)
    return torch.where(positions_L < lengths_B1, lengths_B1 - 1 - positions_L, positions_L)


def reorder(states_BLD: Tensor, order_BL: Tensor) -> Tensor:
    """Returns the states of each row in an order."""
    return states_BLD.gather(1, order_BL[..., None].expand_as(states_BLD))
