from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
from untrained_runs import write_run

from sentattn.export import __main__ as export
from sentattn.prediction.model import LoadedRun


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., LoadedRun]:
    """Returns a function from settings to a run with an export; each is exported once in a session."""

    @functools.cache
    def run_of(*settings: str) -> LoadedRun:
        run = write_run(tmp_path_factory.mktemp("run"), *settings)
        assert export.main([str(run.path), "format=onnx"]) == 0
        return run

    return run_of


@pytest.fixture(scope="session")
def mean(exported: Callable[..., LoadedRun]) -> LoadedRun:
    """An exported run of the smallest variant."""
    return exported("model=mean")


@pytest.fixture
def folder(mean: LoadedRun) -> Path:
    """Its export."""
    return mean.path / export.ONNX
