"""A study in a database, which several schedulers may work on.

Each asks for a trial while it holds the study for itself, so that the trials that run anywhere are reservations in its
budget. Every access is retried while the database is unreachable.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from sentattn.errors import RunError
from sentattn.sweep.study import storage as storages
from sentattn.sweep.study.coordination import SCHEDULER, SchedulerEntry
from sentattn.sweep.study.resume import interrupt
from sentattn.sweep.study.study import SECONDS, SweepStudy

if TYPE_CHECKING:
    from sentattn.sweep.spec.plan import Plan

T = TypeVar("T")
CONFIRMED = "confirmed"
"""A study's attribute: the number of the trial that was confirmed last, and with how many seeds."""
OTHER_DRAWS = 1_000_003
"""What makes schedulers of one study draw other values: more than it has trials."""


def open_sweep(plan: Plan, folder: Path) -> AbstractContextManager[SweepStudy]:
    """Begins a study or resumes it: in `plan.storage`, or in its folder.

    Raises:
        RunError: If another process works on it that may not, or it cannot be written.
        SettingError: If the study there is about something else.
    """
    return (SharedStudy if plan.storage else SweepStudy).open(plan, folder)


class SharedStudy(SweepStudy):
    """A study that this process works on, with others or alone."""

    def _begin(self) -> optuna.Study:
        with self._exclusive():
            study = super()._begin()
            self._entry = SchedulerEntry(study, self._storage, self._url, self.plan.heartbeat)
            return study

    @property
    def _url(self) -> str:
        assert self.plan.storage is not None
        return self.plan.storage

    def _past(self, trials: int) -> int:
        return trials + self._entry.number * OTHER_DRAWS

    def _draw(self) -> tuple[Trial, dict[str, Any], FrozenTrial | None] | None:
        with self._exclusive():  # where it is lost, the trial is an orphan, and this is done again
            if not self._has_budget_by_number():
                self._end_orphans()
            drawn = super()._draw()
            if drawn:
                self._entry.reserve(drawn[0].number)
            return drawn

    def _has_budget_by_number(self) -> bool:
        """Whether fewer trials have begun anywhere than the budget has: true only if sure, in one short query.

        Those that are known to have failed do not count. A point that is left, or a trial to be tried again, needs all.
        """
        if self._counts.retries or self._points is not None:
            return False
        trials = self.plan.budget.trials
        return trials is None or not self._entry.has_begun(trials + self._failed - 1)

    def _end_orphans(self) -> None:
        """Ends what a scheduler began that died, or lost its connection, before the trial was its own."""
        running = [trial for trial in self._read() if trial.state is TrialState.RUNNING]
        running = [trial for trial in running if trial.number not in self._running]
        if orphans := [trial for trial in running if trial.user_attrs.get(SCHEDULER) in (None, self._entry.number)]:
            for trial in orphans:
                interrupt(self._study, self._storage, trial)
            self._read()

    def _read(self) -> list[FrozenTrial]:
        trials = super()._read()
        self._failed = sum(trial.state is TrialState.FAIL for trial in trials)
        return trials

    def tick(self) -> float:
        """Writes the time and heartbeats at intervals; returns the seconds until that is due."""
        if time.monotonic() - self._noted >= self.plan.heartbeat:
            self._access(self._note)
        return max(0.0, self._noted + self.plan.heartbeat - time.monotonic())

    def _note(self) -> None:
        self._noted = time.monotonic()
        self._study.set_user_attr(SECONDS, max(self._study.user_attrs.get(SECONDS, 0.0), self.seconds()))
        self._beat()
        self._read()

    def _beat(self) -> None:
        self._entry.beat(self._running)
        if self._entry.is_asked_to_stop():
            os.kill(os.getpid(), signal.SIGINT)  # reaches the main thread from any other

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Writes heartbeats from a thread while the block does something else than run trials."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(self.plan.heartbeat):
                with suppress(RunError), self._writing():  # the next one may reach the database
                    self._beat()

        thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    @contextmanager
    def confirming(self, number: int) -> Iterator[bool]:
        """Yields whether this scheduler is to confirm a trial, which the block then does.

        The study records that it is done: the scheduler that is first now may be another one than before.
        """
        confirmed = [number, self.plan.confirm]
        is_done = self._access(lambda: self._study.user_attrs.get(CONFIRMED)) == confirmed
        yield not is_done
        if not is_done:
            self._access(lambda: self._study.set_user_attr(CONFIRMED, confirmed))

    def _leave(self) -> None:
        super()._leave()
        self._entry.leave()

    def elsewhere(self) -> int:
        """Returns how many trials other schedulers run of a study that has not ended."""
        return 0 if self.ended() else self._counts.running - len(self._running)

    def is_first(self) -> bool:
        """Whether this scheduler logs and confirms the study: the one that began first of those that work on it."""
        return self._access(self._entry.is_first)

    def _access(self, work: Callable[[], T]) -> T:
        with self._writing():
            return storages.retry_while_unreachable(work)

    def _exclusive(self) -> AbstractContextManager[None]:
        return storages.exclusive(self._url, self.plan.study)
