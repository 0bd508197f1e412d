"""A study that is worked on: one `optuna.Study` in a database, which is all of its state.

Each step is written when it is taken, so that no finished trial is lost when a process dies: trials that were
running are tried again with their values under new numbers, and each finished trial is counted once.

In a shared database each scheduler asks for a trial while it holds the study for itself, so that the trials that run
anywhere are reservations in its budget. There every access is retried while the database is unreachable.
"""

from __future__ import annotations

import math
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from sentattn import run
from sentattn.console import plural
from sentattn.errors import RunError
from sentattn.sweep.execution.interfaces import TrialOutcome, TrialTask
from sentattn.sweep.spec.components import LARGEST_GRID, build_pruner, build_sampler
from sentattn.config.search_space import points, suggest
from sentattn.sweep.study import storage as storages
from sentattn.sweep.study.coordination import LOCK, SCHEDULER, SchedulerEntry
from sentattn.sweep.study.records import (
    ATTEMPT,
    DIVERGED,
    ERROR,
    RETRY_OF,
    RETRYABLE,
    TRIALS,
    Record,
    TrialCounts,
    continue_from,
    delete_large,
    front,
    is_finished,
    ranked,
    records,
)
from sentattn.sweep.study.resume import interrupt, open_study

if TYPE_CHECKING:
    from sentattn.sweep.spec.plan import Plan

T = TypeVar("T")
SECONDS, CONFIRMED = "seconds", "confirmed"
"""User attributes: how long a study was worked on, and which trial was confirmed last, with how many seeds."""
STATES = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
OTHER_DRAWS = 1_000_003
"""What makes schedulers of one study draw other values: more than it has trials."""


