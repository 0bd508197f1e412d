"""A study's trials as they are told: what each tried, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

import optuna
from optuna.trial import FrozenTrial, TrialState

from sentattn.sweep import storage
from sentattn.sweep.search_space import Dimension, Value, from_json

State: TypeAlias = Literal["complete", "pruned", "failed", "interrupted", "running", "outside"]
STATES: dict[TrialState, State] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
}
SPACE, OUTSIDE, NOTE, AGAIN_OF, ATTEMPT, NEXT = "space", "outside", "note", "again_of", "attempt", "next_attempt"
"""Names of what is kept beside a study's and a trial's own figures; `NEXT` marks one that is to be tried again."""
BROKEN_OFF = "it was broken off with the sweep"
"""The note of a trial that is to be tried again and has not failed."""


@dataclass(frozen=True)
class Record:
    """One trial.

    Attributes:
        number: Its number and that of its directory.
        state: What became of it; `interrupted` is one that ended with the sweep and is tried again, `outside` is a
            finished trial that the space, since changed, holds no more.
        values: What it tried, by key.
        objectives: What it reached; None where it did not finish.
        steps: What it had reached after each epoch, or repeat.
        error: Why it failed, and the last lines of its log.
        retry_of: The trial that it tries again.
        attempt: Which try it is, counted from 0; a try that the sweep's own end broke off does not count.
        started: When it started.
        ended: When it ended.
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


def read(folder: Path) -> list[Record]:
    """Reads the trials of a study, which another process may be at work on.

    Raises:
        RunError: If the folder holds none.
    """
    return records(storage.load(folder))


def records(study: optuna.Study) -> list[Record]:
    """Returns the trials of a study in the order in which they began."""
    space = space_of(study)
    return [record(trial, space) for trial in study.get_trials(deepcopy=False)]


def space_of(study: optuna.Study) -> dict[str, Dimension]:
    """Returns the space that a study was last run with."""
    return from_json(study.user_attrs[SPACE])


def record(trial: FrozenTrial, space: Mapping[str, Dimension]) -> Record:
    """Returns what is known of a trial."""
    attrs = trial.user_attrs
    outside: Mapping[str, Any] | None = attrs.get(OUTSIDE)
    values = {key: space[key].value(value) if key in space else value for key, value in trial.params.items()}
    reached = outside["objectives"] if outside else trial.values if trial.state is TrialState.COMPLETE else None
    steps = outside["steps"] if outside else trial.intermediate_values
    return Record(
        number=trial.number,
        state="outside" if outside else _state(trial),
        values=outside["values"] if outside else values,
        objectives=tuple(reached) if reached else None,
        steps={int(step): value for step, value in steps.items()},
        error=attrs.get(NOTE, ""),
        retry_of=attrs.get(AGAIN_OF),
        attempt=attrs.get(ATTEMPT, 0),
        started=trial.datetime_start,
        ended=trial.datetime_complete,
    )


def _state(trial: FrozenTrial) -> State:
    return "interrupted" if trial.user_attrs.get(NOTE) == BROKEN_OFF else STATES[trial.state]


def best(found: Sequence[Record], modes: Sequence[str]) -> list[Record]:
    """Returns the best complete trial, the first of equals; with several objectives, those that no other one beats."""
    signs = [1.0 if mode == "max" else -1.0 for mode in modes]
    scored = [
        (tuple(sign * value for sign, value in zip(signs, one.objectives, strict=True)), one)
        for one in found
        if one.state == "complete" and one.objectives and not any(map(math.isnan, one.objectives))
    ]
    front = [one for score, one in scored if not any(_beats(other, score) for other, _ in scored)]
    return front if len(signs) > 1 else front[:1]


def _beats(other: Sequence[float], own: Sequence[float]) -> bool:
    pairs = list(zip(other, own, strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)
