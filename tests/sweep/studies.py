"""Studies of trials that do not train."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sentattn.errors import RunError, UserError
from sentattn.sweep.execution.interfaces import TrialOutcome, TrialTask
from sentattn.sweep.spec.plan import Plan
from sentattn.sweep.study.records import Record, read
from sentattn.sweep.study.study import SweepStudy


def run(sweep_plan: Plan, folder: Path, most: int = 1000) -> list[int]:
    """Runs trials whose objective is their number of hops over 100; returns their numbers."""
    numbers = []
    with SweepStudy.open(sweep_plan, folder) as study:
        while len(numbers) < most and (asked := study.ask()):
            tell(study, asked.number, float(str(asked.values.get("model.attention.hops", 4))) / 100)
            numbers.append(asked.number)
    return numbers


def complete(folder: Path, url: str | None = None) -> list[Record]:
    """The complete trials so far; none where the study does not exist yet."""
    try:
        return [record for record in read(folder, url) if record.state == "complete"]
    except RunError:
        return []


def ask(study: SweepStudy) -> TrialTask:
    task = study.ask()
    assert task
    return task


def refused(sweep_plan: Plan, folder: Path) -> list[tuple[str, str]]:
    """Key and kind of the errors with which a study is not opened."""
    with pytest.raises(UserError) as caught, SweepStudy.open(sweep_plan, folder):
        pass
    return [(fault.key, fault.kind) for fault in caught.value.faults]


def tell(study: SweepStudy, number: int, *values: float, state: Any = "complete", retry: bool = False) -> None:
    error = "it failed" if state == "failed" else ""
    study.tell(number, TrialOutcome(state, list(values) or None, error=error, retry=retry))


def states(folder: Path) -> Counter[str]:
    return Counter(record.state for record in read(folder))
