"""A trial of milliseconds, without torch, that does what its arguments say."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from sentattn.errors import DataError, Fault
from sentattn.sweep.execution.interfaces import FirstBatch, Report, TrialConnection, TrialOutcome, TrialTask

STATE = {"touched": 0}
"""What a trial must not find changed by another."""


def preload(studies: Any) -> None:
    if studies == "refuse":
        raise DataError(Fault("data.path", "not_found", "There is no data."))
    if studies == "die":
        print("no module named nonsense")
        sys.exit(1)


def run(task: TrialTask, connection: TrialConnection) -> None:
    given = dict(word.split("=", 1) for word in task.arguments)
    directory = task.folder
    (directory / "server").write_text(str(os.getppid()))
    (directory / "pid").write_text(str(os.getpid()))
    act = given.get("act", "")
    print("acting", act, flush=True)
    connection.send(FirstBatch(3))
    value = float(given.get("x", 0))
    for epoch in range(1, int(given.get("epochs", 1)) + 1):
        time.sleep(float(given.get("sleep", 0)))
        if connection.send(Report(epoch, value)):
            connection.send(TrialOutcome("pruned"))
            return
    _act(act, directory, connection)
    (directory / "done").touch()
    connection.send(TrialOutcome("complete", [value]))


def _act(act: str, directory: Path, connection: TrialConnection) -> None:
    match act:
        case "once":  # the second attempt succeeds
            marker = directory.parent / "once"
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        case "raise":
            raise ValueError("nothing works")
        case "crash":
            os.write(1, b"\xff torn")
            os._exit(3)
        case "refuse":
            connection.send(TrialOutcome("failed", error="x must be 2."))
            os._exit(0)
        case "hang":
            time.sleep(600)
        case "leak":
            _leak(directory)
        case "torn":
            os.write(connection._connection.fileno(), b"\0\0\0\x40torn")  # the beginning of a message
            os._exit(0)
        case "child":
            pid = os.fork()
            if pid == 0:
                time.sleep(600)
            (directory / "child").write_text(str(pid))


def _leak(directory: Path) -> None:
    """Writes down what it finds, and changes all of it."""
    found = {
        "touched": STATE["touched"],
        "cwd": os.getcwd(),
        "variable": os.environ.get("LEAKED"),
        "pool": [name for name in ("SENTATTN_POOL", "JE_ARROW_MALLOC_CONF") if name in os.environ],
        "random": random.random(),
        "handlers": [repr(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
        "blocked": [repr(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
        "threads": len(os.listdir("/proc/self/task")),
        "files": sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)),
        "session": os.getsid(0) == os.getpid(),
        "omp": os.environ["OMP_NUM_THREADS"],
    }
    (directory / "found.json").write_text(json.dumps(found))
    STATE["touched"] += 1
    random.seed(0)
    os.environ["LEAKED"] = "yes"
    os.chdir("/")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _is_open(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")
