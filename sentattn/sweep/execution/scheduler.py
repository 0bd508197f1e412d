"""The scheduler of one or several studies: assigns trials to free slots and records how they end."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import FrameType

from sentattn.console import plural
from sentattn.errors import Fault, Interruption, RunError
from sentattn.sweep.execution.interfaces import (
    Engine,
    FirstBatch,
    Message,
    Report,
    RunningTrial,
    SweepCallback,
    TrialOutcome,
    TrialSource,
)
from sentattn.sweep.execution.resources import Slot
from sentattn.training.signals import Signals

POLL = 0.5
"""Seconds between two looks for a signal."""
END = 15.0
"""Seconds that the end of a sweep may take after a second signal, such as while its database does not answer."""


@dataclass
class Scheduler:
    """Keeps every slot busy until the budgets are met; any process may die at any line, and the same command resumes.

    Trials of the studies with the fewest come first. A signal lets the trials of studies finish, and stops the runs of
    grids after their step, since these can be resumed.
    """

    studies: Sequence[TrialSource]
    slots: Sequence[Slot]
    engine: Engine
    callbacks: Sequence[SweepCallback]
    _running: dict[Slot, RunningTrial] = field(default_factory=dict, init=False)
    _ended: set[str] = field(default_factory=set, init=False)
    _error: RunError | None = field(default=None, init=False)

    def run(self) -> None:
        """Runs trials until the budgets are met.

        Raises:
            RunError: If too many trials have failed in a row, or a study cannot be written.
            UserError: If the data that all trials share is unusable.
            Interruption: If a signal ended it.
        """
        if all(study.ended() for study in self.studies):
            return
        with Signals():  # either ends the preparation
            self.engine.prepare()
        with StopSignals(resumable=all(study.resumable for study in self.studies)) as stop:
            with self.engine:
                is_stopping, due = False, math.inf
                self._assign(stop)
                while not stop.at_once and (self._running or self._is_waiting(stop)):
                    seconds = self._timeout()
                    due = min(due, time.monotonic() + seconds)
                    for trial, message in self.engine.messages(min(seconds, POLL)):
                        self._handle(trial, message)
                        due = 0.0
                    if stop.received is not None and not (is_stopping or stop.at_once):
                        is_stopping = True
                        self._stop()
                    self._kill_late()
                    # A study in a database is not asked more often, but before the end.
                    if time.monotonic() >= due or not (self._running or self._is_waiting(stop)):
                        due = math.inf
                        self._assign(stop)
            for trial in self._running.values():  # they have ended with the engine
                trial.source.interrupt(trial.task.number)
        if stop.received is not None:
            again = f"{plural(len(self._running), 'trial')} will be run again; " if self._running else ""
            raise Interruption(stop.received, f"{again}the same command resumes.")
        if self._error is not None:
            raise self._error

    def _is_waiting(self, stop: StopSignals) -> bool:
        """Whether other schedulers run trials, which may be this one's to try again."""
        return stop.received is None and self._error is None and any(study.elsewhere() for study in self.studies)

    def _assign(self, stop: StopSignals) -> None:
        """Assigns trials to free slots, those of the studies with the fewest first; says which studies have ended."""
        for slot in (slot for slot in self.slots if slot not in self._running and stop.received is None):
            studies = sorted(self.studies, key=lambda study: study.finished() + study.running())
            next_trial = next(((study, trial) for study in studies if (trial := study.ask())), None)
            if next_trial is None:
                break
            source, task = next_trial
            task = replace(task, threads=slot.threads, devices=max(1, len(slot.gpus)))
            self._running[slot] = RunningTrial(source, task, slot)
            self.engine.start(self._running[slot])
            self._notify("started", self._running[slot])
        for study in self.studies:
            if study.plan.study not in self._ended and (reason := study.ended()):
                self._ended.add(study.plan.study)
                self._notify("message", f"{study.plan.study}: {reason}.")

    def _handle(self, trial: RunningTrial, message: Message) -> None:
        match message:
            case FirstBatch():
                trial.first_batch, trial.epochs = time.monotonic(), message.epochs
            case Report(step, value):
                trial.epoch, trial.value = step, value
                prune = value is not None and trial.source.report(trial.task.number, step, value)
                self.engine.reply(trial, prune=prune)
            case TrialOutcome():
                source, is_stopped = trial.source, trial.stopped and message.state == "failed"
                del self._running[trial.slot]
                if is_stopped or message.lost:
                    source.interrupt(trial.task.number)
                else:
                    source.tell(trial.task.number, message)
                if not is_stopped:
                    self._notify("ended", trial, message)
                if source.failures >= source.plan.failures and self._error is None:
                    text = f"{source.failures} trials have failed in a row; the last one: {message.error}"
                    self._error = RunError(Fault("failures", "failed", text))

    def _timeout(self) -> float:
        """Returns the seconds until a trial is late, or a source or callback is due."""
        late = [max(0.0, trial.deadline - time.monotonic()) for trial in self._running.values()]
        ticks = [*(study.tick() for study in self.studies), *(callback.tick() for callback in self.callbacks)]
        return min([math.inf, *late, *(tick for tick in ticks if tick is not None)])

    def _stop(self) -> None:
        """Stops what can be resumed; nothing else is started."""
        for trial in self._running.values():
            if trial.source.resumable:
                trial.stopped = True
                self.engine.stop(trial)
        end = "stop after their step" if any(trial.stopped for trial in self._running.values()) else "finish"
        self._notify("message", f"No new trials; {len(self._running)} running ones {end}. Ctrl-C again ends at once.")

    def _kill_late(self) -> None:
        for trial in self._running.values():
            if time.monotonic() >= trial.deadline:
                trial.killed = f"it took longer than limit_minutes={trial.source.plan.limit_minutes:g}"
                self.engine.kill(trial)

    def _notify(self, event: str, *arguments: object) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(*arguments)


class StopSignals:
    """Ctrl-C once: no new trials. Twice, or SIGTERM: the end. Signals are noted while it is entered.

    `END` seconds after the second signal it raises `Interruption` wherever the scheduler waits.

    Args:
        resumable: Whether all trials stop soon by themselves, so that SIGTERM is as Ctrl-C.

    Attributes:
        received: The last signal, or None.
        at_once: Whether running trials are to be ended too.
    """

    def __init__(self, *, resumable: bool = False) -> None:
        self.resumable = resumable
        self.received: int | None = None
        self.at_once = False

    def __enter__(self) -> StopSignals:
        is_main = threading.current_thread() is threading.main_thread()  # Python allows handlers in no other thread
        handled = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM) if is_main else ()
        self._before = {number: signal.signal(number, self._receive) for number in handled}
        return self

    def __exit__(self, *_: object) -> None:
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGALRM and self.received is not None:
            raise Interruption(self.received, "the same command resumes.")
        self.at_once = (number == signal.SIGTERM and not self.resumable) or self.received is not None
        self.received = number
        if self.at_once:
            signal.setitimer(signal.ITIMER_REAL, END)
