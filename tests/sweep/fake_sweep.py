"""A study of trials of milliseconds as a program that can be killed.

`python fake_sweep.py FOLDER TRIALS [sleep=SECONDS] [epochs=N] [sampler=NAME]`
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import plans

from sentattn.config import command_line
from sentattn.jobs import pool, scheduler
from sentattn.jobs.progress import JobProgress
from sentattn.jobs.slots import Slot
from sentattn.sweep.plan import Plan
from sentattn.sweep.records import TrialReport, TrialTask
from sentattn.sweep.study import SweepStudy

X = "loss.penalty"
"""What is searched; a trial reaches its value."""


def plan(trials: int, **changed: Any) -> Plan:
    """A sweep over one number."""
    usual = {"study": "fake", "trials": trials, "retries": 3, "failures": 10, "keep": 1}
    return plans.plan({X: "interval(0,1)"}, **{**usual, **changed})


def fake_trial(given: Mapping[str, str], task: TrialTask, threads: int, devices: int) -> None:
    """Does what the command line says."""
    started = task.folder / "pid.part"
    started.write_text(str(os.getpid()))
    started.rename(task.folder / "pid")
    report, value = TrialReport(task), float(str(task.values[X]))
    for epoch in range(1, int(given.get("epochs", 1)) + 1):
        time.sleep(float(given.get("sleep", 0)))
        if report.step(epoch, value):
            return
    (task.folder / "done").touch()
    report.end([value])


def sweep(folder: Path, sweep_plan: Plan, given: Mapping[str, str]) -> None:
    """Runs a study, or resumes it."""
    with SweepStudy.open(sweep_plan, folder, partial(fake_trial, given)) as study:
        slots = [Slot(f"CPU {number}", (), 1) for number in (1, 2)]
        scheduler.run([study], slots, pool.LocalPool(), JobProgress([study], len(slots)), study.tick)
        study.require_success()


def finish(folder: Path, sweep_plan: Plan) -> int:
    """Runs what is missing of a study in this process; returns how many trials that is."""
    count = 0
    with SweepStudy.open(sweep_plan, folder, fake_trial) as study:
        while job := study.next():
            fake_trial({}, job.arguments[0], 1, 1)  # type: ignore[arg-type]
            study.has_ended(job, 0, "")
            count += 1
    return count


def main(words: list[str]) -> None:
    """Runs the study of a command line."""
    pool.PRELOAD = ("sentattn.sweep.records", "fake_sweep")
    given = dict(word.split("=", 1) for word in words[2:])
    sweep(Path(words[0]), plan(int(words[1]), sampler={"name": given.pop("sampler", "random")}), given)


if __name__ == "__main__":
    import fake_sweep  # functions of `__main__` cannot be sent to other processes

    sys.exit(command_line.command(fake_sweep.main)())
