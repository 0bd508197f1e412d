"""Exports a model as an ONNX graph for any batch size and length."""

from __future__ import annotations

import copy
import logging
import os
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.onnx.ops import symbolic

from sentattn.errors import Fault, RunError
from sentattn.models.classifier import TextClassifier

OPSET = 18
"""The oldest version that torch's exporter writes without conversion, for the widest choice of runtimes."""
TRACED_BATCH, TRACED_LENGTH = 2, 3
MAX_REASON = 300
"""Most characters of torch's message that are printed."""


class OnnxClassifier(nn.Module):
    """A classifier with the inputs and outputs of the graph: ids and lengths to probabilities and attention.

    Its input is lengths instead of a mask, so that there is no padding between words.
    """

    def __init__(self, model: TextClassifier) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens_BL: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """Returns probabilities_BC and weights_BRL, float32, for ids (0 after the end of a text) and lengths, int64."""
        mask_BL = torch.arange(tokens_BL.shape[1], device=tokens_BL.device) < lengths_B[:, None]
        classified = self.model(tokens_BL, mask_BL)
        return classified.logits_BC.float().softmax(dim=-1), classified.attended.weights_BRL.float()


class OnnxLSTM(nn.Module):
    """One direction of one layer as ONNX's operator `LSTM`; it can only be exported.

    torch traces `nn.LSTM` into a graph with a fixed batch size and length. The order of the gates is input, output,
    forget, cell in ONNX, and input, forget, cell, output in torch.
    """

    incoming: Tensor
    recurrent: Tensor
    biases: Tensor

    def __init__(self, lstm: nn.LSTM) -> None:
        super().__init__()
        self.hidden = lstm.hidden_size
        parts = {name: tensor.chunk(4) for name, tensor in lstm.state_dict().items()}
        gates = {name: torch.cat([part[0], part[3], part[1], part[2]]) for name, part in parts.items()}
        self.register_buffer("incoming", gates["weight_ih_l0"][None])
        self.register_buffer("recurrent", gates["weight_hh_l0"][None])
        self.register_buffer("biases", torch.cat([gates["bias_ih_l0"], gates["bias_hh_l0"]])[None])

    def forward(self, states_BLE: Tensor, start: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, None]:
        """Returns states_BLU, and None for the final states, which no encoder reads; the initial states are 0."""
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


def with_onnx_lstms(model: nn.Module) -> nn.Module:
    """Returns a copy of a model with `OnnxLSTM` for each LSTM of one layer and direction."""
    replica = copy.deepcopy(model)
    for module in list(replica.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.LSTM):
                layout = (child.num_layers, child.proj_size, child.bias, child.batch_first, child.bidirectional)
                if layout == (1, 0, True, True, False):
                    setattr(module, name, OnnxLSTM(child))
    return replica


def lower_bound(sorted_N: Tensor, values: Tensor, **options: Any) -> Tensor:
    """Returns how many of the sorted numbers are smaller than each value: `torch.searchsorted` as a binary search.

    ONNX has no such operator. The loop is unrolled: 18 steps for 200,000 numbers.
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


def write_graph(model: TextClassifier, path: Path, *, max_length: int | None) -> None:
    """Writes a model as an ONNX file for texts of up to `max_length` tokens; None for any length.

    Raises:
        RunError: If the model cannot be exported; with torch's message.
    """
    classifier = with_onnx_lstms(OnnxClassifier(model)).eval()
    length = min(TRACED_LENGTH, max_length or TRACED_LENGTH)
    inputs = torch.ones(TRACED_BATCH, length, dtype=torch.int64), torch.full((TRACED_BATCH,), length)
    batch = torch.export.Dim("batch")
    # torch makes a dimension that can only be 1 static.
    lengths = {} if max_length == 1 else {1: torch.export.Dim("length", max=max_length)}
    shapes = {"tokens_BL": {0: batch, **lengths}, "lengths_B": {0: batch}}
    try:
        with _quiet(), torch.no_grad():
            program = torch.export.export(classifier, inputs, dynamic_shapes=shapes, strict=False)
            if any(node.target in DECOMPOSED for node in program.graph.nodes):
                program = program.run_decompositions(DECOMPOSED)
            exported = torch.onnx.export(
                program,
                dynamo=True,
                input_names=("tokens", "lengths"),
                output_names=("probabilities", "attention"),
                dynamic_shapes=shapes,
                opset_version=OPSET,
                verbose=False,
            )
            assert exported is not None
            graph = exported.model.graph
            exported.model.metadata_props.clear()  # source lines, with paths of the exporting machine
            graph.metadata_props.clear()
            for node in graph.all_nodes():
                node.metadata_props.clear()
                for value in node.outputs:
                    value.metadata_props.clear()
            exported.save(path, external_data=False)
    except OSError:  # such as a full disk, which is no error of the model
        raise
    except Exception as error:  # torch and onnxscript have no common class of errors
        cause: BaseException = error  # the first error has the reason; torch's messages are pages long
        while cause.__cause__ is not None:
            cause = cause.__cause__
        reason = textwrap.shorten(str(cause) or type(cause).__name__, MAX_REASON, placeholder=" ...")
        message = f"The model {model.name} cannot be exported: {reason}"
        raise RunError(Fault("format", "unsupported", message)) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Hides the warnings and the output of the exporter: deprecations, optional packages, skipped steps."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with open(os.devnull, "w", encoding="utf-8") as devnull, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with redirect_stdout(devnull), redirect_stderr(devnull):
                yield
    finally:
        logging.disable(level)
