"""What processes of jobs do in tests; each takes its folder, and the threads and devices of its slot."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from sentattn.errors import DataError, Fault, Interruption, SettingError, TrainingError

TOUCHED = [0]
"""What a job must not find changed by another."""


def end(folder: Path, how: str, *_: object) -> None:
    """Ends as its word says."""
    print("it prints", flush=True)
    match how:
        case "refuse":
            raise SettingError(Fault("x", "range", "x must be 2.")) from RuntimeError("within a library")
        case "data":
            raise DataError(Fault("data.path", "damaged", "There are no rows."))
        case "disk":
            try:
                raise OSError(28, "No space left on device")
            except OSError as error:
                raise TrainingError(Fault("", "unwritable", "It cannot be written.")) from error
        case "raise":
            raise ValueError("nothing works")
        case "exit":
            os.write(1, b"\xff torn")
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "interrupt":
            raise Interruption(signal.SIGTERM)


def hang(folder: Path, *_: object) -> None:
    """Starts a process, writes down both, and stays."""
    child = subprocess.Popen(["sleep", "600"])
    (folder / "server").write_text(str(os.getppid()))
    written = folder / "pids.part"
    written.write_text(f"{os.getpid()} {child.pid}")
    written.rename(folder / "pids")
    time.sleep(600)


def leave(folder: Path, *_: object) -> None:
    """Ends, and leaves a process that it has started."""
    (folder / "pids").write_text(str(subprocess.Popen(["sleep", "600"]).pid))


def leak(folder: Path, threads: int, devices: int) -> None:
    """Writes down what it finds, and changes all of it."""
    opened = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    found = {
        "arguments": [threads, devices],
        "touched": TOUCHED[0],
        "cwd": os.getcwd(),
        "environment": {name: os.environ.get(name) for name in ("LEAKED", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")},
        "color": "FORCE_COLOR" in os.environ,
        "random": random.random(),
        "handlers": [repr(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
        "blocked": [repr(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
        "files": sorted(os.readlink(file) for file in opened if os.path.lexists(file)),
        "session": os.getsid(0) == os.getpid(),
        "terminal": sys.stdout.isatty(),
    }
    (folder / "found.json").write_text(json.dumps(found))
    TOUCHED[0] += 1
    random.seed(0)
    os.environ["LEAKED"] = "yes"
    os.chdir("/")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
