"""Starting a process for each device, and answering for all of them: signals, faults, and what is left of a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sentattn import errors, run
from sentattn.distributed import ranks
from sentattn.distributed.places import Place, on_this_machine
from sentattn.distributed.rank import FOLDER, RUN, TASK, said
from sentattn.errors import Interruption, RunError
from sentattn.training.resume.resuming import advice

GRACE = 10.0
"""Seconds in which ranks may end by themselves once one of them has died."""
SHOWN = 4000
"""Characters of what a process wrote before it died."""
TOLD = 2
ANSWERED = (0, 128 + signal.SIGINT, 128 + signal.SIGTERM)
"""Exit codes after a fault that was told, and after the end or a signal."""


def launch(
    settings: Mapping[str, Any], devices: int, *, resume: Path | None, directory: Path | None, study: str | None
) -> run.Run:
    """Trains with a process for each device of this machine, and returns the run.

    They are fresh processes, so this works from any program, also from one that has itself been forked.

    Args:
        settings: The resolved settings.
        devices: How many.
        resume: As `train` takes it, like the others.
        directory: Where the run is written.
        study: The study that the run is a trial of.

    Raises:
        UserError: As the training raises it, or if a process died.
        Interruption: If a signal ended it.
    """
    with tempfile.TemporaryDirectory(prefix="sentattn-") as name:
        folder = Path(name)
        task = {"settings": settings, "resume": resume, "directory": directory, "study": study}
        (folder / TASK).write_text(json.dumps(task, default=str), encoding="utf-8")
        processes = [_start(folder, place) for place in on_this_machine(devices)]
        try:
            with _forwarded(processes) as received:
                dead = _wait(processes)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return _outcome(folder, processes, dead, received)


def announce(path: Path) -> None:
    """Tells the launcher, if it was ours, which run is being trained."""
    if folder := os.environ.get(FOLDER):
        run.write_atomically(Path(folder) / RUN, str(path))


def _start(folder: Path, place: Place) -> subprocess.Popen[bytes]:
    searched = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    environment = {**os.environ, **place.environment(), FOLDER: str(folder), "PYTHONPATH": searched}
    environment.setdefault("OMP_NUM_THREADS", str(ranks.threads(place.local_world)))
    with open(os.devnull if place.rank == 0 else _errors(folder, place.rank), "wb") as unseen:
        return subprocess.Popen(
            [sys.executable, "-m", "sentattn.distributed.rank"],
            env=environment,
            stdin=subprocess.PIPE,  # it ends when this process does, however that comes about
            stdout=None if place.rank == 0 else subprocess.DEVNULL,
            stderr=None if place.rank == 0 else unseen,
            start_new_session=True,  # Ctrl-C reaches this process alone, which passes it on once
        )


@contextmanager
def _forwarded(processes: list[subprocess.Popen[bytes]]) -> Iterator[list[int]]:
    """While it is entered, a signal goes to all processes; the list takes in which came."""
    received: list[int] = []

    def forward(number: int, _: Any) -> None:
        received.append(number)
        for process in processes:
            process.send_signal(number)

    if threading.current_thread() is not threading.main_thread():  # Python allows no handlers there
        yield received
        return
    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait(processes: list[subprocess.Popen[bytes]]) -> int | None:
    """Waits until all have ended, and no longer than `GRACE` after a fault; returns the first that died of one."""
    until = float("inf")
    while any(process.poll() is None for process in processes) and time.monotonic() < until:
        if until == float("inf") and any(process.poll() not in (None, *ANSWERED) for process in processes):
            until = time.monotonic() + GRACE
        time.sleep(0.05)
    codes = [process.poll() for process in processes]
    return next((rank for rank, code in enumerate(codes) if code not in (None, TOLD, *ANSWERED)), None)


def _outcome(folder: Path, processes: list[subprocess.Popen[bytes]], dead: int | None, received: list[int]) -> run.Run:
    """Returns the run if rank 0 has finished it, and raises the error otherwise."""
    record = run.Run(Path((folder / RUN).read_text(encoding="utf-8"))) if (folder / RUN).exists() else None
    if processes[0].returncode == 0:
        assert record is not None, "a training that came to its end has a run"
        return run.load(record.path)
    told = [json.loads(file.read_text(encoding="utf-8")) for file in _said(folder, len(processes))]
    faults = sorted((one for one in told if "fault" in one), key=lambda one: one["sentences"][0].startswith(ranks.LOST))
    signals = [one["signal"] for one in told if "signal" in one] or received
    if signals:
        raise Interruption(signals[0], advice(record))
    if dead is None:
        raise getattr(errors, faults[0]["fault"])(*faults[0]["sentences"])
    code = processes[dead].returncode
    if code == 1 and dead > 0:
        print(_errors(folder, dead).read_text(encoding="utf-8", errors="replace")[-SHOWN:], file=sys.stderr)
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    raise RunError(f"Process {dead} of the {len(processes)} that train together {how}; {advice(record)}")


def _said(folder: Path, devices: int) -> list[Path]:
    return [file for rank in range(devices) if (file := said(folder, rank)).exists()]


def _errors(folder: Path, rank: int) -> Path:
    return folder / f"stderr-{rank}"
