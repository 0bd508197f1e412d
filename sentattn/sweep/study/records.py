"""The trials of a study: what each tried, and what it reached."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from sentattn.run import CHECKPOINTS, LAST, LOCK, MODEL
from sentattn.sweep.spec.search_space import Dimension, Value, from_json
from sentattn.sweep.study import storage

TRIALS = "trials"
"""Folder of the run directories of the trials, in the folder of the study."""
State: TypeAlias = Literal["complete", "pruned", "failed", "interrupted", "running"]
STATES: dict[TrialState, State] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.RUNNING: "running",
}
SPACE, ERROR, RETRYABLE, RETRY_OF, ATTEMPT, DIVERGED = "space", "error", "retryable", "retry_of", "attempt", "diverged"
"""User attributes, the first of a study and the others of a trial."""


@dataclass(frozen=True)
class Record:
    """One trial.

    Attributes:
        number: Its number and that of its directory.
        state: How it ended; one that is `interrupted` ended with the sweep and is tried again.
        values: What it tried, by key.
        objectives: What it reached; None where it did not finish.
        steps: What it had reached after each epoch or repeat.
        error: Why it failed, and the last lines of its log.
        retry_of: The trial that it tries again.
        attempt: Counts from 0; an attempt that was interrupted does not count.
    """

    number: int
    state: State
    values: Mapping[str, Value]
    objectives: tuple[float, ...] | None
    steps: Mapping[int, float]
    error: str
    retry_of: int | None
    attempt: int
    started: datetime | None
    ended: datetime | None


def read(folder: Path, url: str | None = None) -> list[Record]:
    """Reads the trials of a study, also while another process works on it.

    Raises:
        RunError: If the folder holds none.
    """
    return records(storage.load(folder, url))


def records(study: optuna.Study) -> list[Record]:
    """Returns the trials of a study in the order in which they started, without those that have not."""
    space = from_json(study.user_attrs[SPACE])
    trials = study.get_trials(deepcopy=False)
    return [record(trial, space) for trial in trials if trial.state is not TrialState.WAITING]


def is_complete(trial: FrozenTrial) -> bool:
    """Whether a trial has reached its values; one that diverged has those that its study has set."""
    return trial.state is TrialState.COMPLETE and not trial.user_attrs.get(DIVERGED, False)


def record(trial: FrozenTrial, space: Mapping[str, Dimension]) -> Record:
    """Returns what is known of a trial."""
    attrs = trial.user_attrs
    values = {key: space[key].value(value) if key in space else value for key, value in trial.params.items()}
    failed: State = "failed" if ERROR in attrs else "interrupted"
    state = failed if trial.state is TrialState.COMPLETE and not is_complete(trial) else STATES.get(trial.state, failed)
    return Record(
        number=trial.number,
        state=state,
        values=values,
        objectives=tuple(trial.values) if is_complete(trial) else None,
        steps=dict(trial.intermediate_values),
        error=attrs.get(ERROR, ""),
        retry_of=attrs.get(RETRY_OF),
        attempt=attrs.get(ATTEMPT, 0),
        started=trial.datetime_start,
        ended=trial.datetime_complete,
    )


def best(trials: Sequence[Record], modes: Sequence[str]) -> list[Record]:
    """Returns the best complete trial, the first of equals; with several objectives the Pareto front."""
    points = {trial.number: trial.objectives for trial in trials if trial.state == "complete" and trial.objectives}
    numbers = ranked(points, modes)[: None if len(modes) > 1 else 1]
    return [trial for trial in trials if trial.number in numbers]


def ranked(points: Mapping[int, Sequence[float]], modes: Sequence[str]) -> list[int]:
    """Returns the numbers of trials by their first objective, the first of equals before.

    With several objectives only those of the Pareto front, ties included.
    """
    scores = {
        number: tuple(value if mode == "max" else -value for value, mode in zip(values, modes, strict=True))
        for number, values in points.items()
    }
    if len(modes) > 1:
        front = _pareto({*scores.values()})
        scores = {number: score for number, score in scores.items() if score in front}
    return sorted(scores, key=lambda number: (-scores[number][0], number))


def _pareto(scores: set[tuple[float, ...]]) -> set[tuple[float, ...]]:
    """Returns the Pareto-optimal scores, of which each is better the larger it is."""
    front: set[tuple[float, ...]] = set()
    columns = np.empty((len(next(iter(scores), ())), len(scores)))  # the first ones are the front
    for score in sorted(scores, reverse=True):  # none is dominated by a later one
        if not (columns[:, : len(front)] >= np.array(score)[:, None]).all(axis=0).any():
            columns[:, len(front)] = score
            front.add(score)
    return front


def continue_from(before: Path, folder: Path) -> None:
    """Copies the run directories of a trial that was interrupted after a checkpoint into that of its next attempt.

    What resumes leaves the old one its metrics and its log. Without space on the disk the next attempt starts anew.
    """
    if not any((run / CHECKPOINTS / LAST).is_file() for run in (before, *before.glob("seed-*"))):
        return
    try:
        shutil.copytree(before, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(f"{LOCK}*"))
    except OSError:  # shutil.Error is one
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(exist_ok=True)
    else:
        delete_large(before)


def delete_large(trial: Path) -> None:
    """Deletes checkpoints and models of a trial, which `from=` trains again; metrics and predictions stay."""
    for folder in (trial, *trial.glob("seed-*")):
        for name in (CHECKPOINTS, MODEL):
            shutil.rmtree(folder / name, ignore_errors=True)
