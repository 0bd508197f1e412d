"""The power is cut at the changes that a command makes to its folder: what was not synced is gone (`power.c`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attempts import COMMANDS, given

HERE = Path(__file__).parent
SHORT, LONG = 4, 60


@pytest.fixture(scope="module")
def given_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return given(tmp_path_factory.mktemp("given"))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("library") / "power.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(file), str(HERE / "power.c"), "-ldl"], check=True)
    return file


ALONE = [name for name, command in COMMANDS.items() if "slots=2" not in command.words]
"""Commands that write in one process."""


NO_SYNC = "import os, sys; os.fsync = lambda fd: None; import power_cuts; power_cuts.main(*sys.argv[2:])"


def cuts(
    name: str, most: int, given_in: Path, library: Path, folder: Path, *python: str
) -> subprocess.CompletedProcess[str]:
    """Runs power_cuts.py."""
    program = [sys.executable, *python, str(HERE / "power_cuts.py"), name, str(given_in), str(folder), str(most)]
    return subprocess.run(
        program, env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": str(HERE)}, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("name", "most"),
    [pytest.param("train", SHORT, marks=pytest.mark.slow)]
    + [pytest.param(name, LONG, marks=pytest.mark.trust) for name in ALONE],
)
def test_what_was_not_synced_is_not_believed(
    name: str, most: int, given_in: Path, library: Path, tmp_path: Path
) -> None:
    done = cuts(name, most, given_in, library, tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["cuts"] == min(found["changes"], most) > 1
    print(f"{name}: {found}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["predict", "export"])
def test_a_command_that_syncs_nothing_fails(name: str, given_in: Path, library: Path, tmp_path: Path) -> None:
    done = cuts(name, 1, given_in, library, tmp_path, "-c", NO_SYNC)
    assert "cut after its end" in done.stderr
