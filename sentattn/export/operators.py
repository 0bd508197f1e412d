"""What torch's exporter cannot carry over as it stands, said in what ONNX has."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.onnx.ops import symbolic

OPSET = 18
"""The oldest that torch's exporter writes without converting: the wider the choice of runtimes."""

Module = TypeVar("Module", bound=nn.Module)


class OnnxLSTM(nn.Module):
    """One direction of one layer as ONNX's own operator `LSTM`.

    torch traces `nn.LSTM` into a graph of one batch size and length. This module can be exported, not run.
    ONNX orders the gates input, output, forget, cell where torch has input, forget, cell, output.

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
        """Returns states_BLU, and in place of the final states None: no encoder here reads them."""
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
    inward, forget, cell, outward = gates.chunk(4)
    return torch.cat([inward, outward, forget, cell])


def is_one_layer(module: nn.Module) -> bool:
    """Whether a module is an LSTM such as the encoders are made of."""
    return (
        isinstance(module, nn.LSTM)
        and (module.num_layers, module.proj_size) == (1, 0)
        and (module.bias, module.batch_first, module.bidirectional) == (True, True, False)
    )


def with_onnx_lstms(model: Module) -> Module:
    """Returns a copy of a model whose LSTMs can be exported."""
    copied = copy.deepcopy(model)
    for module in list(copied.modules()):
        for name, part in list(module.named_children()):
            if is_one_layer(part):
                assert isinstance(part, nn.LSTM)
                setattr(module, name, OnnxLSTM(part))
    return copied


def lower_bound(sorted_N: Tensor, values: Tensor, **options: Any) -> Tensor:
    """Returns how many of the sorted numbers are smaller than each value: `torch.searchsorted` by halving, unrolled.

    ONNX has no search. Of 200,000 numbers it takes 18 steps.

    Args:
        sorted_N: Numbers in rising order, at least one.
        values: What is looked for, any shape.
        options: Those of `torch.searchsorted`; none but the defaults.
    """
    assert sorted_N.dim() == 1, "one table for all values"
    assert not any(options.values()), "no option of searchsorted is used"
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
