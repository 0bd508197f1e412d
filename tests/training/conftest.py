"""A run to resume."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sentattn.run import Run


@pytest.fixture
def left(tiny_run: Run, tmp_path: Path) -> Path:
    """A run whose process was killed before it could write its result."""
    path = tmp_path / "left"
    shutil.copytree(tiny_run.path, path)
    (path / "result.json").unlink()
    return path
