"""A process that dies between any two writes of a study loses no point of a grid, and runs none twice to its end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from plans import plan
from sqlalchemy import Engine, event
from studies import ask, tell

from sentattn.sweep.spec.plan import Plan
from sentattn.sweep.study.records import read
from sentattn.sweep.study.study import SweepStudy

SPACE = {"model.attention.hops": "choice(1,2)", "model/pooling": "choice(flatten,mean)"}
WRITES = 12


def start_and_die(sweep_plan: Plan, folder: Path, write: int) -> bool:
    """Begins the study, or resumes it, and runs trials until the n-th write to its database; returns whether it died.

    The first trial of each start fails and may be tried again.
    """
    if pid := os.fork():
        return os.waitpid(pid, 0)[1] == signal.SIGKILL
    study, left, is_first = SweepStudy(sweep_plan, folder), write, True

    def commit(*_: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "commit", commit)
    try:
        while asked := study.ask():
            state, values = ("failed", []) if is_first else ("complete", [0.5])
            tell(study, asked.number, *values, state=state, retry=True)
            is_first = False
    finally:
        os._exit(1)


@pytest.mark.parametrize("name", ["grid", "brute_force"])
@pytest.mark.parametrize("write", range(WRITES))
def test_no_point_is_lost(tmp_path: Path, name: str, write: int) -> None:
    sweep_plan = plan(SPACE, sampler={"name": name}, trials=100, retries=9, failures=100)
    assert start_and_die(sweep_plan, tmp_path, write)
    assert start_and_die(sweep_plan, tmp_path, write)
    with SweepStudy.open(sweep_plan, tmp_path) as study:
        while asked := study.ask():
            tell(study, asked.number, 0.5)
        assert "4 points" in study.ended()
    points = [str(record.values) for record in read(tmp_path) if record.state == "complete"]
    assert len(points) == len({*points}) == 4


def test_a_trial_to_be_tried_again_keeps_its_values_through_every_kill(tmp_path: Path) -> None:
    sweep_plan = plan(trials=1, retries=9, failures=100)
    with SweepStudy.open(sweep_plan, tmp_path) as study:
        asked = ask(study)
        tell(study, asked.number, state="failed", retry=True)
    for write in range(3):
        assert start_and_die(sweep_plan, tmp_path, write)
    with SweepStudy.open(sweep_plan, tmp_path) as study:
        again = ask(study)
        assert again.values == asked.values
        tell(study, again.number, 0.5)
        assert study.ask() is None
