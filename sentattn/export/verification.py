"""Compares an exported graph in ONNX Runtime with its model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from sentattn.errors import Fault, RunError
from sentattn.export.onnx_graph import OnnxClassifier
from sentattn.models.classifier import TextClassifier

TOLERANCE = 1e-4
UNBOUNDED = 512
"""Tokens of the longest text compared where the model reads texts of any length."""
ERRORS_ONLY = 3
"""Severity of ONNX Runtime's own log."""


class Verification(NamedTuple):
    """How far a graph is from its model.

    Attributes:
        difference: The largest difference of a probability or a weight.
        shapes: Batch and length of the inputs compared.
    """

    difference: float
    shapes: list[tuple[int, int]]


def verify(path: Path, model: TextClassifier, *, num_embeddings: int, max_length: int | None) -> Verification:
    """Runs a graph and its model on the same random ids.

    Args:
        path: The ONNX file.
        model: Its model, on the CPU, in evaluation mode.
        num_embeddings: Number of ids, the specials included.
        max_length: Most tokens of a text; None for any number.

    Raises:
        RunError: If ONNX Runtime cannot run the file, or they differ by more than 1e-4.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    options.intra_op_num_threads = torch.get_num_threads()
    reference = OnnxClassifier(model).eval()
    worst, shapes = 0.0, []
    session: Any = None
    for tokens_BL, lengths_B in _inputs(num_embeddings, max_length):
        try:
            session = session or onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            outputs = session.run(None, {"tokens": tokens_BL, "lengths": lengths_B})
        except Exception as error:  # ONNX Runtime's errors have no common class
            message = f"ONNX Runtime cannot run the exported {model.name}: {str(error).splitlines()[0]}"
            raise RunError(Fault("format", "failed", message)) from error
        with torch.inference_mode():
            expected = reference(torch.from_numpy(tokens_BL), torch.from_numpy(lengths_B))
        worst = max(worst, *(_difference(a, b.numpy()) for a, b in zip(outputs, expected, strict=True)))
        shapes.append((tokens_BL.shape[0], tokens_BL.shape[1]))
    if worst > TOLERANCE:
        message = f"The exported {model.name} differs from the model by {worst:.1e}, more than {TOLERANCE:.0e}; "
        raise RunError(Fault("format", "failed", message + "nothing was written."))
    return Verification(worst, shapes)


def _inputs(num_embeddings: int, max_length: int | None) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yields batches of ids with their lengths: one token, two, some with padding, the longest."""
    longest = max_length or UNBOUNDED
    random = np.random.default_rng(0)
    for lengths in dict.fromkeys(tuple(min(n, longest) for n in row) for row in ((1,), (2,), (7, 1, 4), (longest,))):
        lengths_B = np.array(lengths, dtype=np.int64)
        # A Zipf distribution, frequent words first: n-grams of frequent words have vectors too.
        ids_BL = np.floor(num_embeddings ** random.random((len(lengths), lengths_B.max()))).astype(np.int64)
        yield np.where(np.arange(lengths_B.max()) < lengths_B[:, None], ids_BL, 0), lengths_B


def _difference(values: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """Returns the largest difference; infinite where shapes differ or a value is not finite."""
    if values.shape != expected.shape:
        return float("inf")
    with np.errstate(invalid="ignore"):
        largest = float(np.abs(values - expected).max())
    return largest if np.isfinite(largest) else float("inf")
