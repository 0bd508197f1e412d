"""How trials run: the interface of an engine, the messages of a trial, and why one has sent no result."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol, TypeAlias

from sentattn.errors import Interruption
from sentattn.sweep.execution.callbacks import RunningTrial
from sentattn.sweep.execution.trial_source import TrialOutcome


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
        metrics: All metrics of this step.
    """

    step: int
    value: float | None
    metrics: Mapping[str, float]


Message: TypeAlias = FirstBatch | Report | TrialOutcome


class Engine(AbstractContextManager["Engine"], Protocol):
    """Runs trials in processes of their own. As a context manager it ends all of them on exit."""

    def prepare(self) -> None:
        """Prepares what all trials share.

        Raises:
            UserError: If no trial can be started, or the data is unusable.
        """

    def start(self, trial: RunningTrial) -> None:
        """Starts a trial."""

    def messages(self, timeout: float | None, wakeup: int) -> Iterable[tuple[RunningTrial, Message]]:
        """Waits for messages of trials; the outcome of each comes last, after its process has ended.

        Args:
            timeout: Seconds; None waits for ever.
            wakeup: A file descriptor that becomes readable when a signal has arrived, which ends the wait.
        """

    def reply(self, trial: RunningTrial, *, prune: bool) -> None:
        """Answers a `Report`."""

    def stop(self, trial: RunningTrial) -> None:
        """Sends a trial SIGTERM, so that a training stops after its step."""

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
        """Sends a message; see `TrialConnection.send`."""
        try:
            self._connection.send(message)
            return isinstance(message, Report) and bool(self._connection.recv())
        except (EOFError, OSError) as error:
            raise Interruption(signal.SIGTERM, "the scheduler of the study has ended") from error


SERVER_DIED = 255
"""Exit code that `multiprocessing` gives to the processes of a server that has died."""
LOG_LINES, LOG_TAIL = 5, 1 << 13
"""Lines of a trial's log that are kept of a failure, and bytes that are read for them."""


def exited(trial: RunningTrial, code: int) -> TrialOutcome:
    """Returns the outcome of a trial whose process has ended without it."""
    outcome = failed(trial, exit_reason(code))
    return replace(outcome, killed=outcome.retry and (code < 0 or code == SERVER_DIED))


def failed(trial: RunningTrial, reason: str, *, lost: bool = False) -> TrialOutcome:
    """Returns the outcome of a trial that has sent none; why the scheduler ended it comes before other reasons.

    One that took too long would take as long again.
    """
    lines, retry = last_lines(trial.log), not trial.killed
    return TrialOutcome("failed", error=trial.killed or reason, log_lines=lines, retry=retry, lost=lost)


def exit_reason(code: int) -> str:
    """Returns what an exit code says of a process that has sent no outcome."""
    if code == SERVER_DIED:
        return "the process that had started it has died"
    if code == -signal.SIGKILL:
        return "it was killed (SIGKILL), as the system does when memory runs out"
    if code < 0:
        return f"it was killed ({signal.Signals(-code).name})"
    return f"it ended with exit code {code}" if code else "it ended without a result"


def last_lines(file: Path) -> list[str]:
    """Returns the last lines of a file that are not empty; bytes that are no text are replaced."""
    try:
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - LOG_TAIL))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return [line.rstrip() for line in lines if line.strip()][-LOG_LINES:]
