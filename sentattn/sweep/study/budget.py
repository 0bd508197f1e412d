"""Counts of the trials of a study: finished toward the budget, running, and to be tried again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optuna.trial import FrozenTrial, TrialState

from sentattn.sweep.study.records import ATTEMPT, ERROR, RETRY_OF, RETRYABLE, is_complete


@dataclass
class TrialCounts:
    """The trials of a study.

    Attributes:
        attempts: How often a failed trial is tried again.
        finished: How many count toward the budget: complete and pruned ones.
        tried: How many points of the space were tried, or are to be tried again; each counts once.
        running: How many run, at any scheduler.
        failed: How many have failed, or were interrupted.
        retries: Those that are to be tried again; first those whose next trial waits in the study.
        complete: Objectives of the complete ones by number.
    """

    attempts: int
    finished: int
    tried: int
    running: int
    failed: int
    retries: list[FrozenTrial]
    complete: dict[int, Sequence[float]]

    @classmethod
    def of(cls, trials: Sequence[FrozenTrial], attempts: int) -> TrialCounts:
        """Returns the counts of all trials that there are."""
        retried = {trial.user_attrs.get(RETRY_OF) for trial in trials}
        last = [trial for trial in trials if trial.number not in retried]
        due = [trial for trial in last if is_due(trial, attempts)]
        return cls(
            attempts=attempts,
            finished=sum(is_finished(trial) for trial in trials),
            tried=sum(_has_point(trial, attempts) for trial in last),
            running=sum(trial.state is TrialState.RUNNING for trial in trials),
            failed=sum(trial.state is TrialState.FAIL for trial in trials),
            retries=sorted(due, key=lambda trial: trial.state is not TrialState.WAITING),
            complete={trial.number: trial.values for trial in trials if is_complete(trial)},
        )

    def begin(self, retried: FrozenTrial | None) -> None:
        """Counts a trial that begins, which may try another one again."""
        self.running += 1
        self.tried += retried is None or not _has_point(retried, self.attempts)
        self.retries = [trial for trial in self.retries if trial is not retried]

    def end(self, trial: FrozenTrial) -> None:
        """Counts a trial that ran and has ended."""
        self.running -= 1
        self.finished += is_finished(trial)
        self.failed += trial.state is TrialState.FAIL
        if is_complete(trial):
            self.complete[trial.number] = trial.values
        if is_due(trial, self.attempts):
            self.retries.append(trial)


def is_finished(trial: FrozenTrial) -> bool:
    """Whether a trial counts toward the budget."""
    return trial.state is TrialState.PRUNED or is_complete(trial)


def is_due(trial: FrozenTrial, attempts: int) -> bool:
    """Whether a trial is to be tried again, if it has not been: after an interruption, or as often as may be.

    So is one that waits in the study: its process died before it ran.
    """
    if trial.state is TrialState.WAITING:
        return True
    if trial.state is not TrialState.FAIL:
        return False
    attrs = trial.user_attrs
    return ERROR not in attrs or (bool(attrs.get(RETRYABLE)) and attrs.get(ATTEMPT, 0) < attempts)


def _has_point(trial: FrozenTrial, attempts: int) -> bool:
    """Whether a trial, the last of its attempts, has a point of the space, or will have one when it is tried again."""
    if trial.state is TrialState.WAITING:
        return RETRY_OF in trial.user_attrs
    return bool(trial.params) or trial.state is TrialState.RUNNING or is_due(trial, attempts)