class SweepStudy:
    """A study that this process works on: in a file that it has locked, or in a database that several processes share.

    It is a `TrialSource`, whose methods are described there.

    Attributes:
        front: Numbers of the best trial, or with several objectives of the Pareto front.
    """

    resumable = False  # trials finish where a signal would stop runs of a grid

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self._running: dict[int, Trial] = {}
        self.failures = 0
        self.best_values: Mapping[int, Sequence[float]] = {}
        self.front: set[int] = set()
        self._storage = storages.open_storage(folder, plan.storage, heartbeat=plan.heartbeat)
        with self._exclusive():
            self._study = open_study(plan, self._storage, folder)
            self._entry = SchedulerEntry(self._study, self._storage, plan)
        by_points = plan.sampler["name"] in ("grid", "brute_force")
        self._points = points(plan.space, LARGEST_GRID) if by_points else None
        trials = self._read()
        self._study.sampler = build_sampler(plan, past=len(trials) + self._entry.number * OTHER_DRAWS)
        self._study.pruner = build_pruner(plan)
        self._noted = time.monotonic()
        self._began = self._noted - float(self._study.user_attrs.get(SECONDS, 0.0))
        folders = {path.name for path in (folder / TRIALS).glob("*")}
        finished = [trial.number for trial in trials if is_finished(trial)]
        self._keep_best([number for number in finished if str(number) in folders])

    @classmethod
    @contextmanager
    def open(cls, plan: Plan, folder: Path) -> Iterator[SweepStudy]:
        """Begins a study or resumes it: in `plan.storage`, or in its folder, which it locks.

        Raises:
            RunError: If another process works on it that may not, or it cannot be written.
            SettingError: If the stored study has another space, objective or fixed setting.
        """
        with ExitStack() as stack:
            with storages.writing(folder, plan.storage):
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(nullcontext() if plan.storage else run.lock(folder, LOCK))
                study = cls(plan, folder)
            try:
                yield study
            except BaseException:
                with suppress(RunError):  # it is the first error that is shown, and nothing waits
                    study._access(study._leave, wait=False)
                raise
            study._access(study._leave)

    def ask(self) -> TrialTask | None:
        return None if self.ended() else self._access(self._ask)

    def _ask(self) -> TrialTask | None:
        with self._exclusive():  # where it is lost, the trial is an orphan, and this is done again
            if self.plan.storage and not self._has_budget_by_number():
                self._end_orphans()
            if self.ended() or not self._has_budget():
                return None
            before = next(iter(self._counts.retries), None)
            if before is not None and before.state is not TrialState.WAITING:
                self._study.add_trial(retry_of(before))
            asked = self._study.ask()
            values = suggest(asked, self.plan.space)
            self._entry.reserve(asked.number)
        self._counts.begin(before)
        self._running[asked.number] = asked
        folder = self.folder / TRIALS / str(asked.number)
        if folder.exists():  # of a trial that the database has lost, as after a power cut
            folder.rename(f"{folder}-old-{secrets.token_hex(4)}")
        folder.mkdir(parents=True)
        if (retried := asked.user_attrs.get(RETRY_OF)) is not None:
            continue_from(self.folder / TRIALS / str(retried), folder)
        return TrialTask(
            asked.number,
            values,
            self.plan.trial_arguments(values),
            folder,
            metrics=[objective.metric for objective in self.plan.objectives],
            repeats=self.plan.repeats,
            study=self.plan.study,
        )

    def _has_budget_by_number(self) -> bool:
        """Whether fewer trials have begun anywhere than the budget has: true only if sure, in one short query.

        Those that are known to have failed do not count. A point that is left, or a trial to be tried again, needs all.
        """
        if self._counts.retries or self._points is not None:
            return False
        trials = self.plan.trials
        return trials is None or not self._entry.has_begun(trials + self._counts.failed - 1)

    def _end_orphans(self) -> None:
        """Ends what a scheduler began that died, or lost its connection, before the trial was its own."""
        running = [trial for trial in self._read() if trial.state is TrialState.RUNNING]
        running = [trial for trial in running if trial.number not in self._running]
        if orphans := [trial for trial in running if trial.user_attrs.get(SCHEDULER) in (None, self._entry.number)]:
            for trial in orphans:
                interrupt(self._study, self._storage, trial)
            self._read()

    def report(self, number: int, step: int, value: float) -> bool:
        if not math.isfinite(value):
            return False

        def work() -> bool:
            self._running[number].report(float(value), step)
            return bool(self._running[number].should_prune())

        try:
            return self._access(work)
        except UpdateFinishedTrialError:  # another scheduler took this one for dead, and tries the trial again
            return True

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        """Records how a trial ended; that it has ended is written last.

        A complete trial without finite objectives has failed. A failed one that may succeed is tried again. Where
        another scheduler took this one for dead and ended the trial, its outcome is left. To the sampler a trial that
        diverged is complete with the worst values seen, so that it learns where trials diverge.
        """
        if outcome.state == "complete" and not (outcome.values and all(map(math.isfinite, outcome.values))):
            error = "it ended without a finite value of its objective"
            outcome = TrialOutcome("failed", error=error, diverged=True)
        trial = self._running[number]
        worst = self._worst() if outcome.diverged else None

        def work() -> FrozenTrial:
            if outcome.state == "failed":
                with suppress(UpdateFinishedTrialError):
                    trial.set_user_attr(RETRYABLE, outcome.retry)
                    if worst:
                        trial.set_user_attr(DIVERGED, True)
                    # Last: without an error a trial was interrupted.
                    error = outcome.error or "it failed without a message"
                    trial.set_user_attr(ERROR, "\n".join([error, *outcome.log_lines]))
            values = outcome.values if outcome.state == "complete" else worst
            state = TrialState.COMPLETE if worst else STATES[outcome.state]
            return self._study.tell(trial, values, state, skip_if_finished=True)

        self._end(number, work)
        self.failures = self.failures + 1 if outcome.state == "failed" else 0
        resumes = outcome.killed and any(trial.number == number for trial in self._counts.retries)
        self._keep_best([*self.best_values, *([] if resumes else [number])])

    def _worst(self) -> list[float] | None:
        """Returns the worst value seen of each objective; None where nothing is known to be worse than the best."""
        columns = [*zip(*self._counts.complete.values(), strict=True)]
        if not any(min(column) != max(column) for column in columns):
            return None
        pairs = zip(self.plan.objectives, columns, strict=True)
        return [min(column) if objective.mode == "max" else max(column) for objective, column in pairs]

    def interrupt(self, number: int) -> None:
        trial = self._running[number]
        self._end(number, lambda: self._study.tell(trial, state=TrialState.FAIL, skip_if_finished=True))

    def _end(self, number: int, work: Callable[[], FrozenTrial]) -> None:
        self._counts.end(self._access(work))
        del self._running[number]

    def tick(self) -> float:
        """Writes the time and heartbeats at intervals."""
        if time.monotonic() - self._noted >= self._entry.heartbeat:
            self._access(self._note)
        return max(0.0, self._noted + self._entry.heartbeat - time.monotonic())

    def _note(self) -> None:
        self._noted = time.monotonic()
        self._study.set_user_attr(SECONDS, max(self._study.user_attrs.get(SECONDS, 0.0), self.seconds()))
        self._beat()
        if self.plan.storage:
            self._read()

    def _beat(self) -> None:
        self._entry.beat(self._running)
        for _ in range(self._entry.new_stops()):
            os.kill(os.getpid(), signal.SIGINT)  # reaches the main thread from any other

    def _leave(self) -> None:
        self._note()
        self._entry.leave()

    def elsewhere(self) -> int:
        return 0 if self.ended() else self._counts.running - len(self._running)

    def is_first(self) -> bool:
        """Whether this scheduler logs and confirms the study: the one that began first of those that work on it."""
        return self._access(self._entry.is_first)

    @contextmanager
    def confirming(self, number: int) -> Iterator[bool]:
        """Yields whether this scheduler is to confirm a trial, which the block then does; a thread writes heartbeats.

        A shared study records that it is done: the scheduler that is first now may be another one than before.
        """
        ended, confirmed = threading.Event(), [number, self.plan.confirm]

        def beat() -> None:
            while not ended.wait(self._entry.heartbeat):
                with suppress(RunError):  # the next one may reach the database
                    self._access(self._beat, wait=False)

        thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            attrs = self._access(lambda: self._study.user_attrs)
            is_due = self.plan.storage is None or attrs.get(CONFIRMED) != confirmed
            yield is_due
        finally:
            ended.set()
            thread.join()
        if is_due:
            self._access(lambda: self._study.set_user_attr(CONFIRMED, confirmed))

    def waiting(self) -> int:
        """Returns how many trials are to be tried again."""
        return len(self._counts.retries)

    def running(self) -> int:
        return len(self._running)

    def finished(self) -> int:
        """Returns how many trials count toward the budget: complete and pruned ones."""
        return self._counts.finished

    def seconds(self) -> float:
        """Returns how long the study was worked on, over all starts."""
        return time.monotonic() - self._began

    def ended(self) -> str:
        plan = self.plan
        if plan.trials is not None and self.finished() >= plan.trials:
            return f"{plural(self.finished(), 'trial')} finished"
        if not self._is_point_left() and not self._counts.running:
            return f"all {self._points} points of the space were tried"
        if plan.hours is not None and self.seconds() >= plan.hours * 3600:
            return f"the budget of {plan.hours:g} hours is used up"
        if self.failures >= plan.failures:
            return f"{self.failures} trials in a row have failed"
        return ""

    def records(self, *, wait: bool = True) -> list[Record]:
        """Returns all trials in the order in which they started.

        Raises:
            RunError: If they cannot be read; without `wait` as soon as the database does not answer.
        """
        return self._access(lambda: records(self._study), wait=wait)

    def best(self) -> list[Record]:
        """Returns the best trial, or with several objectives the Pareto front; none while none is complete."""
        return front(self.records(), self.plan.modes)

    def _read(self) -> list[FrozenTrial]:
        """Returns all trials, and counts them."""
        trials = self._study.get_trials(deepcopy=False)
        self._counts = TrialCounts.of(trials, self.plan.retries)
        return trials

    def _access(self, work: Callable[[], T], *, wait: bool = True) -> T:
        """Reads or writes the database."""
        with storages.writing(self.folder, self.plan.storage):
            return storages.retry_while_unreachable(work) if wait and self.plan.storage else work()

    def _exclusive(self) -> AbstractContextManager[None]:
        return storages.exclusive(self.plan.storage, self.plan.study)

    def _has_budget(self) -> bool:
        trials = self.plan.trials
        return self._is_point_left() and (trials is None or self._counts.finished + self._counts.running < trials)

    def _is_point_left(self) -> bool:
        return bool(self._counts.retries) or self._points is None or self._counts.tried < self._points

    def _keep_best(self, numbers: Iterable[int]) -> None:
        """Deletes checkpoints and models of the numbers that are not among the best; metrics and predictions stay."""
        ordered = ranked(self._counts.complete, self.plan.modes)
        self.best_values = {number: self._counts.complete[number] for number in ordered[: max(1, self.plan.keep)]}
        self.front = {*ordered[: None if len(self.plan.objectives) > 1 else 1]}
        for number in {*numbers}.difference(ordered[: self.plan.keep]):
            delete_large(self.folder / TRIALS / str(number))


def retry_of(trial: FrozenTrial) -> FrozenTrial:
    """Returns what tries a trial again, with all that is known of its values, so that one transaction adds it."""
    attempt = trial.user_attrs.get(ATTEMPT, 0) + (ERROR in trial.user_attrs)
    return create_trial(
        state=TrialState.WAITING,
        params=trial.params,
        distributions=trial.distributions,
        user_attrs={RETRY_OF: trial.number, ATTEMPT: attempt},
        system_attrs=trial.system_attrs,  # a trial that died before it had values may have its point of a grid there
    )
