"""How trials run: the interface of an engine, and the messages between a trial and the scheduler."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Protocol, TypeAlias

from sentattn.errors import Interruption
from sentattn.sweep.callbacks import RunningTrial


@dataclass(frozen=True)
class TrialTask:
    """What a trial has to do.

    Attributes:
        arguments: Its command line for `python -m sentattn.train`.
        values: What it tries, by key.
        repeats: Trainings, with consecutive seeds.
        directory: Its run directory.
        study: Name of the study.
        metrics: Of the objectives.
        threads: For computations on the CPU.
        devices: GPUs that train together.
    """

    arguments: Sequence[str]
    values: Mapping[str, Any]
    repeats: int
    directory: str
    study: str
    metrics: Sequence[str]
    threads: int
    devices: int

    @classmethod
    def of(cls, trial: RunningTrial) -> TrialTask:
        """Returns the task of a trial."""
        plan = trial.study.plan
        return cls(
            arguments=list(trial.arguments),
            values=dict(trial.values),
            repeats=plan.repeats,
            directory=str(trial.folder),
            study=plan.study,
            metrics=[objective.metric for objective in plan.objectives],
            threads=trial.slot.threads,
            devices=max(1, len(trial.slot.gpus)),
        )


@dataclass(frozen=True)
class Started:
    """The process of a trial has started; sent by the engine."""


@dataclass(frozen=True)
class FirstBatch:
    """Training has begun.

    Attributes:
        epochs: The maximum number of epochs.
        moment: When, by `time.monotonic`, which all processes of a machine share.
    """

    epochs: int | None
    moment: float


@dataclass(frozen=True)
class Report:
    """An epoch or a repeat has ended; the trial waits for the reply.

    Attributes:
        step: The epoch or repeat, from 1.
        value: The objective if the trial ended now; None where trials are not compared before their end.
        metrics: All metrics of this step.
    """

    step: int
    value: float | None
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Finished:
    """The last message of a trial that did not fail.

    Attributes:
        values: Of the objectives; None for a pruned trial.
    """

    values: Sequence[float] | None


@dataclass(frozen=True)
class Failed:
    """The last message of a trial that failed with an error of ours.

    Attributes:
        error: Its messages.
        retry: Whether another attempt may succeed.
    """

    error: str
    retry: bool


@dataclass(frozen=True)
class Exited:
    """The process of a trial has ended; sent by the engine, after all other messages of the trial.

    Attributes:
        code: Its exit code, or minus the signal that ended it.
        reason: Why there was no process, if there was none.
    """

    code: int
    reason: str = ""


Message: TypeAlias = Started | FirstBatch | Report | Finished | Failed | Exited


class Engine(Protocol):
    """Runs trials in processes of their own. As a context manager it ends all of them on exit."""

    def __enter__(self) -> Engine: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def start(self, trial: RunningTrial) -> None:
        """Starts a trial, at once or when the engine is ready; sends `Started` then."""

    def messages(self, timeout: float | None, wakeup: int) -> Iterable[tuple[RunningTrial, Message]]:
        """Waits for messages of trials.

        Args:
            timeout: Seconds; None waits for ever.
            wakeup: A file descriptor that becomes readable when a signal has arrived, which ends the wait.

        Raises:
            UserError: If no trial can be started, or the data that all trials share is unusable.
        """

    def reply(self, trial: RunningTrial, *, prune: bool) -> None:
        """Answers a `Report`."""

    def kill(self, trial: RunningTrial) -> None:
        """Ends a trial and all processes that it has started."""


class TrialConnection:
    """The trial's end of its connection to the scheduler.

    Args:
        connection: A duplex connection.

    Raises:
        Interruption: From every method, if the scheduler has ended: nothing would record the trial.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def first_batch(self, epochs: int | None) -> None:
        """Sends that training has begun."""
        self.relay(FirstBatch(epochs, time.monotonic()))

    def report(self, step: int, value: float | None, metrics: Mapping[str, float]) -> bool:
        """Sends the metrics of a step and returns whether the trial is to end here."""
        return self.relay(Report(step, value, dict(metrics)))

    def finish(self, values: Sequence[float] | None) -> None:
        """Sends the values of the objectives; None for a pruned trial."""
        self.relay(Finished(values))

    def fail(self, error: str, *, retry: bool) -> None:
        """Sends why the trial failed, and whether another attempt may succeed."""
        self.relay(Failed(error, retry))

    def relay(self, message: Message) -> bool:
        """Sends a message; after a report it waits for the reply and returns whether the trial is to end here."""
        try:
            self._connection.send(message)
            return isinstance(message, Report) and bool(self._connection.recv())
        except (EOFError, OSError) as error:
            raise Interruption(signal.SIGTERM, "the scheduler of the study has ended") from error
