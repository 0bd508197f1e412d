"""The scheduler of one or several studies: assigns trials to free slots and records how they end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from sentattn.errors import Fault, Interruption, RunError
from sentattn.sweep.callbacks import RunningTrial, SweepCallback
from sentattn.sweep.engines import Engine, Exited, Failed, Finished, FirstBatch, Message, Report, Started
from sentattn.sweep.records import TrialOutcome
from sentattn.sweep.resources import Slot
from sentattn.sweep.study import SweepStudy

MINUTE = 60.0
LOG_LINES, LOG_TAIL = 5, 1 << 13
"""Lines of a trial's log that are kept of a failure, and bytes that are read for them."""


class Scheduler:
    """Keeps every slot busy until the budgets are met; any process may die at any line, and the same command resumes.

    Args:
        studies: Those with the fewest trials come first.
        slots: Where trials run.
        engine: Runs them.
        callbacks: Are called when something happens.
    """

    def __init__(
        self,
        studies: Sequence[SweepStudy],
        slots: Sequence[Slot],
        engine: Engine,
        callbacks: Sequence[SweepCallback],
    ) -> None:
        self._studies = studies
        self._slots = list(slots)
        self._engine = engine
        self._callbacks = callbacks
        self._running: dict[str, RunningTrial] = {}
        self._last: dict[str, Finished | Failed] = {}
        self._ended: set[str] = set()
        self._error: RunError | None = None

    def run(self) -> None:
        """Runs trials until the budgets are met.

        Raises:
            RunError: If too many trials have failed in a row, or a study cannot be written.
            UserError: If the data that all trials share is unusable.
            Interruption: If a signal ended it.
        """
        if all(study.ended() for study in self._studies):
            return
        with StopSignals() as stop:
            with self._engine:
                self._assign(stop)
                while self._running and not stop.at_once:
                    for trial, message in self._engine.messages(self._timeout(), stop.wakeup):
                        self._handle(trial, message)
                    if stop.is_new() and not stop.at_once:
                        count = f"{len(self._running)} running trial{'s' * (len(self._running) != 1)}"
                        self._notify("message", f"No new trials; waiting for {count}. Ctrl-C again ends at once.")
                    self._kill_late()
                    self._assign(stop)
            for trial in self._running.values():  # they have ended with the engine
                trial.study.interrupt(trial.number)
        if stop.received is not None:
            left = len(self._running)
            again = f"{left} trial{'s' * (left != 1)} will be run again; " if left else ""
            raise Interruption(stop.received, f"{again}the same command resumes.")
        if self._error is not None:
            raise self._error

    def _assign(self, stop: StopSignals) -> None:
        """Assigns trials to all free slots, as long as there are any."""
        for study in self._studies:
            if study.plan.study not in self._ended and (reason := study.ended()):
                self._ended.add(study.plan.study)
                self._notify("message", f"{study.plan.study}: {reason}.")
        while self._slots and stop.received is None and (trial := self._next()):
            self._running[trial.key] = trial
            self._engine.start(trial)
            self._notify("started", trial)

    def _next(self) -> RunningTrial | None:
        """Asks the studies for a trial, those with the fewest first."""
        for study in sorted(self._studies, key=lambda one: one.finished() + one.running()):
            if asked := study.ask():
                trial = RunningTrial(study, asked.number, asked.values, asked.arguments, self._slots.pop(0))
                _make_folder(trial.folder)
                return trial
        return None

    def _handle(self, trial: RunningTrial, message: Message) -> None:
        match message:
            case Started():
                trial.has_process, trial.since = True, time.monotonic()
            case FirstBatch():
                trial.first_batch, trial.epochs = message.moment, message.epochs
                self._notify("moved", trial, {})
            case Report():
                trial.epoch, trial.value = message.step, message.value
                prune = trial.value is not None and trial.study.report(trial.number, trial.epoch, trial.value)
                self._engine.reply(trial, prune=prune)
                self._notify("moved", trial, message.metrics)
            case Finished() | Failed():
                self._last[trial.key] = message
            case Exited():
                self._end(trial, outcome_of(trial, self._last.pop(trial.key, None), message))

    def _end(self, trial: RunningTrial, outcome: TrialOutcome) -> None:
        study = trial.study
        del self._running[trial.key]
        self._slots.append(trial.slot)
        study.tell(trial.number, outcome)
        self._notify("ended", trial, outcome)
        if study.failures >= study.plan.failures and self._error is None:
            message = f"{study.failures} trials have failed in a row; the last one: {outcome.error}"
            self._error = RunError(Fault("failures", "failed", message))

    def _timeout(self) -> float | None:
        """Returns the seconds until a trial is late, or something wants to be called again."""
        now = time.monotonic()
        waits = [max(0.0, one.since + limit * MINUTE - now) for one in self._running.values() if (limit := _limit(one))]
        ticks = [*(one.tick() for one in self._studies), *(one.tick() for one in self._callbacks)]
        return min([*waits, *(seconds for seconds in ticks if seconds is not None)], default=None)

    def _kill_late(self) -> None:
        for trial in self._running.values():
            limit = _limit(trial)
            if limit and time.monotonic() >= trial.since + limit * MINUTE:
                trial.killed = f"it took longer than limit_minutes={limit:g}"
                self._engine.kill(trial)

    def _notify(self, event: str, *arguments: Any) -> None:
        for callback in self._callbacks:
            getattr(callback, event)(*arguments)


