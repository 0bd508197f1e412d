"""Two trained runs and an explorer of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tiny import tiny

from sentattn import fit
from sentattn.explore.server import Explorer, load_models, read_rows
from sentattn.prediction.model import LoadedRun


@pytest.fixture(scope="session")
def outputs(tiny_run: LoadedRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of `structured` and one of `transformer`, both tested on the demo corpus."""
    folder = tmp_path_factory.mktemp("outputs")
    shutil.copytree(tiny_run.path, folder / "demo" / "structured" / tiny_run.path.name)
    unused = {"model.attention.hidden"}
    settings = [one for one in tiny("model=transformer", f"output_dir={folder}") if one.partition("=")[0] not in unused]
    fit(settings)
    for file in folder.glob("**/result.json"):  # the order of the models
        result = json.loads(file.read_text())
        result["metrics"]["val/accuracy"] = 0.9 if result["model"] == "structured" else 0.8
        file.write_text(json.dumps(result))
    return folder


@pytest.fixture(scope="session")
def explorer(outputs: Path) -> Explorer:
    """An explorer of both."""
    models, faults = load_models([outputs])
    rows, more = read_rows(models, "test")
    assert not [*faults, *more]
    return Explorer(models, rows)
