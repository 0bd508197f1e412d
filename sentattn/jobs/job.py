"""A job, the study or grid that it is from, and how it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sentattn.jobs.pool import JobProcess
from sentattn.jobs.slots import Slot

LOG = "log.txt"


@dataclass(frozen=True)
class Job:
    """A training to be run.

    Attributes:
        number: Its number in its study or grid.
        name: What messages call it.
        folder: Its run directory, which also holds its log.
        function: What its process calls, after `arguments` with the threads and the number of devices of its slot.
        values: What sets it apart, by key.
        metric: The metric that the table of running jobs shows.
    """

    number: int
    name: str
    folder: Path
    function: Callable[..., None]
    arguments: tuple[object, ...]
    values: Mapping[str, object]
    metric: str

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self.folder / LOG


class JobSource(Protocol):
    """A study or a grid, whose state is in its files.

    Attributes:
        name: What messages call it.
        total: How many jobs it finishes; None where that is open.
        limit_minutes: After which a job is killed.
        stops_at_signal: Whether a signal stops its jobs after their step, since they are resumed later; otherwise they
            finish.
    """

    name: str
    total: int | None
    limit_minutes: float | None
    stops_at_signal: bool

    def next(self) -> Job | None:
        """Returns the next job; None if there is none now."""

    def has_ended(self, job: Job, code: int, killed: str) -> str:
        """Records how a job has ended, of which its files say the rest; returns that in words.

        The first line is the result; further lines are those of the log of a job that failed.

        Args:
            job: The job.
            code: The exit code of its process.
            killed: Why the scheduler has ended it; empty otherwise.
        """

    def interrupt(self, job: Job) -> None:
        """Leaves a job that ended with the scheduler for the next time."""

    def over(self) -> str:
        """Returns why no further job is started, or an empty string."""

    def finished(self) -> int:
        """Returns how many jobs are finished, at any scheduler."""

    def elsewhere(self) -> int:
        """Returns how many jobs other schedulers run; this scheduler runs them again if those die."""

    def best(self) -> str:
        """Returns the best result so far in words, or an empty string."""


@dataclass(eq=False)
class RunningJob:
    """A job in a slot; `killed` says why the scheduler ended it, `stopped` whether it was asked to stop."""

    source: JobSource
    job: Job
    slot: Slot
    process: JobProcess
    since: float = field(default_factory=time.monotonic)
    killed: str = ""
    stopped: bool = False
