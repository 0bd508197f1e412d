"""A trial of milliseconds, without torch, that does what its arguments say."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentattn.errors import DataError
from sentattn.sweep.channel import Channel

STATE = {"touched": 0}
"""What a trial must not find changed by another."""


def warm(arguments: Any) -> None:
    if arguments == "refuse":
        raise DataError("There is no data.")
    if arguments == "die":
        sys.exit("no module named nonsense")


def run(task: Mapping[str, Any]) -> None:
    given = dict(word.split("=", 1) for word in task["arguments"])
    directory = Path(task["directory"])
    (directory / "pid").write_text(str(os.getpid()))
    act = given.get("act", "")
    print("acting", act, flush=True)
    with Channel(task["key"]) as channel:
        channel.begin(3, time.monotonic())
        value = float(given.get("x", 0))
        for epoch in range(1, int(given.get("epochs", 1)) + 1):
            time.sleep(float(given.get("sleep", 0)))
            if channel.report(epoch, value, {"val/accuracy": value}):
                channel.pruned()
                return
        _act(act, directory, channel)
        (directory / "done").touch()
        channel.complete([value])


def _act(act: str, directory: Path, channel: Channel) -> None:
    match act:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "once":  # the second try ends well
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
            channel.fail(["x=1 is not legal."], again=False)
            os._exit(0)
        case "hang":
            time.sleep(600)
        case "leak":
            _leak(directory)
        case "torn":
            channel._socket.sendall(b"no json\n[1]\n" + b'{"end": "complete", "values": [')
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
        "random": random.random(),
        "handlers": [repr(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
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
