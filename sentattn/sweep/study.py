"""A study that is worked on, whose journal is all of its state, and which schedulers on several machines share.

Each step is written when it is taken, so that no finished trial is lost when a process dies. A scheduler asks for a
trial while it has locked the journal, so that the trials that run anywhere are reservations in the budget; trials of a
scheduler that has died are tried again with their values under new numbers.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState, create_trial

from sentattn.config.request import read_request
from sentattn.config.search_space import combinations, suggest
from sentattn.console import plural
from sentattn.errors import Fault, RunError, UserError
from sentattn.jobs import pool
from sentattn.jobs.job import Job
from sentattn.jobs.progress import format_objective
from sentattn.sweep import journal
from sentattn.sweep.plan import build_sampler
from sentattn.sweep.records import (
    ATTEMPT,
    ERROR,
    RETRY_OF,
    TRIAL_FOLDER,
    TrialCounts,
    TrialTask,
    continue_from,
    delete_large,
    is_due,
    ranked,
    record_failure,
)
from sentattn.sweep.resume import end_interrupted, open_study, require_data

if TYPE_CHECKING:
    from sentattn.sweep.plan import Plan

SECONDS, SCHEDULER = "seconds", "scheduler"
"""User attributes: how long a study was worked on, and which scheduler runs a trial."""
OTHER_DRAWS = 1_000_003
"""What makes schedulers of a study draw other values: more than it has trials."""
DRAWS = 20
"""So often a sampler may draw a point that was tried, before the first one that was not is taken."""
LOG_LINES = 3
"""Lines of a failed trial's log that are printed."""
TOGETHER = 10.0
"""Seconds in which trials that are lost with their machine or server count as one failure."""
TOUCH = 10.0
"""Seconds between two signs of life for schedulers of other machines."""


