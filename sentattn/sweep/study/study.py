"""A study that is worked on: one `optuna.Study` in a database, which is all of its state.

Each step is written when it is taken, so that no finished trial is lost when a process dies: trials that were
running are tried again with their values under new numbers, and each finished trial is counted once.

In a shared database each scheduler asks for a trial while it holds the study for itself, so that the trials that run
anywhere are reservations in its budget. There every access is retried while the database is unreachable.
"""

from __future__ import annotations

import itertools
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from sentattn.errors import RunError
from sentattn.sweep.execution.interfaces import TrialOutcome, TrialTask
from sentattn.sweep.spec.components import LARGEST_GRID, build_pruner, build_sampler
from sentattn.sweep.spec.search_space import points, suggest
from sentattn.sweep.study import storage as storages
from sentattn.sweep.study.budget import TrialCounts, is_finished
from sentattn.sweep.study.coordination import SCHEDULER, SchedulerEntry, locked
from sentattn.sweep.study.records import (
    ATTEMPT,
    DIVERGED,
    ERROR,
    RETRY_OF,
    RETRYABLE,
    TRIALS,
    Record,
    best,
    continue_from,
    delete_large,
    ranked,
    records,
)
from sentattn.sweep.study.resume import interrupt, open_study

if TYPE_CHECKING:
    from sentattn.sweep.spec.plan import Plan
    from sentattn.sweep.spec.search_space import Value

T = TypeVar("T")
SECONDS, CONFIRMED = "seconds", "confirmed"
"""User attributes: how long a study was worked on, and which trial was confirmed last, with how many seeds."""
STATES = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
NOTE_SECONDS = 5.0
"""Between two notes of the time on disk."""
OTHER_DRAWS = 1_000_003
"""What makes schedulers of one study draw other values: more than it has trials."""


def open_sweep(plan: Plan, folder: Path) -> AbstractContextManager[SweepStudy]:
    """Begins a study or resumes it: in `plan.storage`, or in its folder; see `SweepStudy.open`."""
    return (SharedStudy if plan.storage else SweepStudy).open(plan, folder)


