"""Times what commands do besides training: the start of a training, the time between trials, and the scheduler's own.

usage: python benchmarks/commands.py start [SETTING ...]
       python benchmarks/commands.py gap [trials=8] [SETTING ...]
       python benchmarks/commands.py throughput [rounds=3] [trials=8] [SETTING ...]
       python benchmarks/commands.py scheduler [slots=10] [trials=300] [SETTING ...]

  start       seconds from the end of the imports to the first training batch. Run it twice and use the second result:
              corpus and states are in the cache then
  gap         seconds from the end of a trial to the first batch of the next on a slot
  throughput  trials an hour on one CPU slot and on two, in interleaved rounds: from the start of the first trial, when
              the server is warm, to the end of the last one; each trial has one thread, and all cost the same
  scheduler   its time for a trial that ends at once: to ask the sampler, to write, and to read what trials have written
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from measure import read_options, spread, with_defaults

from sentattn.config.request import read_request
from sentattn.config.search_space import first_point
from sentattn.console import Progress
from sentattn.grid import prepare_data
from sentattn.jobs import scheduler
from sentattn.jobs.job import RunningJob
from sentattn.jobs.pool import LocalPool
from sentattn.jobs.progress import JobProgress
from sentattn.jobs.slots import Slot
from sentattn.sweep.config import read_plan
from sentattn.sweep.records import TrialReport, TrialTask
from sentattn.sweep.search import run_trial
from sentattn.sweep.study import SweepStudy
from sentattn.training.prepare import build_data, build_module, choose_precision, set_up
from sentattn.training.states import use_cached_states

SHORT = ("logger=none", "trainer.max_epochs=1", "trainer.accelerator=cpu", "sampler=random", "pruner=none")
LEARNING_RATE, HOPS = "optimizer.lr=interval(0.004,0.006)", "model.attention.hops=range(1,9)"
SPACE = ("optimizer.lr=tag(log,interval(1e-4,1e-1))", "model.attention.hops=range(1,31)", "loss.penalty=interval(0,1)")
FIRST = "first.txt"


def start(words: list[str]) -> None:
    """Prints the seconds of each step to the first batch."""
    started = time.perf_counter()
    settings = read_request(words).settings
    settings = replace(settings, trainer=choose_precision(settings.trainer))
    composed = time.perf_counter()
    with Progress() as progress:
        evaluator, _ = set_up(settings, progress)
        data = build_data(settings, progress)
        module = build_module(settings, data)
        prepared = time.perf_counter()
        use_cached_states(data, module.model, evaluator.strategy.root_device, progress, test=settings.test)
    cached = time.perf_counter()
    batch = next(iter(data.train_dataloader()))
    ended = time.perf_counter()
    print(
        f"settings {composed - started:.2f} s, corpus and model {prepared - composed:.2f} s, "
        f"states {cached - prepared:.2f} s, batch {ended - cached:.3f} s"
    )
    print(f"first batch {tuple(batch.tokens_BL.shape)} after {ended - started:.2f} s")


class Trials(JobProgress):
    """Records when trials began, when their first batch did, and when they ended."""

    def __init__(self, studies: list[SweepStudy], slots: int) -> None:
        super().__init__(studies, slots)
        self.began, self.first, self.ended_at = list[float](), list[float](), list[float]()

    def message(self, text: str) -> None:
        """Prints nothing."""

    def ended(self, running: RunningJob, text: str) -> None:
        """Records a trial."""
        assert text.startswith("val/"), text
        self.began.append(running.since)
        self.ended_at.append(time.monotonic())
        if (file := running.job.folder / FIRST).exists():
            self.first.append(float(file.read_text()))


@contextmanager
def study_of(settings: list[str], train: Callable[..., None]) -> Iterator[SweepStudy]:
    """Opens a new study whose trials call a function."""
    with tempfile.TemporaryDirectory() as folder:
        plan = read_plan([*with_defaults(settings, *SHORT), "study=benchmark", f"output_dir={folder}"])
        with SweepStudy.open(plan, Path(folder), train) as study:
            yield study


def run(study: SweepStudy, slots: int) -> Trials:
    """Runs the trials of a study on slots of the CPU."""
    prepare_data(read_request(study.plan.arguments(first_point(study.plan.space))).settings)
    trials = Trials([study], slots)
    scheduler.run([study], [Slot(f"CPU {number}", (), 1) for number in range(slots)], LocalPool(), trials)
    return trials


def run_noted_trial(task: TrialTask, threads: int, devices: int) -> None:
    """Trains, and notes when the first batch began."""
    from sentattn.sweep import trial

    def note(*_: object) -> None:
        if not (task.folder / FIRST).exists():
            (task.folder / FIRST).write_text(str(time.monotonic()))  # a clock that all processes share

    trial.ReportEpochs.on_train_batch_start = note  # type: ignore[method-assign, assignment]  # in this process alone
    run_trial(task, threads, devices)


def gap(words: list[str]) -> None:
    """Prints seconds of the trials of a short sweep on one slot."""
    options, settings = read_options(words, trials=8)
    with study_of([*settings, HOPS, LEARNING_RATE, f"trials={options['trials']}"], run_noted_trial) as study:
        trials = run(study, 1)
    # The first trial waits for the server.
    starts = [first - began for first, began in zip(trials.first, trials.began, strict=True)][1:]
    gaps = [first - ended for first, ended in zip(trials.first[1:], trials.ended_at, strict=False)]
    print(f"start of a trial to its first batch: {spread(starts)} s")
    print(f"end of a trial to the first batch of the next: {spread(gaps)} s")


def throughput(words: list[str]) -> None:
    """Prints the trials an hour of one slot and of two, each round, and their ratio."""
    options, settings = read_options(words, rounds=3, trials=8)
    settings = with_defaults(settings, "trainer.max_epochs=2")
    ratios = []
    for number in range(1, options["rounds"] + 1):
        one, two = (trials_an_hour(slots, options["trials"], settings) for slots in (1, 2))
        ratios.append(two / one)
        print(f"round {number}: one slot {one:.0f}, two {two:.0f} trials an hour, {two / one:.2f} times", flush=True)
    print(f"{spread(ratios)} times")


def trials_an_hour(slots: int, count: int, settings: list[str]) -> float:
    """Runs a sweep and returns its trials an hour."""
    with study_of([*settings, LEARNING_RATE, f"trials={count}"], run_trial) as study:
        trials = run(study, slots)
    return 3600 * count / (max(trials.ended_at) - min(trials.began))


class NoPool:
    """Trials that end at once, whose time is not the scheduler's."""

    seconds = 0.0

    def start(self, function: Callable[..., None], arguments: tuple[Any, ...], log: Path, slot: Slot) -> Any:
        """Returns a trial that has ended as soon as it is asked for."""
        return Mock(task=arguments[0], join=lambda: 0)

    def ended(self, running: Iterable[Any], seconds: float) -> list[Any]:
        """Ends the first trial: its process would record a value that a sampler can learn from."""
        began = time.perf_counter()
        trial = next(iter(running))
        TrialReport(trial.task).end([1 - abs(float(trial.task.values["loss.penalty"]) - 0.3)])
        self.seconds += time.perf_counter() - began
        return [trial]


def scheduler_time(words: list[str]) -> None:
    """Prints the scheduler's milliseconds for a trial."""
    options, settings = read_options(words, slots=10, trials=300)
    slots, count, pool = options["slots"], options["trials"], NoPool()
    with study_of([*settings, *SPACE, f"trials={count}"], run_trial) as study:
        began = time.perf_counter()
        scheduler.run([study], [Slot(str(n), (), 1) for n in range(slots)], pool, Trials([study], slots))
        print(f"{1000 * (time.perf_counter() - began - pool.seconds) / count:.0f} ms a trial")


if __name__ == "__main__":
    measures = {"start": start, "gap": gap, "throughput": throughput, "scheduler": scheduler_time}
    measures[sys.argv[1]](sys.argv[2:])
