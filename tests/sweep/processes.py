"""Processes of the sweep tests: started, waited for, and known to have ended."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("fake_sweep.py")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int) -> bool:
    """Waits until a process has ended; the limit only catches a hang."""
    until(lambda: not is_alive(pid), 120)
    return True


def start(folder: Path, trials: int, *overrides: str, **more: object) -> subprocess.Popen[str]:
    searched = os.pathsep.join([*filter(None, sys.path), str(PROGRAM.parent)])
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder), str(trials), *overrides],
        env={**os.environ, "PYTHONPATH": searched},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **more,  # type: ignore[call-overload]  # those of Popen
    )


def pids(folder: Path) -> list[int]:
    """The processes of all trials that have begun."""
    return [int(text) for file in folder.glob("trials/*/pid") if (text := file.read_text())]


def until(condition: Callable[[], object], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.005)


def when(condition: Any, act: Any) -> threading.Thread:
    """Does something as soon as a condition holds."""

    def watch() -> None:
        until(condition, 120)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread
