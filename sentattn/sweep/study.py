"""A study that is worked on: one `optuna.Study` in a database, which is all of its state.

Each step is written when it is taken, so that no finished trial is lost when a process dies: trials that were
running are tried again with their values under new numbers, and each finished trial is counted once.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optuna.trial import FrozenTrial, Trial, TrialState

from sentattn.run import CHECKPOINTS, MODEL
from sentattn.sweep import storage as storages
from sentattn.sweep.records import (
    ATTEMPT,
    ERROR,
    OUTSIDE,
    RETRY_OF,
    RETRYABLE,
    TRIALS,
    Record,
    TrialOutcome,
    attributes,
    best,
    objectives,
    pareto,
    records,
)
from sentattn.sweep.resume import ALIVE_SECONDS, SCHEDULER, open_study, this_scheduler
from sentattn.sweep.samplers import LARGEST_GRID, build_pruner, build_sampler
from sentattn.sweep.search_space import points, suggest
from sentattn.sweep.source import NextTrial

if TYPE_CHECKING:
    from sentattn.sweep.plan import Plan

SECONDS = "seconds"
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
STATES = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
LARGE = (CHECKPOINTS, MODEL)
"""What is deleted of all trials but the best: it can be trained again with `from=`."""
NOTE_SECONDS = 5.0
"""Between two notes of the time on disk."""


class SweepStudy:
    """A study that this process works on.

    Attributes:
        best_values: Objectives of the best trials by number, the best first; those that keep their checkpoints.
        failures: How many trials have failed since the last that did not.
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self._study = open_study(plan, storages.open_storage(folder, plan.storage))
        trials = self._study.get_trials(deepcopy=False)
        self._study.sampler = build_sampler(plan, past=len(trials))
        self._study.pruner = build_pruner(plan)
        self._running: dict[int, Trial] = {}
        retried = {attributes(trial).get(RETRY_OF) for trial in trials}
        self._retries = [trial.number for trial in trials if trial.number not in retried and self._is_due(trial)]
        self._finished = sum(trial.state in FINISHED for trial in trials)
        self._tried = sum(RETRY_OF not in attributes(trial) for trial in trials if trial.params)
        by_points = plan.sampler["name"] in ("grid", "brute_force")
        self._points = points(plan.space, LARGEST_GRID) if by_points else None
        self._seconds = float(self._study.user_attrs.get(SECONDS, 0.0))
        self._since = self._noted = time.monotonic()
        self.failures = 0
        self.best_values: dict[int, Sequence[float]] = {}
        names = [path.name for path in (self.folder / TRIALS).glob("*")]
        self._keep_best(objectives(self.records()), [int(name) for name in names if name.isdecimal()])

    @classmethod
    @contextmanager
    def open(cls, plan: Plan, folder: Path) -> Iterator[SweepStudy]:
        """Begins a study or resumes it, and holds its folder; its space may have been changed since.

        Raises:
            RunError: If another process works on it, or it cannot be written.
            SettingError: If the study there is about something else.
        """
        with ExitStack() as stack:
            with storages.writing(folder, plan.storage):
                stack.enter_context(storages.locked(folder))
                study = cls(plan, folder)
            stack.callback(study._note, None)
            yield study

    @property
    def study(self) -> str:
        """Its name."""
        return self.plan.study

    def ask(self) -> NextTrial | None:
        """Returns the next trial; None if there is none now, since those that run may fill the budget.

        A trial that is tried again comes first.
        """
        if self.ended() or not self._has_budget():
            return None
        with self._writing():
            if self._retries:
                before = self._study.get_trials(deepcopy=False)[self._retries.pop(0)]
                attempt = attributes(before).get(ATTEMPT, 0) + (ERROR in attributes(before))
                self._study.enqueue_trial(before.params, user_attrs={RETRY_OF: before.number, ATTEMPT: attempt})
            else:
                self._tried += 1
            trial = self._study.ask()
            values = suggest(trial, self.plan.space)
            self._running[trial.number] = trial
            folder = self.folder / TRIALS / str(trial.number)
            folder.mkdir(parents=True, exist_ok=True)
        return NextTrial(trial.number, values, self.plan.trial_arguments(values), folder)

    def report(self, number: int, step: int, value: float) -> bool:
        """Records the first objective after an epoch, or a repeat, from 1; returns whether to prune the trial."""
        if not math.isfinite(value) or len(self.plan.objectives) > 1:
            return False
        with self._writing():
            self._running[number].report(float(value), step)
            return bool(self._running[number].should_prune())

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        """Records how a trial ended; that it has ended is written last.

        A complete trial without finite objectives has failed. A failed one that may succeed is tried again.
        """
        if outcome.state == "complete" and not (outcome.values and all(map(math.isfinite, outcome.values))):
            outcome = TrialOutcome("failed", error="it ended without a finite value of its objective")
        complete = {number: outcome.values} if outcome.state == "complete" and outcome.values else {}
        with self._writing():
            trial = self._running[number]
            if outcome.state == "failed":
                trial.set_user_attr(ERROR, outcome.report or "it failed without a message")
                trial.set_user_attr(RETRYABLE, outcome.retry)
            ended = self._study.tell(trial, complete.get(number), STATES[outcome.state])
            del self._running[number]
            if self._is_due(ended):
                self._retries.append(number)
        self.failures = self.failures + 1 if outcome.state == "failed" else 0
        self._finished += outcome.state != "failed"
        self._keep_best({**self.best_values, **complete}, [*self.best_values, number])

    def interrupt(self, number: int) -> None:
        """Ends a running trial together with the sweep: it is tried again, and this attempt does not count."""
        with self._writing():
            self._study.tell(self._running.pop(number), state=TrialState.FAIL)
            self._retries.append(number)

    def tick(self) -> float | None:
        """Writes the time now and then; returns the seconds after which that is due again, or None."""
        if time.monotonic() - self._noted >= NOTE_SECONDS:
            self._note(this_scheduler())
        return ALIVE_SECONDS / 4 if self.plan.storage else None

    def _note(self, scheduler: Mapping[str, Any] | None) -> None:
        """Writes the time, and into a shared database which scheduler works on the study."""
        self._noted = time.monotonic()
        with self._writing():
            self._study.set_user_attr(SECONDS, self.seconds())
            if self.plan.storage:
                self._study.set_user_attr(SCHEDULER, scheduler)

    def waiting(self) -> int:
        """Returns how many trials are to be tried again."""
        return len(self._retries)

    def running(self) -> int:
        """Returns how many trials run."""
        return len(self._running)

    def finished(self) -> int:
        """Returns how many trials count toward the budget: complete and pruned ones."""
        return self._finished

    def seconds(self) -> float:
        """Returns how long the study was worked on, over all starts."""
        return self._seconds + time.monotonic() - self._since

    def ended(self) -> str:
        """Returns why no further trial is started, or an empty string."""
        budget = self.plan.budget
        if budget.trials is not None and self._finished >= budget.trials:
            return "1 trial is finished" if self._finished == 1 else f"{self._finished} trials are finished"
        if not self._is_point_left() and not self._running:
            return f"all {self._points} points of the space were tried"
        if budget.hours is not None and self.seconds() >= budget.hours * 3600:
            return f"the budget of {budget.hours:g} hours is used up"
        if self.failures >= self.plan.failures:
            return f"{self.failures} trials in a row have failed"
        return ""

    def records(self) -> list[Record]:
        """Returns all trials in the order in which they started."""
        return records(self._study)

    def best(self) -> list[Record]:
        """Returns the best trial, or with several objectives the Pareto front; none while none is complete."""
        return best(self.records(), [objective.mode for objective in self.plan.objectives])

    def _writing(self) -> AbstractContextManager[None]:
        return storages.writing(self.folder, self.plan.storage)

    def _has_budget(self) -> bool:
        trials = self.plan.budget.trials
        return self._is_point_left() and (trials is None or self._finished + len(self._running) < trials)

    def _is_point_left(self) -> bool:
        return bool(self._retries) or self._points is None or self._tried < self._points

    def _is_due(self, trial: FrozenTrial) -> bool:
        """Whether a trial is to be tried again, if it has not been: after an interruption, or up to `retries` times."""
        attrs = attributes(trial)
        if trial.state is not TrialState.FAIL or OUTSIDE in attrs:
            return False
        return ERROR not in attrs or (bool(attrs.get(RETRYABLE)) and attrs.get(ATTEMPT, 0) < self.plan.retries)

    def _keep_best(self, candidates: Mapping[int, Sequence[float]], numbers: Sequence[int]) -> None:
        """Deletes checkpoints and models of the numbers that are not among the best; metrics and predictions stay."""
        modes = [objective.mode for objective in self.plan.objectives]
        front = pareto(candidates, modes) if len(modes) > 1 else candidates
        sign = -1.0 if modes[0] == "max" else 1.0
        ordered = sorted(front, key=lambda number: (sign * candidates[number][0], number))
        self.best_values = {number: candidates[number] for number in ordered[: max(1, self.plan.keep)]}
        for number in {*numbers}.difference(ordered[: self.plan.keep]):
            trial = self.folder / TRIALS / str(number)
            for folder in (trial, *trial.glob("seed-*")):
                for name in LARGE:
                    shutil.rmtree(folder / name, ignore_errors=True)
