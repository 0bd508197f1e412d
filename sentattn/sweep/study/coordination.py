"""The schedulers of a study: which processes work on it, their heartbeats, and requests to stop.

A study in a file has one scheduler, which locks its folder. In a database a trial that runs is a reservation in the
study's budget, and Optuna's heartbeat is its lease: where that falls silent, any other scheduler ends the trial as
interrupted, and it is tried again. Times are those of the database.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import optuna
from optuna.storages import RDBStorage, fail_stale_trials
from optuna.trial import TrialState

from sentattn.config.types import Json
from sentattn.sweep.study.storage import SILENT, load, now

if TYPE_CHECKING:
    from sentattn.sweep.spec.plan import Plan

SIGN, SCHEDULER, STOPS = "scheduler ", "scheduler", "stops"
"""User attributes: of a study the heartbeat of each scheduler, by its number; of a trial the scheduler that runs it;
of a study how often it was asked to stop."""
LOCK = ".owner.lock"
"""In the folder of a study in a file: the lock of its scheduler."""
HEARTBEAT = 3.0
"""Seconds between two heartbeats of the scheduler of a study in a file."""


class Peer(NamedTuple):
    """A scheduler that works on a study: its number, its process, and how many trials it runs."""

    number: int
    host: str
    pid: int
    trials: int

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class SchedulerEntry:
    """This process as one of the schedulers of a study, which it has locked meanwhile.

    Attributes:
        number: Counts the schedulers of a study; 0 in a file, which has one.
        heartbeat: Seconds between two heartbeats.
    """

    def __init__(self, study: optuna.Study, storage: RDBStorage, plan: Plan) -> None:
        self._study, self._storage, self._url = study, storage, plan.storage
        self.heartbeat: float = plan.heartbeat if plan.storage else HEARTBEAT
        attrs = study.user_attrs
        numbers = [int(key.removeprefix(SIGN)) for key in attrs if key.startswith(SIGN) and plan.storage]
        self.number = max(numbers, default=-1) + 1
        self._stops: int = attrs.get(STOPS, 0)
        self._study_id = storage.get_study_id_from_name(study.study_name)
        self._trial_ids: dict[int, int] = {}
        self._sign()

    def reserve(self, number: int) -> None:
        """Assigns a new trial of a shared study to this process, with a first heartbeat."""
        if self._url:
            self._storage.record_heartbeat(self._trial_id(number))
            self._storage.set_trial_user_attr(self._trial_id(number), SCHEDULER, self.number)

    def beat(self, running: Iterable[int]) -> None:
        """Writes the heartbeats of this process and of its trials, and ends the trials of processes that are dead."""
        self._sign()
        if self._url:
            for number in running:
                self._storage.record_heartbeat(self._trial_id(number))
            fail_stale_trials(self._study)

    def has_begun(self, number: int) -> bool:
        """Returns whether the study has a trial of this number."""
        try:
            return self._trial_id(number) is not None
        except KeyError:
            return False

    def new_stops(self) -> int:
        """Returns how often a stop was asked for since the last call."""
        before, self._stops = self._stops, self._study.user_attrs.get(STOPS, 0)
        return self._stops - before

    def is_first(self) -> bool:
        """Whether this is the scheduler that began first of those that work on the study."""
        return self._url is None or all(peer.number >= self.number for peer in peers(self._study, self._url))

    def leave(self) -> None:
        """Notes that this process does not work on the study any more."""
        self._study.set_user_attr(f"{SIGN}{self.number}", None)

    def _sign(self) -> None:
        sign = {"process": identity(os.getpid()), "heartbeat": self.heartbeat, "seen": now(self._url)}
        self._study.set_user_attr(f"{SIGN}{self.number}", sign)

    def _trial_id(self, number: int) -> int:
        if number not in self._trial_ids:
            self._trial_ids[number] = self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
        return self._trial_ids[number]


def peers(study: optuna.Study, url: str | None) -> list[Peer]:
    """Returns the schedulers that work on a study: processes of this machine that run, others by their heartbeats."""
    attrs = study.user_attrs
    signs = {int(key.removeprefix(SIGN)): sign for key, sign in attrs.items() if key.startswith(SIGN) and sign}
    if not signs:
        return []
    trials = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    running = [trial.user_attrs.get(SCHEDULER, None if url else 0) for trial in trials]
    time = now(url)
    return [
        Peer(number, sign["process"]["host"], sign["process"]["pid"], running.count(number))
        for number, sign in sorted(signs.items())
        if (time - sign["seen"] < SILENT * sign["heartbeat"] if (runs := is_running(sign["process"])) is None else runs)
    ]


def working(folder: Path, url: str | None) -> list[Peer]:
    """Returns the schedulers that work on the study of a folder.

    Raises:
        RunError: If there is no study.
    """
    return peers(load(folder, url), url)


def stop(folder: Path, url: str | None) -> list[Peer]:
    """Asks the schedulers of a study to stop, as Ctrl-C does; a second time also ends their running trials.

    Returns:
        The schedulers that were asked.

    Raises:
        RunError: If there is no study.
    """
    study = load(folder, url)
    if asked := peers(study, url):
        study.set_user_attr(STOPS, study.user_attrs.get(STOPS, 0) + 1)
    return asked


def identity(pid: int) -> Json:
    """Returns the identity of a process of this machine: on Linux also its start, since numbers are used again."""
    started = machine = None
    with suppress(OSError):
        # Containers with one host name differ in their namespaces of processes, or run on different kernels.
        machine = f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return {"pid": pid, "host": socket.gethostname(), "machine": machine, "started": started}


def is_running(process: Json) -> bool | None:
    """Whether a process runs, by what `identity` returned of it; None where it is not known, as of another machine."""
    here = identity(process["pid"])
    is_known = here["machine"] is not None and process["machine"] == here["machine"]
    return bool(process["started"] == here["started"]) if is_known else None
