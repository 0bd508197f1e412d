"""What the trials of a study amount to: how many count, how many run, what is to be tried again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optuna.trial import FrozenTrial, TrialState

from sentattn.sweep.records import ATTEMPT, ERROR, OUTSIDE, RETRY_OF, RETRYABLE, attributes

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)


@dataclass
class Tally:
    """The trials of a study.

    Attributes:
        attempts: How often a failed trial is tried again.
        finished: How many count toward the budget: complete and pruned ones.
        tried: How many points of the space were tried; one that is tried again counts once.
        running: How many run, at any scheduler.
        retries: Those that are to be tried again.
        complete: Objectives of the complete ones by number.
    """

    attempts: int
    finished: int
    tried: int
    running: int
    retries: list[FrozenTrial]
    complete: dict[int, Sequence[float]]

    @classmethod
    def of(cls, trials: Sequence[FrozenTrial], attempts: int) -> Tally:
        """Returns the tally of all trials that there are."""
        retried = {attributes(trial).get(RETRY_OF) for trial in trials}
        return cls(
            attempts=attempts,
            finished=sum(trial.state in FINISHED for trial in trials),
            tried=sum(RETRY_OF not in attributes(trial) for trial in trials if trial.params),
            running=sum(trial.state is TrialState.RUNNING for trial in trials),
            retries=[trial for trial in trials if trial.number not in retried and is_due(trial, attempts)],
            complete={trial.number: trial.values for trial in trials if trial.state is TrialState.COMPLETE},
        )

    def begin(self, retried: FrozenTrial | None) -> None:
        """Counts a trial that begins, which may try another one again."""
        self.running += 1
        self.tried += retried is None
        self.retries = [trial for trial in self.retries if trial is not retried]

    def end(self, trial: FrozenTrial) -> None:
        """Counts a trial that ran and has ended."""
        self.running -= 1
        self.finished += trial.state in FINISHED
        if trial.state is TrialState.COMPLETE:
            self.complete[trial.number] = trial.values
        if is_due(trial, self.attempts):
            self.retries.append(trial)


def is_due(trial: FrozenTrial, attempts: int) -> bool:
    """Whether a trial is to be tried again, if it has not been: after an interruption, or as often as may be."""
    if trial.state is not TrialState.FAIL:
        return False
    attrs = attributes(trial)
    if OUTSIDE in attrs:
        return False
    return ERROR not in attrs or (bool(attrs.get(RETRYABLE)) and attrs.get(ATTEMPT, 0) < attempts)
