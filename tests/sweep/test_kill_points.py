"""A process that dies before, in or after any write to the journal of a study loses nothing, and runs nothing twice."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from optuna.storages.journal import JournalFileBackend
from plans import plan
from studies import read, report, tell, train

from sentattn.sweep import journal
from sentattn.sweep.plan import Plan
from sentattn.sweep.study import SweepStudy

pytestmark = pytest.mark.usefixtures("composed_once")
SPACE = {"model.attention.hops": "range(1,31)", "loss.penalty": "interval(0,1)"}
TRIALS, WRITES = 4, 40
"""Writes: more than one start has until its third trial."""


def work(sweep_plan: Plan, folder: Path, *, fails: bool = False) -> None:
    """Runs the trials that are missing; the first of them fails, on request, and may be tried again."""
    with SweepStudy.open(sweep_plan, folder, train) as study:
        while job := study.next():
            report(job).step(1, 0.25)
            if fails:
                tell(study, job, state="failed", retry=True)
            else:
                tell(study, job, 0.5)
            fails = False


def start_and_die(sweep_plan: Plan, folder: Path, write: int, mode: str) -> bool:
    """Begins the study, or resumes it, in a process that dies at its n-th write; returns whether it died."""
    if pid := os.fork():
        return os.waitpid(pid, 0)[1] == signal.SIGKILL
    left, append = write, JournalFileBackend.append_logs

    def die(self: JournalFileBackend, logs: list[dict[str, Any]]) -> None:
        nonlocal left
        left -= 1
        if left < 0 and mode == "within":
            with (folder / journal.JOURNAL).open("ab") as file:
                file.write(json.dumps(logs[0]).encode()[:25])
        elif left >= 0 or mode == "after":
            append(self, logs)
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    JournalFileBackend.append_logs = die  # type: ignore[method-assign]
    try:
        work(sweep_plan, folder, fails=True)
    finally:
        os._exit(1)


def assert_exact(folder: Path) -> None:
    """The budget is met exactly, with the values of all trials that had begun."""
    records = {record.number: record for record in read(folder)}
    values = [str(record.values) for record in records.values() if record.state == "complete"]
    assert len(values) == len({*values}) == TRIALS
    assert {str(record.values) for record in records.values()} == {*values}, "none is lost"
    retried = [record.retry_of for record in records.values() if record.retry_of is not None]
    assert len(retried) == len({*retried})
    assert all(map(json.loads, (folder / journal.JOURNAL).read_bytes().splitlines()))


QUICK = {(3, "before", "random"), (12, "within", "random"), (19, "after", "random")}
POINTS = [
    pytest.param(write, mode, sampler, marks=() if (write, mode, sampler) in QUICK else pytest.mark.slow)
    for sampler in ("random", "tpe")
    for mode in ("before", "within", "after")
    for write in range(WRITES)
]


@pytest.mark.parametrize(("write", "mode", "sampler"), POINTS)
def test_no_trial_is_lost(tmp_path: Path, write: int, mode: str, sampler: str) -> None:
    sweep_plan = plan(SPACE, sampler={"name": sampler}, trials=TRIALS, retries=9, failures=100)
    assert start_and_die(sweep_plan, tmp_path, write, mode)
    died = start_and_die(sweep_plan, tmp_path, write, mode)
    assert died or write > 12, "it had less to do than the first"
    work(sweep_plan, tmp_path)
    assert_exact(tmp_path)


def test_a_trial_to_be_tried_again_keeps_its_values_through_every_kill(tmp_path: Path) -> None:
    sweep_plan = plan(SPACE, trials=1, retries=9, failures=100)
    with SweepStudy.open(sweep_plan, tmp_path, train) as study:
        job = study.next()
        assert job
        tell(study, job, state="failed", retry=True)
    for write in range(5):
        assert start_and_die(sweep_plan, tmp_path, write, "after")
    work(sweep_plan, tmp_path)
    records = read(tmp_path)
    assert {str(record.values) for record in records} == {str(dict(job.values))}
    assert [record.state for record in records].count("complete") == 1
