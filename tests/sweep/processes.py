"""Processes of sweeps: started, waited for, and known to have ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PROGRAM = Path(__file__).with_name("fake_sweep.py")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pid: int) -> bool:
    """Waits until a process has ended; the limit only catches a hang."""
    until(lambda: not is_alive(pid), 120)
    return True


def start(folder: Path, trials: int, *words: str) -> subprocess.Popen[str]:
    """Starts a fake sweep as the leader of a process group, which Ctrl-C reaches as a whole."""
    searched = os.pathsep.join([*filter(None, sys.path), str(PROGRAM.parent)])
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder), str(trials), *words],
        env={**os.environ, "PYTHONPATH": searched},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def pids(folder: Path) -> list[int]:
    """The processes of all trials that have begun."""
    return [int(file.read_text()) for file in folder.glob("trials/*/pid")]


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def until(condition: Callable[[], object], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.005)
