"""The notebooks in `examples/`: they run from start to end, and what they show is kept with them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples").glob("*.ipynb"))
SECONDS = 600
LARGEST = 300_000


def kinds(cell: Any) -> set[str]:
    """What kinds of output a cell has, such as pictures and HTML; progress and warnings depend on the machine."""
    outputs = [output for output in cell.get("outputs", []) if output.get("name") != "stderr"]
    return {kind for output in outputs for kind in output.get("data", {output.output_type: ""})}


def test_number_of_notebooks() -> None:
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_outputs_are_stored_and_small(file: Path) -> None:
    cells = [cell for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]
    assert file.stat().st_size < LARGEST


@pytest.mark.slow
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebooks_run(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{Path('/usr/bin')}:{Path('/bin')}")
    notebook = nbformat.read(file, as_version=4)
    kept = [kinds(cell) for cell in notebook.cells]
    NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert [kinds(cell) for cell in notebook.cells] == kept
