"""What the scheduler works with: sources of trials, engines that run them, callbacks, and the messages of a trial."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from sentattn.errors import Interruption

if TYPE_CHECKING:
    from sentattn.sweep.execution.resources import Slot
    from sentattn.sweep.spec.plan import Plan
    from sentattn.config.search_space import Value

LOG = "log.txt"


@dataclass(frozen=True)
class TrialTask:
    """A trial to be run, as the process that runs it receives it.

    Attributes:
        number: Its number.
        values: What it tries, by key.
        arguments: Its command line for `python -m sentattn.train`.
        folder: Its run directory; one that holds a checkpoint is resumed.
        metrics: The objectives.
        repeats: Trainings, with consecutive seeds.
        study: The study that it is a trial of; None for a run of a grid.
        name: What messages call it; empty for its number.
        threads: CPU threads of its slot.
        devices: How many devices its slot has.
    """

    number: int
    values: Mapping[str, Value]
    arguments: Sequence[str]
    folder: Path
    metrics: Sequence[str]
    repeats: int = 1
    study: str | None = None
    name: str = ""
    threads: int = 1
    devices: int = 1


@dataclass(frozen=True)
class FirstBatch:
    """Training has begun; `epochs` is the largest number of epochs."""

    epochs: int | None


@dataclass(frozen=True)
class Report:
    """An epoch or a repeat has ended; the trial waits for the reply.

    Attributes:
        step: The epoch or repeat, from 1.
        value: The objective if the trial ended now; None where trials are not compared before their end.
    """

    step: int
    value: float | None


@dataclass(frozen=True)
class TrialOutcome:
    """How a trial ended.

    Attributes:
        values: Of the objectives, where it is complete.
        error: Why it failed.
        log_lines: The last lines of its log, where it failed.
        retry: Whether another attempt may succeed.
        diverged: Whether it failed because its objective, or its loss, was not finite.
        killed: Whether something else has ended its process: another attempt resumes from its checkpoint.
        lost: Whether it failed because its machine died: it is tried again, and this attempt does not count.
    """

    state: Literal["complete", "pruned", "failed"]
    values: Sequence[float] | None = None
    error: str = ""
    log_lines: Sequence[str] = ()
    retry: bool = False
    diverged: bool = False
    killed: bool = False
    lost: bool = False


Message: TypeAlias = FirstBatch | Report | TrialOutcome


class TrialSource(Protocol):
    """A study or a grid: assigns trials to the scheduler, and records how they end.

    Attributes:
        plan: Objectives, budget and limits.
        resumable: Whether a trial that is stopped after its step can be resumed later.
        failures: How many trials have failed in a row.
        best_values: Objectives of the best trials by number, the best first.
    """

    plan: Plan
    resumable: bool
    failures: int
    best_values: Mapping[int, Sequence[float]]

    def ask(self) -> TrialTask | None:
        """Returns the next trial; None if there is none now."""

    def report(self, number: int, step: int, value: float) -> bool:
        """Records what a trial has reached after a step; returns whether to prune it."""

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        """Records how a trial ended."""

    def interrupt(self, number: int) -> None:
        """Records that a trial ended with the scheduler: it is tried again, and this attempt does not count."""

    def tick(self) -> float | None:
        """Is called between events; returns the seconds after which to call it again, or None."""

    def running(self) -> int:
        """Returns how many trials run."""

    def elsewhere(self) -> int:
        """Returns how many trials other schedulers run; this one waits for them, and runs them again if those die."""

    def finished(self) -> int:
        """Returns how many trials are finished."""

    def ended(self) -> str:
        """Returns why no further trial is started, or an empty string."""


@dataclass
class RunningTrial:
    """A trial in a slot.

    Attributes:
        source: The study or grid that it is a trial of.
        since: When it was assigned to its slot, by `time.monotonic`.
        first_batch: When its first training batch began.
        epochs: The largest number of epochs.
        epoch: The last finished epoch or repeat.
        value: Its objective if it ended now; None where that is unknown.
        killed: Why the scheduler ended it; empty otherwise.
        stopped: Whether it was asked to stop after its step.
    """

    source: TrialSource
    task: TrialTask
    slot: Slot
    since: float = field(default_factory=time.monotonic)
    first_batch: float | None = None
    epochs: int | None = None
    epoch: int = 0
    value: float | None = None
    killed: str = ""
    stopped: bool = False

    @property
    def key(self) -> str:
        """A name that is unique among all running trials."""
        return f"{self.source.plan.study}/{self.task.number}"

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self.task.folder / LOG

    @property
    def deadline(self) -> float:
        """When it is late, by `time.monotonic`; never once it is being killed."""
        limit = self.source.plan.limit_minutes
        return self.since + limit * 60 if limit and not self.killed else float("inf")


class SweepCallback(Protocol):
    """Is called by the scheduler, in its only thread: what takes long belongs in a thread of the callback."""

    def started(self, trial: RunningTrial) -> None:
        """A trial was assigned to a slot."""
        return

    def ended(self, trial: RunningTrial, outcome: TrialOutcome) -> None:
        """A trial has ended, and the study has recorded it."""
        return

    def message(self, text: str) -> None:
        """Prints a message."""
        return

    def tick(self) -> float | None:
        """Is called between events; returns the seconds after which to call it again, or None."""


class Engine(AbstractContextManager["Engine"], Protocol):
    """Runs trials in separate processes. As a context manager it ends all of them on exit."""

    def prepare(self) -> None:
        """Prepares what all trials share.

        Raises:
            UserError: If no trial can be started, or the data is unusable.
        """

    def start(self, trial: RunningTrial) -> None:
        """Starts a trial."""

    def messages(self, seconds: float) -> Iterable[tuple[RunningTrial, Message]]:
        """Waits for messages of trials; the outcome of each comes last, after its process has ended."""

    def reply(self, trial: RunningTrial, *, prune: bool) -> None:
        """Answers a `Report`."""

    def stop(self, trial: RunningTrial) -> None:
        """Interrupts a trial, so that a training stops after its step."""

    def kill(self, trial: RunningTrial) -> None:
        """Ends a trial and all processes that it has started."""


class TrialConnection(Protocol):
    """The trial's end of its connection to the scheduler."""

    def send(self, message: Message) -> bool:
        """Sends a message; after a report it waits for the reply and returns whether the trial is to end here.

        Raises:
            Interruption: If the scheduler has ended: nothing would record the trial.
        """


class PipeConnection(TrialConnection):
    """A connection through a pipe or a socket of this machine."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, message: Message) -> bool:
        try:
            self._connection.send(message)
            return isinstance(message, Report) and bool(self._connection.recv())
        except (EOFError, OSError) as error:
            raise Interruption(signal.SIGTERM, "the scheduler of the study has ended") from error
