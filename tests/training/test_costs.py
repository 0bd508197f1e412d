"""Memory and parameters, and the error where memory runs out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from sentattn.errors import TrainingError
from sentattn.training import costs


def test_the_peak_of_a_run_is_not_that_of_the_run_before() -> None:
    size = 200_000_000
    costs.reset_peak_memory()
    torch.ones(size, dtype=torch.uint8)
    before = costs.peak_memory_bytes()
    costs.reset_peak_memory()
    after = costs.peak_memory_bytes()
    assert before is not None
    assert after is not None
    assert before - after > 0.9 * size


def test_without_the_module_resource_there_is_no_peak(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.setattr(costs, "STATUS", tmp_path / "status")
    monkeypatch.setattr(costs, "CLEAR_PEAK", tmp_path / "none" / "clear_refs")
    costs.reset_peak_memory()
    assert costs.peak_memory_bytes() is None


def test_where_linux_does_not_show_it_the_peak_is_that_of_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(costs, "STATUS", tmp_path / "status")
    assert (costs.peak_memory_bytes() or 0) > 50e6


def test_a_gpus_memory_that_runs_out_is_explained() -> None:
    with pytest.raises(TrainingError) as caught, costs.explained_out_of_memory():
        raise torch.OutOfMemoryError("CUDA out of memory.")
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("data.batch_size", "resources")]


def test_main_memory_that_runs_out_is_explained() -> None:
    with pytest.raises(TrainingError) as caught, costs.explained_out_of_memory():
        torch.empty(1 << 56, dtype=torch.uint8)
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("data.batch_size", "resources")]


def test_another_error_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="shapes"), costs.explained_out_of_memory():
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
