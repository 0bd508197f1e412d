from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from portable_runs import write_run

from sentattn.export import __main__ as export
from sentattn.run import Run


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """Gives runs with these settings whose models are exported, each made once."""
    made: dict[tuple[str, ...], Run] = {}

    def give(*settings: str) -> Run:
        if settings not in made:
            run = write_run(tmp_path_factory.mktemp("run"), *settings)
            assert export.main([str(run.path), "format=onnx"]) == 0
            made[settings] = run
        return made[settings]

    return give


@pytest.fixture(scope="session")
def mean(exported: Callable[..., Run]) -> Run:
    """An exported run of the smallest variant."""
    return exported("model=mean")


@pytest.fixture
def folder(mean: Run) -> Path:
    """The folder of that export."""
    return mean.path / export.FOLDER
