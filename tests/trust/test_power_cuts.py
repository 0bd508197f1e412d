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


@pytest.mark.parametrize(
    ("name", "most"),
    [pytest.param("train", SHORT, marks=pytest.mark.slow)]
    + [pytest.param(name, LONG, marks=pytest.mark.trust) for name in ALONE],
)
def test_what_was_not_synced_is_not_believed(
    name: str, most: int, given_in: Path, library: Path, tmp_path: Path
) -> None:
    program = [sys.executable, str(HERE / "power_cuts.py"), name, str(given_in), str(tmp_path), str(most)]
    done = subprocess.run(program, env={**os.environ, "LD_PRELOAD": str(library)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["cuts"] == min(found["changes"], most) > 1
    print(f"{name}: {found}")