class SweepStudy:
    """A study that this process works on, in a file that it has locked.

    Attributes:
        best_values: Objectives of the best trials by number, the best first; those that keep their checkpoints.
        failures: How many trials have failed since the last that did not.
        resumable: False, since the trials of a study finish where a signal would stop runs of a grid.
    """

    resumable = False
    _place = 0  # among the schedulers of the study

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        storages.recorded(folder, plan.storage, plan.study)  # refuses before anything is created
        heartbeat = plan.heartbeat if plan.storage else None
        self._storage = storages.open_storage(folder, plan.storage, heartbeat=heartbeat)
        self._running: dict[int, Trial] = {}
        self.failures = 0
        self.best_values: dict[int, Sequence[float]] = {}
        self._study = self._begin()
        by_points = plan.sampler["name"] in ("grid", "brute_force")
        self._points = points(plan.space, LARGEST_GRID) if by_points else None
        trials = self._read()
        self._study.sampler = build_sampler(plan, past=len(trials) + self._place * OTHER_DRAWS)
        self._study.pruner = build_pruner(plan)
        self._interval = heartbeat or NOTE_SECONDS
        self._noted = time.monotonic()
        self._began = self._noted - float(self._study.user_attrs.get(SECONDS, 0.0))
        folders = {path.name for path in (self.folder / TRIALS).glob("*")}
        finished = [trial.number for trial in trials if is_finished(trial)]
        self._keep_best([number for number in finished if str(number) in folders])

    @classmethod
    @contextmanager
    def open(cls, plan: Plan, folder: Path) -> Iterator[SweepStudy]:
        """Begins a study or resumes it, and holds its folder.

        Raises:
            RunError: If another process works on it that may not, or it cannot be written.
            SettingError: If the stored study has another space, objective or fixed setting.
        """
        with ExitStack() as stack:
            with storages.writing(folder, plan.storage):
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(folder) if plan.storage is None else nullcontext())
                study = cls(plan, folder)
            try:
                yield study
            except BaseException:
                with suppress(RunError), study._writing():  # it is the first error that is shown, and nothing waits
                    study._leave()
                raise
            study._access(study._leave)

    def ask(self) -> TrialTask | None:
        """Returns the next trial; None if there is none now, since those that run may fill the budget.

        A trial that is tried again comes first.
        """
        return None if self.ended() else self._access(self._ask)

    def _ask(self) -> TrialTask | None:
        drawn = self._draw()
        if drawn is None:
            return None
        asked, values, before = drawn
        self._counts.begin(before)
        self._running[asked.number] = asked
        folder = self.folder / TRIALS / str(asked.number)
        if folder.exists():  # of a trial that the database has lost, as after a power cut
            folder.rename(next(old for n in itertools.count() if not (old := Path(f"{folder}-old{n or ''}")).exists()))
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

    def _draw(self) -> tuple[Trial, dict[str, Value], FrozenTrial | None] | None:
        """Returns a new trial, its values, and the one that it tries again; None where the budget has none left."""
        if self.ended() or not self._has_budget():
            return None
        before = next(iter(self._counts.retries), None)
        if before is not None and before.state is not TrialState.WAITING:
            self._study.add_trial(retry_of(before))
        asked = self._study.ask()
        return asked, suggest(asked, self.plan.space), before

    def report(self, number: int, step: int, value: float) -> bool:
        """Records the first objective after an epoch, or a repeat, from 1; returns whether to end the trial."""
        if not math.isfinite(value) or len(self.plan.objectives) > 1:
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
                    trial.set_user_attr(ERROR, outcome.report or "it failed without a message")
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
        """Ends a running trial together with the sweep: it is tried again, and this attempt does not count."""
        trial = self._running[number]
        self._end(number, lambda: self._study.tell(trial, state=TrialState.FAIL, skip_if_finished=True))

    def _end(self, number: int, work: Callable[[], FrozenTrial]) -> None:
        self._counts.end(self._access(work))
        del self._running[number]

    def tick(self) -> float:
        """Writes the time, and heartbeats, at intervals; returns the seconds until that is due."""
        if time.monotonic() - self._noted >= self._interval:
            self._access(self._note)
        return max(0.0, self._noted + self._interval - time.monotonic())

    def _note(self) -> None:
        self._noted = time.monotonic()
        self._study.set_user_attr(SECONDS, max(self._study.user_attrs.get(SECONDS, 0.0), self.seconds()))

    def _leave(self) -> None:
        self._note()

    def elsewhere(self) -> int:
        """Returns how many trials other schedulers run of a study that has not ended."""
        return 0 if self.ended() else self._counts.running - len(self._running)

    def is_first(self) -> bool:
        """Whether this scheduler logs and confirms the study: the one that began first of those that work on it."""
        return True

    def alive(self) -> AbstractContextManager[None]:
        """Writes heartbeats while the block does something else than run trials."""
        return nullcontext()

    @contextmanager
    def confirming(self, number: int) -> Iterator[bool]:
        """Yields whether this scheduler is to confirm a trial, which the block then does.

        A shared study records that it is done: the scheduler that is first now may be another one than before.
        """
        yield True

    def waiting(self) -> int:
        """Returns how many trials are to be tried again."""
        return len(self._counts.retries)

    def running(self) -> int:
        """Returns how many trials run."""
        return len(self._running)

    def finished(self) -> int:
        """Returns how many trials count toward the budget: complete and pruned ones."""
        return self._counts.finished

    def seconds(self) -> float:
        """Returns how long the study was worked on, over all starts."""
        return time.monotonic() - self._began

    def ended(self) -> str:
        """Returns why no further trial is started, or an empty string."""
        budget = self.plan.budget
        if budget.trials is not None and self.finished() >= budget.trials:
            return "1 trial is finished" if self.finished() == 1 else f"{self.finished()} trials are finished"
        if not self._is_point_left() and not self._counts.running:
            return f"all {self._points} points of the space were tried"
        if budget.hours is not None and self.seconds() >= budget.hours * 3600:
            return f"the budget of {budget.hours:g} hours is used up"
        if self.failures >= self.plan.failures:
            return f"{self.failures} trials in a row have failed"
        return ""

    def records(self, *, wait: bool = True) -> list[Record]:
        """Returns all trials in the order in which they started.

        Args:
            wait: Whether to wait for a database that does not answer.

        Raises:
            RunError: If it cannot be read.
        """
        if wait:
            return self._access(lambda: records(self._study))
        with self._writing():
            return records(self._study)

    def best(self) -> list[Record]:
        """Returns the best trial, or with several objectives the Pareto front; none while none is complete."""
        return best(self.records(), [objective.mode for objective in self.plan.objectives])

    def _begin(self) -> optuna.Study:
        return open_study(self.plan, self._storage, self.folder)

    def _read(self) -> list[FrozenTrial]:
        """Returns all trials, and counts them."""
        trials = self._study.get_trials(deepcopy=False)
        self._counts = TrialCounts.of(trials, self.plan.retries)
        self._front: dict[int, Sequence[float]] | None = None
        return trials

    def _access(self, work: Callable[[], T]) -> T:
        """Reads or writes the database."""
        with self._writing():
            return storages.retry_while_unreachable(work) if self.plan.storage else work()

    def _writing(self) -> AbstractContextManager[None]:
        return storages.writing(self.folder, self.plan.storage)

    def _has_budget(self) -> bool:
        trials = self.plan.budget.trials
        return self._is_point_left() and (trials is None or self._counts.finished + self._counts.running < trials)

    def _is_point_left(self) -> bool:
        return bool(self._counts.retries) or self._points is None or self._counts.tried < self._points

    def _keep_best(self, numbers: Sequence[int]) -> None:
        """Deletes checkpoints and models of the numbers that are not among the best; metrics and predictions stay."""
        modes, known = [objective.mode for objective in self.plan.objectives], self._counts.complete
        if self._front is not None:  # nothing else has ended since
            known = {**self._front, **{number: known[number] for number in numbers if number in known}}
        ordered = ranked(known, modes)
        self.best_values = {number: known[number] for number in ordered[: max(1, self.plan.keep)]}
        self._front = {number: known[number] for number in ordered} if len(modes) > 1 else self.best_values
        for number in {*numbers}.difference(ordered[: self.plan.keep]):
            delete_large(self.folder / TRIALS / str(number))


