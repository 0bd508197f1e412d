from __future__ import annotations

from pathlib import Path

import pytest
import torch
from untrained_runs import MAX_LENGTH, WORDS

from sentattn.errors import RunError
from sentattn.export.verification import verify
from sentattn.run import Run

VOCABULARY = len(WORDS) + 2


def test_a_model_equals_its_graph(mean: Run, folder: Path) -> None:
    verification = verify(
        folder / "model.onnx", mean.classifier.model, num_embeddings=VOCABULARY, max_length=MAX_LENGTH
    )
    assert verification.difference < 1e-6
    assert verification.shapes == [(1, 1), (1, 2), (3, 7), (1, MAX_LENGTH)]


@pytest.mark.parametrize("change", [1e-2, float("nan"), float("inf")])
def test_a_graph_of_another_model_is_refused(mean: Run, folder: Path, change: float) -> None:
    model = Run(mean.path).classifier.model
    with torch.no_grad():
        model.head.layers[-1].bias[0] += change  # type: ignore[index, operator, union-attr]
    with pytest.raises(RunError) as caught:
        verify(folder / "model.onnx", model, num_embeddings=VOCABULARY, max_length=MAX_LENGTH)
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("format", "failed")]


def test_a_file_that_is_no_graph_is_refused(mean: Run, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"nothing")
    with pytest.raises(RunError) as caught:
        verify(tmp_path / "model.onnx", mean.classifier.model, num_embeddings=VOCABULARY, max_length=MAX_LENGTH)
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("format", "failed")]
