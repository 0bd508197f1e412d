"""Studies of trials that do not train."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from sentattn.config.search_space import Value, from_json
from sentattn.errors import Fault, RunError, TrainingError, UserError
from sentattn.jobs.job import Job
from sentattn.jobs.pool import REFUSED, TRY_AGAIN
from sentattn.sweep import journal
from sentattn.sweep.plan import Plan
from sentattn.sweep.records import ERROR, RETRY_OF, SPACE, TrialReport, reached_by, started, state_of, values_of
from sentattn.sweep.study import SweepStudy


class Read(NamedTuple):
    """What the journal of a study holds of a trial."""

    number: int
    state: str
    values: dict[str, Value]
    objectives: tuple[float, ...] | None
    steps: dict[int, float]
    error: str
    retry_of: int | None


def read(folder: Path) -> list[Read]:
    """Returns the trials of a study, also while another process works on it."""
    study = journal.load(folder)
    space = from_json(study.user_attrs[SPACE])
    return [
        Read(
            trial.number,
            state_of(trial),
            values_of(trial, space),
            None if (reached := reached_by(trial)) is None else tuple(reached),
            trial.intermediate_values,
            trial.user_attrs.get(ERROR, ""),
            trial.user_attrs.get(RETRY_OF),
        )
        for trial in started(study)
    ]


def train(*_: object) -> None:
    """What no trial of these studies does."""


def run(sweep_plan: Plan, folder: Path, most: int = 1000) -> list[int]:
    """Runs trials whose objective is their number of hops over 100; returns their numbers."""
    numbers = []
    with SweepStudy.open(sweep_plan, folder, train) as study:
        while len(numbers) < most and (job := study.next()):
            tell(study, job, float(str(job.values.get("model.attention.hops", 4))) / 100)
            numbers.append(job.number)
    return numbers


def ask(study: SweepStudy) -> Job:
    job = study.next()
    assert job
    return job


def report(job: Job) -> TrialReport:
    """What the process of a trial reports with."""
    return TrialReport(job.arguments[0])  # type: ignore[arg-type]


def tell(study: SweepStudy, job: Job, *values: float, state: str = "complete", retry: bool = False) -> str:
    """Ends a trial as its process and the scheduler do; returns what the scheduler says."""
    if state == "failed":
        error = TrainingError(Fault("", "failed", "it failed"))
        error.__cause__ = RuntimeError() if retry else None
        report(job).fail(error)
        return study.has_ended(job, TRY_AGAIN if retry else REFUSED, "")
    report(job).end(list(values) if state == "complete" else None)
    return study.has_ended(job, 0, "")


def complete(folder: Path) -> list[Read]:
    """The complete trials so far; none where the study does not exist yet."""
    try:
        return [record for record in read(folder) if record.state == "complete"]
    except RunError:
        return []


def refused(sweep_plan: Plan, folder: Path) -> list[tuple[str, str]]:
    """Key and kind of the errors with which a study is not opened."""
    with pytest.raises(UserError) as caught, SweepStudy.open(sweep_plan, folder, train):
        pass
    return [(fault.key, fault.kind) for fault in caught.value.faults]


def states(folder: Path) -> Counter[str]:
    return Counter(record.state for record in read(folder))
