"""The exported graph beside the model it was made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from sentattn.errors import RunError
from sentattn.export.graph import Portable
from sentattn.models.classifier import TextClassifier

TOLERANCE = 1e-4
UNBOUNDED = 512
"""Tokens of the longest text tried where the model reads texts of any length."""
Run: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.int64]], list[NDArray[np.float32]]]
"""tokens_BL, lengths_B -> probabilities_BC, weights_BRL."""

QUIET = 3
"""ONNX Runtime says errors only."""


class Compared(NamedTuple):
    """How far the graph is from the model.

    Attributes:
        difference: The largest difference of a probability or a weight.
        shapes: Batch and length of what was tried.
    """

    difference: float
    shapes: list[tuple[int, int]]


def compare(path: Path, model: TextClassifier, *, num_embeddings: int, max_length: int | None) -> Compared:
    """Runs both on the same made-up texts.

    Args:
        path: The ONNX file.
        model: The model it was made of, on the CPU, in evaluation mode.
        num_embeddings: Number of ids, the specials included.
        max_length: Most tokens that a text has; None for any number.

    Raises:
        RunError: If ONNX Runtime cannot run the file, or they differ by more than 1e-4.
    """
    run, portable = _runner(path, model.name), Portable(model).eval()
    worst = Compared(0.0, [])
    for tokens_BL, lengths_B in _texts(num_embeddings, max_length):
        graph = run(tokens_BL, lengths_B)
        with torch.inference_mode():
            eager = portable(torch.from_numpy(tokens_BL), torch.from_numpy(lengths_B))
        differences = [_difference(ours, theirs.numpy()) for ours, theirs in zip(graph, eager, strict=True)]
        batch, length = tokens_BL.shape
        worst = Compared(max(worst.difference, *differences), [*worst.shapes, (batch, length)])
    if worst.difference > TOLERANCE:
        raise RunError(
            f"The exported {model.name} differs from the model by {worst.difference:.1e}, more than {TOLERANCE:.0e}; "
            "nothing was written."
        )
    return worst


def _runner(path: Path, name: str) -> Run:
    """Returns what runs an ONNX file; ONNX Runtime's faults become `RunError`s."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = QUIET
    options.intra_op_num_threads = torch.get_num_threads()

    def refused(error: Exception) -> RunError:
        return RunError(f"ONNX Runtime cannot run the exported {name}: {str(error).splitlines()[0]}")

    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # it has no common class for what it refuses
        raise refused(error) from error

    def run(tokens_BL: NDArray[np.int64], lengths_B: NDArray[np.int64]) -> list[NDArray[np.float32]]:
        try:
            results: list[NDArray[np.float32]] = session.run(None, {"tokens": tokens_BL, "lengths": lengths_B})
        except Exception as error:
            raise refused(error) from error
        return results

    return run


def _texts(num_embeddings: int, max_length: int | None) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yields batches of ids with their lengths: one token, two, some with padding, the longest."""
    longest = max_length or UNBOUNDED
    drawn = np.random.default_rng(0)
    for lengths in dict.fromkeys(tuple(min(n, longest) for n in row) for row in ((1,), (2,), (7, 1, 4), (longest,))):
        lengths_B = np.array(lengths, dtype=np.int64)
        # Drawn as Zipf has it, frequent words first: their n-grams have vectors too.
        ids_BL = np.floor(num_embeddings ** drawn.random((len(lengths), lengths_B.max()))).astype(np.int64)
        yield np.where(np.arange(lengths_B.max()) < lengths_B[:, None], ids_BL, 0), lengths_B


def _difference(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> float:
    """The largest difference; infinite where shapes differ or something is no number."""
    if ours.shape != theirs.shape:
        return float("inf")
    with np.errstate(invalid="ignore"):
        largest = float(np.abs(ours - theirs).max())
    return largest if np.isfinite(largest) else float("inf")
