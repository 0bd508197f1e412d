"""Counts that are updated with each trial equal the counts of all trials."""

from __future__ import annotations

import optuna
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import Trial, TrialState

from sentattn.sweep.study.records import ERROR, RETRYABLE, TrialCounts
from sentattn.sweep.study.study import retry_of

ENDS = st.sampled_from(["complete", "pruned", "failed", "refused", "interrupted"])


def begin(study: optuna.Study, counts: TrialCounts) -> Trial:
    before = next(iter(counts.retries), None)
    if before is not None:
        study.add_trial(retry_of(before))
    trial = study.ask()
    trial.suggest_float("x", 0, 1)
    counts.begin(before)
    return trial


def end(study: optuna.Study, counts: TrialCounts, trial: Trial, how: str) -> None:
    if how in ("failed", "refused"):
        trial.set_user_attr(ERROR, "it failed")
        trial.set_user_attr(RETRYABLE, how == "failed")
    states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED}
    values = 0.5 if how == "complete" else None
    counts.end(study.tell(trial, values, states.get(how, TrialState.FAIL)))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), ENDS), max_size=30), st.integers(0, 2))
def test_updated_counts_equal_new_ones(steps: list[tuple[bool, int, str]], attempts: int) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study()
    running: list[Trial] = []
    counts = TrialCounts.of([], attempts)
    for is_begin, place, how in steps:
        if is_begin or not running:
            running.append(begin(study, counts))
        else:
            end(study, counts, running.pop(place % len(running)), how)
        anew = TrialCounts.of(study.get_trials(), attempts)
        numbers = [sorted(trial.number for trial in each.retries) for each in (counts, anew)]
        assert numbers[0] == numbers[1]
        assert vars(counts) | {"retries": []} == vars(anew) | {"retries": []}
        assert anew.running == len(running)
        assert anew.finished + len(anew.retries) + anew.running <= anew.tried