class StopSignals:
    """Ctrl-C once: no new trials. Twice, or SIGTERM: the end. Signals are noted while it is entered.

    Attributes:
        received: The last signal, or None.
        at_once: Whether running trials are to be ended too.
        wakeup: A file descriptor that becomes readable with a signal.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.at_once = False
        self.wakeup, self._write = os.pipe()
        for end in (self.wakeup, self._write):
            os.set_blocking(end, False)

    def __enter__(self) -> StopSignals:
        self._before = {number: signal.signal(number, self._receive) for number in (signal.SIGINT, signal.SIGTERM)}
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self.wakeup)
        os.close(self._write)

    def is_new(self) -> bool:
        """Returns whether a signal has arrived since the last call."""
        try:
            return bool(os.read(self.wakeup, 1 << 10)) and self.received is not None
        except BlockingIOError:
            return False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.at_once = number == signal.SIGTERM or self.received is not None
        self.received = number


def outcome_of(trial: RunningTrial, last: Finished | Failed | None, exited: Exited) -> TrialOutcome:
    """Returns how a trial ended, from its last message and its exit code."""
    match last:
        case Finished(values=None):
            return TrialOutcome("pruned")
        case Finished():
            return TrialOutcome("complete", values=last.values)
        case Failed():
            return TrialOutcome("failed", error=last.error, retry=last.retry)
    error = trial.killed or exited.reason or _description(exited.code)
    return TrialOutcome("failed", error=error, log_lines=last_lines(trial.log), retry=True)


def last_lines(file: Path, count: int = LOG_LINES) -> list[str]:
    """Returns the last lines of a file that are not empty; bytes that are no text are replaced."""
    try:
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - LOG_TAIL))
            text = log.read().decode(errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def _description(code: int) -> str:
    if code == -signal.SIGKILL:
        return "it was killed (SIGKILL), as the system does when memory runs out"
    if code < 0:
        return f"it was killed ({signal.Signals(-code).name})"
    return f"it ended with exit code {code}" if code else "it ended without a result"


def _limit(trial: RunningTrial) -> float | None:
    """Returns the minutes that a trial may take; None before its process has started and once it is being killed."""
    return trial.study.plan.limit_minutes if trial.has_process and not trial.killed else None


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{folder} cannot be made ({error.strerror}). Free space, and the same command resumes."
        raise RunError(Fault("output_dir", "unwritable", message)) from error
