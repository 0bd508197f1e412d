"""Replacements for operators that torch's exporter cannot translate, made of operators that ONNX has."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.onnx.ops import symbolic

OPSET = 18
"""The oldest that torch's exporter writes without conversion, for the widest choice of runtimes."""

Module = TypeVar("Module", bound=nn.Module)


class OnnxLSTM(nn.Module):
    """One direction of one layer as ONNX's own operator `LSTM`.

    torch traces `nn.LSTM` into a graph of one batch size and length. This module can be exported, not run.
    The order of the gates is input, output, forget, cell in ONNX; in torch input, forget, cell, output.

    Args:
        lstm: A layer that `is_one_layer` accepts.
    """

    incoming: Tensor
    recurrent: Tensor
    biases: Tensor

    def __init__(self, lstm: nn.LSTM) -> None:
        super().__init__()
        self.hidden = lstm.hidden_size
        gates = {name: _reordered(tensor) for name, tensor in lstm.state_dict().items()}
        self.register_buffer("incoming", gates["weight_ih_l0"][None])
        self.register_buffer("recurrent", gates["weight_hh_l0"][None])
        self.register_buffer("biases", torch.cat([gates["bias_ih_l0"], gates["bias_hh_l0"]])[None])

    def forward(self, states_BLE: Tensor) -> tuple[Tensor, None]:
        """Returns states_BLU, and None for the final states, which no encoder reads."""
        batch, length, _ = states_BLE.shape
        states_L1BU = symbolic(
            "LSTM",
            (states_BLE.transpose(0, 1), self.incoming, self.recurrent, self.biases),
            {"hidden_size": self.hidden},
            dtype=states_BLE.dtype,
            shape=(length, 1, batch, self.hidden),
            version=OPSET,
        )
        return states_L1BU[:, 0].transpose(0, 1), None


def _reordered(gates: Tensor) -> Tensor:
    input_gate, forget, cell, output = gates.chunk(4)
    return torch.cat([input_gate, output, forget, cell])


def is_one_layer(module: nn.Module) -> bool:
    """Whether a module is an LSTM of one layer and direction, as in the encoders."""
    return (
        isinstance(module, nn.LSTM)
        and (module.num_layers, module.proj_size) == (1, 0)
        and (module.bias, module.batch_first, module.bidirectional) == (True, True, False)
    )


def with_onnx_lstms(model: Module) -> Module:
    """Returns a copy of a model whose LSTMs can be exported."""
    replica = copy.deepcopy(model)
    for module in list(replica.modules()):
        for name, child in list(module.named_children()):
            if is_one_layer(child):
                assert isinstance(child, nn.LSTM)
                setattr(module, name, OnnxLSTM(child))
    return replica


def lower_bound(sorted_N: Tensor, values: Tensor, **options: Any) -> Tensor:
    """Returns how many of the sorted numbers are smaller than each value: `torch.searchsorted` as a binary search.

    ONNX has no search. The loop is unrolled: 18 steps for 200,000 numbers.

    Args:
        sorted_N: Numbers in ascending order, at least one.
        values: The values, any shape.
        options: Those of `torch.searchsorted`, at their defaults.
    """
    assert sorted_N.dim() == 1, "one sorted list for all values"
    assert not any(options.values()), "options of searchsorted are not supported"
    size = sorted_N.shape[0]
    below = torch.zeros_like(values)
    step = 1 << (size.bit_length() - 1)
    while step:
        further = below + step
        smaller = sorted_N[further.clamp_max(size) - 1] < values
        below = torch.where((further <= size) & smaller, further, below)
        step //= 2
    return below


DECOMPOSED = {torch.ops.aten.searchsorted.Tensor: lower_bound}
