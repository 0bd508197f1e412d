"""Commands are killed (-9) at random moments; the same command again ends with what it reaches without a kill."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from attempts import COMMANDS, ended, finish, given, kill, new_folder, start

SHORT, LONG = 3, 25


@pytest.fixture(scope="module")
def given_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return given(tmp_path_factory.mktemp("given"))


@pytest.mark.parametrize(
    ("name", "kills"),
    [pytest.param(name, SHORT, marks=pytest.mark.slow) for name in COMMANDS]
    + [pytest.param(name, LONG, marks=pytest.mark.trust) for name in COMMANDS],
)
def test_nothing_is_lost(name: str, kills: int, given_in: Path, tmp_path: Path) -> None:
    command, by_chance = COMMANDS[name], random.Random(f"{name} {kills}")
    began = time.monotonic()
    expected = finish(command, given_in, new_folder(command, given_in, tmp_path))
    seconds, starts = time.monotonic() - began, 0
    out = new_folder(command, given_in, tmp_path)
    while kills:
        pid = start(command, given_in, out)
        starts += 1
        code = ended(pid, by_chance.uniform(0, seconds))
        if code is None:
            kill(pid, group=by_chance.random() < 0.5)
            kills -= 1
        else:  # it was faster: begin anew
            assert finish(command, given_in, out) == expected
            out = new_folder(command, given_in, tmp_path)
    assert finish(command, given_in, out) == expected
    print(f"{name}: {starts} starts, {seconds:.1f} s each without a kill")
