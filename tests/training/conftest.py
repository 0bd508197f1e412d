"""A run to resume."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def left(run_copy: Path) -> Path:
    """A run whose process was killed before it could write its result."""
    (run_copy / "result.json").unlink()
    return run_copy
