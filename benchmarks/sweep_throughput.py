"""Measures trials an hour on one CPU slot and on two, or the scheduler's own time for a trial on many.

usage: python benchmarks/sweep_throughput.py [rounds=3] [trials=8] [SETTING ...]
       python benchmarks/sweep_throughput.py scheduler [slots=10] [trials=300] [SETTING ...]

Trials an hour are counted from the start of the first trial, when the server is warm, to the end of the last one, in
interleaved rounds; each trial has one thread, and all cost the same. With `scheduler`, trials end at once: what is left
is what the scheduler takes to ask the sampler, to write, and to read what trials have written.

Example:
  python benchmarks/sweep_throughput.py data.limit=2000
  python benchmarks/sweep_throughput.py scheduler slots=100 sampler=tpe
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sentattn.config.request import read_request
from sentattn.config.search_space import first_point
from sentattn.grid import prepare_data
from sentattn.jobs import scheduler
from sentattn.jobs.pool import LocalPool
from sentattn.jobs.progress import JobProgress
from sentattn.jobs.scheduler import RunningJob
from sentattn.jobs.slots import Slot
from sentattn.sweep.config import read_plan
from sentattn.sweep.records import TrialReport
from sentattn.sweep.search import run_trial
from sentattn.sweep.study import SweepStudy

SHORT = ("logger=none", "trainer.max_epochs=2", "trainer.accelerator=cpu", "sampler=random", "pruner=none")
RANGE = "optimizer.lr=interval(0.004,0.006)"
SPACE = ("optimizer.lr=tag(log,interval(1e-4,1e-1))", "model.attention.hops=range(1,31)", "loss.penalty=interval(0,1)")


class Span(JobProgress):
    """Records when the first trial began and the last one ended."""

    began, ended_at = float("inf"), 0.0

    def message(self, text: str) -> None:
        """Prints nothing."""

    def ended(self, running: RunningJob, text: str) -> None:
        """Records the start of a trial, and its end."""
        assert text.startswith("val/"), text
        self.began, self.ended_at = min(self.began, running.since), time.monotonic()


class NoPool:
    """Trials that end at once, whose time is not the scheduler's."""

    seconds = 0.0

    def start(self, function: Callable[..., None], arguments: tuple[Any, ...], log: Path, slot: Slot) -> Any:
        """Returns a trial that has ended as soon as it is asked for."""
        return Done(arguments[0])

    def ended(self, running: Iterable[Any], seconds: float) -> list[Any]:
        """Ends the first trial: its process would record a value that a sampler can learn from."""
        began = time.perf_counter()
        trial = next(iter(running))
        TrialReport(trial.task).end([1 - abs(float(trial.task.values["loss.penalty"]) - 0.3)])
        self.seconds += time.perf_counter() - began
        return [trial]


class Done:
    """A trial that has ended."""

    def __init__(self, task: Any) -> None:
        self.task = task

    def join(self) -> int:
        """Returns its exit code."""
        return 0


@contextmanager
def study_of(settings: list[str]) -> Any:
    """Opens a new study."""
    with tempfile.TemporaryDirectory() as folder:
        plan = read_plan([*settings, "study=throughput", f"output_dir={folder}"])
        with SweepStudy.open(plan, Path(folder), run_trial) as study:
            yield study


def trials_an_hour(slots: int, trials: int, settings: list[str]) -> float:
    """Runs a sweep and returns its trials an hour."""
    with study_of([*settings, RANGE, f"trials={trials}"]) as study:
        prepare_data(read_request(study.plan.arguments(first_point(study.plan.space))).settings)
        span = Span([study], slots)
        scheduler.run([study], [Slot(f"CPU {number}", (), 1) for number in range(slots)], LocalPool(), span)
    return 3600 * trials / (span.ended_at - span.began)


def scheduler_time(slots: int, trials: int, settings: list[str]) -> float:
    """Returns the scheduler's seconds for a trial."""
    pool = NoPool()
    with study_of([*settings, *SPACE, f"trials={trials}"]) as study:
        began = time.perf_counter()
        scheduler.run([study], [Slot(str(number), (), 1) for number in range(slots)], pool, Span([study], slots))
        return (time.perf_counter() - began - pool.seconds) / trials


def main(arguments: list[str]) -> None:
    """Prints the trials an hour of one slot and of two, each round, and their ratio; or the scheduler's time."""
    is_of_scheduler = arguments[:1] == ["scheduler"]
    counts = {"slots": 10, "trials": 300} if is_of_scheduler else {"rounds": 3, "trials": 8}
    counts |= {key: int(text) for key, _, text in (word.partition("=") for word in arguments) if key in counts}
    typed = [word for word in arguments[is_of_scheduler:] if word.partition("=")[0] not in counts]
    keys = {word.partition("=")[0] for word in typed}
    settings = [*typed, *(word for word in SHORT if word.partition("=")[0] not in keys)]
    if is_of_scheduler:
        print(f"{1000 * scheduler_time(counts['slots'], counts['trials'], settings):.0f} ms a trial")
        return
    ratios = []
    for number in range(1, counts["rounds"] + 1):
        one, two = (trials_an_hour(slots, counts["trials"], settings) for slots in (1, 2))
        ratios.append(two / one)
        print(f"round {number}: one slot {one:.0f}, two {two:.0f} trials an hour, {two / one:.2f} times", flush=True)
    print(f"median {statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main(sys.argv[1:])
