"""Random files, guided by coverage: each reader ends with rows or with a message."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import READERS

SECONDS = 60


@pytest.mark.trust
@pytest.mark.parametrize("name", READERS)
def test_a_reader_ends_with_rows_or_a_message(name: str, tmp_path: Path) -> None:
    program = [sys.executable, str(Path(__file__).with_name("fuzz.py")), name, str(SECONDS), str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True)
    crashes = [file.read_bytes() for file in tmp_path.glob("crash-*")]
    assert done.returncode == 0, f"{crashes}\n{done.stderr[-3000:]}"
    executed = next(line for line in done.stderr.splitlines() if "number_of_executed_units" in line)
    assert int(executed.split()[-1]) > SECONDS
    print(name, executed)