class SharedStudy(SweepStudy):
    """A study in a database, which several schedulers may work on."""

    def _begin(self) -> optuna.Study:
        with self._exclusive():
            study = super()._begin()
            self._entry = SchedulerEntry(study, self._storage, self._url, self.plan.heartbeat)
            self._place = self._entry.number
            return study

    @property
    def _url(self) -> str:
        assert self.plan.storage is not None
        return self.plan.storage

    def _draw(self) -> tuple[Trial, dict[str, Value], FrozenTrial | None] | None:
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
        return trials is None or not self._entry.has_begun(trials + self._counts.failed - 1)

    def _end_orphans(self) -> None:
        """Ends what a scheduler began that died, or lost its connection, before the trial was its own."""
        running = [trial for trial in self._read() if trial.state is TrialState.RUNNING]
        running = [trial for trial in running if trial.number not in self._running]
        if orphans := [trial for trial in running if trial.user_attrs.get(SCHEDULER) in (None, self._entry.number)]:
            for trial in orphans:
                interrupt(self._study, self._storage, trial)
            self._read()

    def _note(self) -> None:
        super()._note()
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
        """Yields whether this scheduler is to confirm a trial; see `SweepStudy.confirming`."""
        confirmed = [number, self.plan.confirm]
        is_done = self._access(lambda: self._study.user_attrs.get(CONFIRMED)) == confirmed
        yield not is_done
        if not is_done:
            self._access(lambda: self._study.set_user_attr(CONFIRMED, confirmed))

    def _leave(self) -> None:
        super()._leave()
        self._entry.leave()

    def is_first(self) -> bool:
        """Whether this scheduler logs and confirms the study."""
        return self._access(self._entry.is_first)

    def _exclusive(self) -> AbstractContextManager[None]:
        return storages.exclusive(self._url, self.plan.study)


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
