"""What the trials of a study amount to: how many count, how many run, what is to be tried again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optuna.trial import FrozenTrial, TrialState

from sentattn.sweep.records import ATTEMPT, ERROR, OUTSIDE, RETRY_OF, RETRYABLE, attributes

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)


@dataclass(frozen=True)
class Tally:
    """The trials of a study, as they are in its database.

    Attributes:
        trials: All of them, by number.
        finished: How many count toward the budget: complete and pruned ones.
        tried: How many points of the space were tried; one that is tried again counts once.
        running: How many run, at any scheduler.
        retries: Numbers of those that are to be tried again.
        complete: Objectives of the complete ones by number.
    """

    trials: Sequence[FrozenTrial]
    finished: int
    tried: int
    running: int
    retries: Sequence[int]
    complete: Mapping[int, Sequence[float]]

    @classmethod
    def of(cls, trials: Sequence[FrozenTrial], retries: int) -> Tally:
        """Returns the tally of trials of which each is tried again up to so many times."""
        retried = {attributes(trial).get(RETRY_OF) for trial in trials}
        return cls(
            trials=trials,
            finished=sum(trial.state in FINISHED for trial in trials),
            tried=sum(RETRY_OF not in attributes(trial) for trial in trials if trial.params),
            running=sum(trial.state is TrialState.RUNNING for trial in trials),
            retries=[trial.number for trial in trials if trial.number not in retried and is_due(trial, retries)],
            complete={trial.number: trial.values for trial in trials if trial.state is TrialState.COMPLETE},
        )


def is_due(trial: FrozenTrial, retries: int) -> bool:
    """Whether a trial is to be tried again, if it has not been: after an interruption, or up to `retries` times."""
    if trial.state is not TrialState.FAIL:
        return False
    attrs = attributes(trial)
    if OUTSIDE in attrs:
        return False
    return ERROR not in attrs or (bool(attrs.get(RETRYABLE)) and attrs.get(ATTEMPT, 0) < retries)
