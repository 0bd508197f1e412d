"""Measures the scheduler's time for a trial as a study grows, without the sampler's time.

usage: python benchmarks/sweep_owner.py [trials=1000] [sampler=tpe] [random=0] [slots=2] [every=250]

A trial sleeps one millisecond in a separate process. The scheduler's time is all time in which it does not wait for
trials: it asks the sampler, writes, starts processes, receives values and passes them to the study. The first `random`
trials are drawn at random, which takes no time, so that a sampler can be measured late in a large study.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sentattn.sweep.execution import local
from sentattn.sweep.execution.interfaces import RunningTrial, TrialConnection, TrialOutcome, TrialTask
from sentattn.sweep.execution.resources import Slot
from sentattn.sweep.execution.scheduler import Scheduler
from sentattn.sweep.spec.config import read_plan
from sentattn.sweep.study import study as study_module
from sentattn.sweep.study.study import SweepStudy

SPACE = ("optimizer.lr=tag(log,interval(1e-4,1e-1))", "model.attention.hops=range(1,31)", "loss.penalty=interval(0,1)")
SAMPLING = ("infer_relative_search_space", "sample_relative", "sample_independent", "before_trial", "after_trial")


def preload(studies: Any) -> None:
    """Imports nothing."""


def run(task: TrialTask, connection: TrialConnection) -> None:
    """Sleeps, and sends a value that a sampler can learn from."""
    settings = dict(word.split("=", 1) for word in task.arguments)
    time.sleep(0.001)
    connection.send(TrialOutcome("complete", [1 - abs(float(settings["loss.penalty"]) - 0.3)]))


class Clock:
    """Adds up the time inside the methods that it wraps."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def wrap(self, target: Any, name: str) -> None:
        """Wraps a method of an object."""
        function: Callable[..., Any] = getattr(target, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.perf_counter() - began

        setattr(target, name, timed)


class Readings:
    """Prints the mean times of a trial, once in `every` trials."""

    def __init__(self, every: int, begun: int, sampling: Clock, waiting: Clock) -> None:
        self._every = every
        self._clocks = (sampling, waiting)
        self._count = begun
        self._last = (time.perf_counter(), 0.0, 0.0)

    def started(self, trial: RunningTrial) -> None:
        """Ignores starts."""

    def message(self, text: str) -> None:
        """Ignores messages."""

    def tick(self) -> float | None:
        """Asks for no further call."""
        return None

    def ended(self, trial: RunningTrial, outcome: TrialOutcome) -> None:
        """Counts a trial."""
        self._count += 1
        if self._count % self._every == 0:
            now = (time.perf_counter(), *(clock.seconds for clock in self._clocks))
            total, sampling, waiting = (
                1000 * (after - before) / self._every for after, before in zip(now, self._last, strict=True)
            )
            scheduler = total - sampling - waiting
            print(f"{self._count:>8}{scheduler:>10.2f}{sampling:>10.2f}{waiting:>10.2f}{total:>10.2f}", flush=True)
            self._last = now


def work(folder: str, options: Mapping[str, str], sampler: str, trials: int) -> None:
    """Runs the study of a folder until it has `trials` trials, and prints their times."""
    words = [*SPACE, f"trials={trials}", f"sampler={sampler}", "pruner=none", "study=owner"]
    plan = read_plan([*words, f"output_dir={folder}"])
    sampling, waiting = Clock(), Clock()
    real = study_module.build_sampler

    def timed_sampler(*args: Any, **kwargs: Any) -> Any:
        sampler = real(*args, **kwargs)
        for name in SAMPLING:
            sampling.wrap(sampler, name)
        return sampler

    study_module.build_sampler = timed_sampler
    waiting.wrap(local, "wait")
    with SweepStudy.open(plan, Path(folder)) as study:
        slots = [Slot(f"CPU {number}", (), 1) for number in range(int(options["slots"]))]
        readings = Readings(int(options["every"]), study.finished(), sampling, waiting)
        engine = local.LocalEngine("sweep_owner", [], Path(folder) / "server.txt")
        print(f"{'trials':>8}{'scheduler':>10}{'sampler':>10}{'waited':>10}{'all':>10}   ms a trial, {sampler}")
        Scheduler([study], slots, engine, [readings]).run()
    study_module.build_sampler = real


def main(arguments: list[str]) -> None:
    """Prints milliseconds a trial of the scheduler, of the sampler, and of waiting for trials."""
    options = {"trials": "1000", "sampler": "tpe", "slots": "2", "every": "250", "random": "0"}
    options |= dict(word.split("=", 1) for word in arguments)
    with tempfile.TemporaryDirectory() as folder:
        if options["random"] != "0":
            work(folder, options, "random", int(options["random"]))
        work(folder, options, options["sampler"], int(options["trials"]))


if __name__ == "__main__":
    main(sys.argv[1:])
