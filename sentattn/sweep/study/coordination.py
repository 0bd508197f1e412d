"""The schedulers of a study: which processes work on it, their heartbeats, and requests to stop.

A study in a file has one scheduler, which locks its folder. In a database a trial that runs is a reservation in the
study's budget, and Optuna's heartbeat is its lease: where that falls silent, any other scheduler ends the trial as
interrupted, and it is tried again. Times are those of the database.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import optuna
from filelock import FileLock, Timeout
from optuna.storages import RDBStorage, fail_stale_trials
from optuna.trial import TrialState

from sentattn.errors import Fault, RunError
from sentattn.run import write_atomically
from sentattn.sweep.study.storage import SILENT, load, now

SIGN, SCHEDULER, STOPS = "scheduler ", "scheduler", "stops"
"""User attributes: of a study the heartbeat of each scheduler, by its number; of a trial the scheduler that runs it;
of a study how often it was asked to stop."""
LOCK, OWNER = ".owner.lock", "owner.json"
"""In the folder of a study in a file: the lock of its scheduler, and which process that is."""


class Process(TypedDict):
    """Identity of a process: its number, on Linux also its start time, since numbers are used again."""

    pid: int
    host: str
    machine: str | None
    started: str | None


@dataclass(frozen=True)
class Peer:
    """A scheduler that works on a study.

    Attributes:
        number: Counts the schedulers of a study in the order in which they began.
        trials: How many trials it runs.
    """

    number: int
    host: str
    pid: int
    trials: int

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class SchedulerEntry:
    """This process as one of the schedulers of a study.

    Args:
        study: The study, which this process has locked meanwhile.
        storage: Where it is.
        url: The same as a URL.
        heartbeat: Seconds between two heartbeats.
    """

    def __init__(self, study: optuna.Study, storage: RDBStorage, url: str, heartbeat: int) -> None:
        self._study, self._storage, self._url, self._heartbeat = study, storage, url, heartbeat
        attrs = study.user_attrs
        numbers = [int(key.removeprefix(SIGN)) for key in attrs if key.startswith(SIGN)]
        self.number = max(numbers, default=-1) + 1
        self._stops: int = attrs.get(STOPS, 0)
        self._study_id = storage.get_study_id_from_name(study.study_name)
        self._trial_ids: dict[int, int] = {}
        self._sign()

    def reserve(self, number: int) -> None:
        """Assigns a new trial to this process, with a first heartbeat."""
        self._storage.record_heartbeat(self._trial_id(number))
        self._storage.set_trial_user_attr(self._trial_id(number), SCHEDULER, self.number)

    def beat(self, running: Iterable[int]) -> None:
        """Writes the heartbeats of this process and of its trials, and ends the trials of processes that are dead."""
        for number in running:
            self._storage.record_heartbeat(self._trial_id(number))
        self._sign()
        fail_stale_trials(self._study)

    def has_begun(self, number: int) -> bool:
        """Returns whether the study has a trial of this number."""
        try:
            return self._trial_id(number) is not None
        except KeyError:
            return False

    def is_asked_to_stop(self) -> bool:
        """Returns whether a stop was asked for since the last call."""
        before, self._stops = self._stops, self._study.user_attrs.get(STOPS, 0)
        return self._stops > before

    def is_first(self) -> bool:
        """Whether this is the scheduler that began first of those that work on the study."""
        return all(peer.number >= self.number for peer in peers(self._study, self._url))

    def leave(self) -> None:
        """Notes that this process does not work on the study any more."""
        self._study.set_user_attr(f"{SIGN}{self.number}", None)

    def _sign(self) -> None:
        sign = {"process": identity(os.getpid()), "heartbeat": self._heartbeat, "seen": now(self._url)}
        self._study.set_user_attr(f"{SIGN}{self.number}", sign)

    def _trial_id(self, number: int) -> int:
        if number not in self._trial_ids:
            self._trial_ids[number] = self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
        return self._trial_ids[number]


def peers(study: optuna.Study, url: str) -> list[Peer]:
    """Returns the schedulers that work on a study, by their last heartbeats, without this host's dead processes."""
    attrs = study.user_attrs
    signs = {int(key.removeprefix(SIGN)): sign for key, sign in attrs.items() if key.startswith(SIGN) and sign}
    if not signs:
        return []
    trials = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    running = [trial.user_attrs.get(SCHEDULER) for trial in trials]
    seen = now(url)
    return [
        Peer(number, sign["process"]["host"], sign["process"]["pid"], running.count(number))
        for number, sign in sorted(signs.items())
        if seen - sign["seen"] < SILENT * sign["heartbeat"] and not has_ended(sign["process"])
    ]


def working(folder: Path, url: str | None) -> list[Peer]:
    """Returns the schedulers that work on the study of a folder; of a file only one of this machine is known.

    Raises:
        RunError: If there is no study.
    """
    study = load(folder, url)
    if url is not None:
        return peers(study, url)
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    return [Peer(0, socket.gethostname(), pid, len(running))] if (pid := owner(folder)) else []


def stop(folder: Path, url: str | None) -> list[Peer]:
    """Asks the schedulers of a study to stop, as Ctrl-C does; a second time also ends their running trials.

    Returns:
        The schedulers that were asked.

    Raises:
        RunError: If there is no study.
    """
    asked = working(folder, url)
    if url is None:
        for peer in asked:
            os.kill(peer.pid, signal.SIGINT)
    elif asked:
        study = load(folder, url)
        study.set_user_attr(STOPS, study.user_attrs.get(STOPS, 0) + 1)
    return asked


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds a study's folder for this process; the system releases it when the process dies.

    Raises:
        RunError: If another process holds it, with its ID.
    """
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        stop = f"`python -m sentattn.sweep stop {shlex.quote(folder.name)}` stops it"
        message = f"{folder} is in use by process {owner(folder) or 'unknown'}; {stop}."
        raise RunError(Fault("study", "busy", message)) from error
    try:
        write_atomically(folder / OWNER, json.dumps(identity(os.getpid())) + "\n")
        yield
    finally:
        (folder / OWNER).unlink(missing_ok=True)
        lock.release()


def owner(folder: Path) -> int | None:
    """Returns the ID of the process of this machine that works on a study, or None, without taking its lock."""
    try:
        content = json.loads((folder / OWNER).read_text(encoding="utf-8"))
        pid: int = content["pid"]
        os.kill(pid, 0)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if content == identity(pid) else None


def identity(pid: int) -> Process:
    """Returns the identity of a process of this machine."""
    started = machine = None
    with suppress(OSError):
        # Containers with one host name differ in their namespaces of processes, or run on different kernels.
        machine = f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return {"pid": pid, "host": socket.gethostname(), "machine": machine, "started": started}


def has_ended(process: Process) -> bool:
    """Whether a process, by what `identity` returned of it, is one of this machine and runs no more."""
    now = identity(process["pid"])
    return now["machine"] is not None and process["machine"] == now["machine"] and process["started"] != now["started"]
