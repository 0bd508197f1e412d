"""Exports a model as an ONNX graph for any batch size and length."""

from __future__ import annotations

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

from sentattn.errors import Fault, RunError
from sentattn.export.operators import DECOMPOSED, OPSET, with_onnx_lstms
from sentattn.models.classifier import TextClassifier

INPUTS = ("tokens", "lengths")
OUTPUTS = ("probabilities", "attention")
TRACED_BATCH, TRACED_LENGTH = 2, 3
MAX_REASON = 300
"""Most characters of torch's message that are shown."""


class OnnxClassifier(nn.Module):
    """A classifier with the inputs and outputs of the graph: ids and lengths to probabilities and attention.

    Its input is lengths instead of a mask: a mask could have padding between words, which no model is trained for.

    Args:
        model: The classifier.
    """

    def __init__(self, model: TextClassifier) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens_BL: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """Returns probabilities_BC and weights_BRL, both float32.

        Args:
            tokens_BL: Ids, int64; 0 after the end of a text.
            lengths_B: Number of real tokens of each text, int64, 1 or more.
        """
        mask_BL = torch.arange(tokens_BL.shape[1], device=tokens_BL.device) < lengths_B[:, None]
        classified = self.model(tokens_BL, mask_BL)
        return classified.logits_BC.float().softmax(dim=-1), classified.attended.weights_BRL.float()


def write_graph(model: TextClassifier, path: Path, *, max_length: int | None) -> None:
    """Writes a model as one ONNX file.

    Args:
        model: The classifier.
        path: The file.
        max_length: Most tokens that a text has; None for any number.

    Raises:
        RunError: If a part of the model cannot be exported; with torch's message.
    """
    classifier = with_onnx_lstms(OnnxClassifier(model)).eval()
    length = min(TRACED_LENGTH, max_length or TRACED_LENGTH)
    tokens_BL = torch.ones(TRACED_BATCH, length, dtype=torch.int64)
    lengths_B = torch.full((TRACED_BATCH,), length)
    shapes = _shapes(max_length)
    try:
        with _quiet(), torch.no_grad():
            program = torch.export.export(classifier, (tokens_BL, lengths_B), dynamic_shapes=shapes, strict=False)
            if any(node.target in DECOMPOSED for node in program.graph.nodes):
                program = program.run_decompositions(DECOMPOSED)
            graph = torch.onnx.export(
                program,
                dynamo=True,
                input_names=INPUTS,
                output_names=OUTPUTS,
                dynamic_shapes=shapes,
                opset_version=OPSET,
                verbose=False,
            )
            assert graph is not None
            _remove_source_locations(graph)
            graph.save(path, external_data=False)
    except OSError:  # such as a full disk: not an error of the model
        raise
    except Exception as error:  # the errors of torch and onnxscript have no common class
        message = f"The model {model.name} cannot be exported: {_reason(error)}"
        raise RunError(Fault("format", "unsupported", message)) from error


def _remove_source_locations(program: torch.onnx.ONNXProgram) -> None:
    """Removes the metadata of each operator: lines of code, with paths of this machine."""
    graph = program.model.graph
    for node in graph.all_nodes():
        node.metadata_props.clear()
        for value in node.outputs:
            value.metadata_props.clear()
    program.model.metadata_props.clear()
    graph.metadata_props.clear()


def _shapes(max_length: int | None) -> dict[str, dict[int, Any]]:
    """Returns the dynamic dimensions; a length that can only be 1 is static."""
    batch = torch.export.Dim("batch")
    tokens = {0: batch}
    if max_length != 1:
        tokens[1] = torch.export.Dim("length", max=max_length)
    return {"tokens_BL": tokens, "lengths_B": {0: batch}}


def _reason(error: BaseException) -> str:
    """Returns the beginning of the first cause's message: torch's messages are pages long."""
    while error.__cause__ is not None:
        error = error.__cause__
    return textwrap.shorten(str(error) or type(error).__name__, MAX_REASON, placeholder=" ...")


@contextmanager
def _quiet() -> Iterator[None]:
    """Hides the exporter's own warnings and output: deprecations, optional packages, skipped steps."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with (
            open(os.devnull, "w", encoding="utf-8") as devnull,
            warnings.catch_warnings(),
            redirect_stdout(devnull),
            redirect_stderr(devnull),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