class SweepStudy:
    """A study as the scheduler works on it, whose `JobSource` it is.

    Args:
        plan: The sweep.
        folder: The study's folder.
        number: That of this scheduler among those of the study.
        function: What the process of a trial calls with its `TrialTask`, and threads and devices of its slot.

    Attributes:
        optuna_study: The study itself.
        failures: How many trials have failed in a row.
        front: Numbers of the best trial, or with several objectives of the Pareto front.
    """

    stops_at_signal = False  # trials are left to finish

    def __init__(self, plan: Plan, folder: Path, number: int, function: Callable[..., None]) -> None:
        self.plan, self.folder, self.number, self._function = plan, folder, number, function
        self.name, self.total, self.limit_minutes = plan.study, plan.trials, plan.limit_minutes
        self.failures, self._reason = 0, ""
        self.front: set[int] = set()
        self._has_choices_alone = all(dimension.is_categorical for dimension in plan.space.values())
        self._kept: set[int] = set()
        self._running: set[int] = set()
        self._lost = -math.inf
        self._storage, self._lock = journal.open_storage(folder)
        self.optuna_study = open_study(plan, self._storage)
        trials = self.optuna_study.get_trials(deepcopy=False)
        self.optuna_study.sampler = build_sampler(plan, past=len(trials) + number * OTHER_DRAWS)
        self._touched = time.monotonic()
        self._began = self._touched - float(self.optuna_study.user_attrs.get(SECONDS, 0.0))
        ended = {each.number for each in trials if each.state in (TrialState.COMPLETE, TrialState.PRUNED)}
        self._keep_best([number for number in ended if (folder / TRIAL_FOLDER / str(number)).exists()])

    @classmethod
    @contextmanager
    def open(cls, plan: Plan, folder: Path, function: Callable[..., None]) -> Iterator[SweepStudy]:
        """Begins a study or resumes it, as one of its schedulers.

        Raises:
            RunError: If its folder cannot be written.
            SettingError: If the stored study has another space, objective or fixed setting.
        """
        try:
            journal.require_journal(folder)
            folder.mkdir(parents=True, exist_ok=True)
            journal.require_locks(folder)
            with ExitStack() as stack:
                with journal.JournalLock(folder / journal.JOURNAL):
                    study = cls(plan, folder, stack.enter_context(journal.joined(folder)), function)
                yield study
                study._note()
        except OSError as error:
            message = f"{folder} cannot be written: {error.strerror or error}. Nothing that was reported is lost"
            raise RunError(Fault("study", "unwritable", f"{message}; the same command resumes.")) from error

    def require_data(self, fingerprint: str) -> None:
        """Refuses rows that are not those of the trials that the study has; a `SettingError`."""
        with self._lock:
            require_data(self.optuna_study, fingerprint)

    def next(self) -> Job | None:
        if self.over():
            return None
        with self._lock:
            self._end_orphans()
            counts = self._counts()
            if self.plan.trials is not None and counts.finished + counts.running >= self.plan.trials:
                return None
            before = next(iter(counts.retries), None)
            if before is not None and before.state is not TrialState.WAITING:
                self.optuna_study.add_trial(_retry_of(before))
            elif before is None and self._has_choices_alone:
                if point := self._new_point():
                    self.optuna_study.enqueue_trial(point)
                elif self.plan.trials is None:
                    return None
            asked = self.optuna_study.ask()
            asked.set_user_attr(SCHEDULER, self.number)
            values = suggest(asked, self.plan.space)
            self._running.add(asked.number)
        folder = self.folder / TRIAL_FOLDER / str(asked.number)
        if folder.exists():  # of a trial that the journal has lost, as after a power cut
            folder.rename(f"{folder}-old-{secrets.token_hex(4)}")
        folder.mkdir(parents=True)
        if (retried := asked.user_attrs.get(RETRY_OF)) is not None:
            continue_from(self.folder / TRIAL_FOLDER / str(retried), folder)
        plan, objectives = self.plan, [objective.metric for objective in self.plan.objectives]
        arguments, settings = plan.trial_arguments(values), None
        with suppress(UserError):  # here composing takes a tenth of its time in a process of its own
            settings = read_request(arguments).settings
        own = (arguments, settings, objectives, plan.repeats, plan.pruner)
        task = TrialTask(str(self.folder), asked.number, values, *own)
        return Job(asked.number, f"trial {asked.number}", folder, self._function, (task,), values, objectives[0])

    def has_ended(self, job: Job, code: int, killed: str) -> str:
        """Records a trial whose process has not: it was killed, or has died."""
        self._running.discard(job.number)
        ended = self._trial(job.number)
        if ended.state is TrialState.RUNNING and code == pool.LOST and not killed:  # not the trial's fault
            now, before = time.monotonic(), self._lost
            self.failures += now - before > TOGETHER
            self._lost = now
            self._reason = pool.explain(code)
            self.interrupt(job)
            return f"interrupted: {self._reason}; it is run again"
        if ended.state is TrialState.RUNNING:
            lines = [killed or pool.explain(code), *pool.last_lines(job.log)]
            again = code != pool.REFUSED and not killed
            record_failure(self.optuna_study, self._storage, job.number, "\n".join(lines), again=again)
            ended = self._trial(job.number)
        error = ended.user_attrs.get(ERROR, "")
        self.failures = self.failures + 1 if error else 0
        resumes = code < 0 and is_due(ended, self.plan.retries)
        self._keep_best([] if resumes else [job.number])
        self._note()
        if error:
            self._reason, *lines = error.splitlines()
            return "\n".join([f"failed: {self._reason.rstrip('.')} (log: {job.log})", *lines[-LOG_LINES:]])
        if ended.state is TrialState.COMPLETE:
            best = ", the best so far" if ended.number in self.front else ""
            return f"{self._objectives(ended.values)}{best}"
        steps = ended.intermediate_values
        at = f" after {max(steps)} at {steps[max(steps)]:.4f}" if steps else ""
        return f"pruned{at}" if ended.state is TrialState.PRUNED else "interrupted: another scheduler runs it again"

    def interrupt(self, job: Job) -> None:
        self._running.discard(job.number)
        with suppress(UpdateFinishedTrialError):
            self.optuna_study.tell(job.number, state=TrialState.FAIL, skip_if_finished=True)

    def over(self) -> str:
        plan = self.plan
        if plan.trials is not None and (finished := self.finished()) >= plan.trials:
            return f"{plural(finished, 'trial')} finished"
        if plan.hours is not None and self.seconds() >= plan.hours * 3600:
            return f"the budget of {plan.hours:g} hours is used up"
        if plan.trials is None and self._has_choices_alone and not self._untried():
            counts = self._counts()
            if not (counts.running or counts.retries):
                return "all combinations have been tried"
        if self.failures >= plan.failures:
            return f"{plural(self.failures, 'trial')} failed in a row"
        return ""

    def require_success(self) -> None:
        """Raises a RunError where too many trials have failed in a row."""
        if self.failures >= self.plan.failures:
            text = f"{plural(self.failures, 'trial')} failed in a row; the last: {self._reason}"
            raise RunError(Fault("failures", "failed", text))

    def finished(self) -> int:
        """Returns how many trials count toward the budget: complete and pruned ones."""
        return self._counts().finished

    def waiting(self) -> int:
        """Returns how many trials are to be tried again."""
        return len(self._counts().retries)

    def elsewhere(self) -> int:
        return 0 if self.over() else self._counts().running - len(self._running)

    def best(self) -> str:
        return next((f"trial {best.number}, {self._objectives(best.values)}" for best in ranked(self.optuna_study)), "")

    def seconds(self) -> float:
        """Returns how long the study was worked on, over all starts."""
        return time.monotonic() - self._began

    def is_leader(self) -> bool:
        """Whether this scheduler logs and confirms the study: of those that work on it, that with the least number."""
        with self._lock:
            return self.number == min({self.number, *journal.schedulers(self.folder)})

    def tick(self) -> None:
        """Shows the schedulers of other machines now and then that this one is alive."""
        if time.monotonic() - self._touched >= TOUCH:
            self._note()

    def _note(self) -> None:
        self._touched = time.monotonic()
        journal.touch(self.folder, self.number)
        self.optuna_study.set_user_attr(SECONDS, max(self.optuna_study.user_attrs.get(SECONDS, 0.0), self.seconds()))

    def _end_orphans(self) -> None:
        """Ends the trials of schedulers that have died, or that died before the trial was their own."""
        running = self.optuna_study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        if others := [each for each in running if each.number not in self._running]:
            alive = journal.schedulers(self.folder).keys() - {self.number}
            for each in others:
                if each.user_attrs.get(SCHEDULER) not in alive:
                    end_interrupted(self.optuna_study, self._storage, each)

    def _new_point(self) -> dict[str, Any] | None:
        """Draws choices that no trial has; None where all combinations were tried."""
        trials = self.optuna_study.get_trials(deepcopy=False)
        tried = [trial.params for trial in trials]
        draws = optuna.create_study(sampler=self.optuna_study.sampler, directions=self.optuna_study.directions)
        draws.add_trials(trials)
        for _ in range(DRAWS):
            suggest(trial := draws.ask(), self.plan.space)
            if trial.params not in tried:
                return trial.params
        return self._untried()

    def _untried(self) -> dict[str, Any] | None:
        """Returns the first combination of choices that no trial has."""
        tried = {frozenset(trial.params.items()) for trial in self.optuna_study.get_trials(deepcopy=False)}
        points = combinations([*self.plan.space.values()])
        return next((point for point in points if frozenset(point.items()) not in tried), None)

    def _counts(self) -> TrialCounts:
        return TrialCounts.of(self.optuna_study.get_trials(deepcopy=False), self.plan.retries)

    def _trial(self, number: int) -> FrozenTrial:
        return self.optuna_study.get_trials(deepcopy=False)[number]

    def _objectives(self, values: Sequence[float]) -> str:
        pairs = zip(self.plan.objectives, values, strict=True)
        return ", ".join(f"{objective.metric} {format_objective(value)}" for objective, value in pairs)

    def _keep_best(self, numbers: Collection[int]) -> None:
        """Deletes checkpoints and models of trials that are not, or no more, among the best."""
        ordered = [trial.number for trial in ranked(self.optuna_study)]
        before, self._kept = self._kept, {*ordered[: self.plan.keep]}
        self.front = {*ordered[: None if len(self.plan.objectives) > 1 else 1]}
        for number in {*numbers, *before} - self._kept:
            delete_large(self.folder / TRIAL_FOLDER / str(number))


def _retry_of(before: FrozenTrial) -> FrozenTrial:
    """Returns what tries a trial again, with all that is known of its values, so that one record adds it."""
    attempt = before.user_attrs.get(ATTEMPT, 0) + (ERROR in before.user_attrs)
    return create_trial(
        state=TrialState.WAITING,
        params=before.params,
        distributions=before.distributions,
        user_attrs={RETRY_OF: before.number, ATTEMPT: attempt},
        system_attrs=before.system_attrs,  # where a sampler keeps its place
    )
