"""Simulates a sweep on many slots: what the schedulers, the sampler and the database take, and how long slots idle.

usage: python benchmarks/cluster.py [slots=100] [trials=500] [schedulers=1] [minutes=1] [epochs=0] [sampler=tpe] ...

Trials only last: `minutes` each, a quarter more or less, and report after each of `epochs`. A scheduler that waits for
one does not wait really; its clock moves on instead, so that an hour takes as long as the work of the schedulers. All
that work is real, in a process for each scheduler. It is measured from when all slots have had their first trial. A
slot is idle from the end of a trial until its next one begins. Other words are those of a sweep.
"""

from __future__ import annotations

import heapq
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from sentattn.sweep.execution.interfaces import Engine, Message, Report, RunningTrial, SweepCallback, TrialOutcome
from sentattn.sweep.execution.resources import Slot
from sentattn.sweep.execution.scheduler import Scheduler
from sentattn.sweep.spec.config import read_plan
from sentattn.sweep.study.records import read
from sentattn.sweep.study.study import SweepStudy

SPACE = ("optimizer.lr=tag(log,interval(1e-4,1e-1))", "model.attention.hops=range(1,31)", "loss.penalty=interval(0,1)")
OWN = {"slots": 100, "trials": 500, "schedulers": 1, "minutes": 1.0, "epochs": 0}


class SimulatedEngine(Engine):
    """Trials that last, on a clock that skips the time in which nothing happens.

    Attributes:
        idle: Seconds between the end of a slot's trial and the beginning of its next one.
        slept: Seconds in which there was no trial of this scheduler's.
        began: When all slots had a trial: the time, and that of the processor.
    """

    def __init__(self, minutes: float, epochs: int, seed: int) -> None:
        self._seconds = 60 * minutes
        self._epochs = epochs
        self._draw = np.random.default_rng(seed)
        self._events: list[tuple[float, str, RunningTrial, int]] = []
        self._free: dict[Slot, float] = {}
        self._skipped = 0.0
        self.slept = 0.0
        self.idle: list[float] = []
        self.began: tuple[float, float] | None = None

    def now(self) -> float:
        """Returns the time of the simulation in seconds."""
        return time.perf_counter() + self._skipped

    def prepare(self) -> None:
        """Needs nothing."""

    def start(self, trial: RunningTrial) -> None:
        """Begins a trial, which ends by itself."""
        now = self.now()
        if trial.slot in self._free:
            self.idle.append(now - self._free.pop(trial.slot))
        seconds = self._seconds * self._draw.uniform(0.75, 1.25) / (self._epochs + 1)
        for step in range(1, self._epochs + 2):
            heapq.heappush(self._events, (now + step * seconds, trial.key, trial, step))

    def messages(self, seconds: float) -> Iterable[tuple[RunningTrial, Message]]:
        """Yields what trials have reported and how they ended; where there is nothing, it skips to the next."""
        self.began = self.began or (time.perf_counter(), time.process_time())
        if not self._events:  # other schedulers still have some
            began = time.perf_counter()
            time.sleep(min(0.1, seconds))
            self.slept += time.perf_counter() - began
            return
        self._skipped += max(0.0, self._events[0][0] - self.now())
        while self._events and self._events[0][0] <= self.now():
            ended, _, trial, step = heapq.heappop(self._events)
            value = 1 - abs(float(str(trial.task.values["loss.penalty"])) - 0.3)
            if step <= self._epochs:
                yield trial, Report(step, value)
            else:
                self._free[trial.slot] = ended
                yield trial, TrialOutcome("complete", [value])

    def reply(self, trial: RunningTrial, *, prune: bool) -> None:
        """Lets the trial go on: none is pruned."""

    def stop(self, trial: RunningTrial) -> None:
        """Is not called: nobody stops a simulation."""

    def kill(self, trial: RunningTrial) -> None:
        """Is not called: no trial is late."""

    def __exit__(self, *_: object) -> None:
        """Has no processes."""


class Count(SweepCallback):
    """Counts the trials of a scheduler."""

    trials = 0

    def started(self, trial: RunningTrial) -> None:
        """Counts one."""
        self.trials += 1

    def tick(self) -> float | None:
        """Asks for no further call."""
        return None


def schedule(number: int, words: list[str], folder: str, own: dict[str, float], results: Any) -> None:
    """Runs a scheduler, and sends its trials, seconds of work, those of its processor, and idle ones of its slots."""
    plan = read_plan([*SPACE, *words, f"trials={own['trials']:.0f}", f"output_dir={folder}"])
    share = int(own["slots"] / own["schedulers"])
    slots = [Slot(f"slot {index}", (), 1) for index in range(share)]
    engine, count = SimulatedEngine(own["minutes"], int(own["epochs"]), number), Count()
    with SweepStudy.open(plan, Path(folder) / plan.study) as study:
        Scheduler([study], slots, engine, [count]).run()
        assert engine.began
        spent = time.perf_counter() - engine.began[0] - engine.slept, time.process_time() - engine.began[1]
    results.put((count.trials - share, *spent, engine.idle))


def main(arguments: list[str]) -> None:
    """Prints a line of numbers."""
    given = dict(word.split("=", 1) for word in arguments)
    own = {key: float(given.pop(key, value)) for key, value in OWN.items()}
    words = [f"{key}={value}" for key, value in ({"study": f"simulated-{os.getpid()}"} | given).items()]
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        results = context.Queue()
        processes = [
            context.Process(target=schedule, args=(number, words, folder, own, results))
            for number in range(int(own["schedulers"]))
        ]
        for process in processes:
            process.start()
        ended = [results.get() for _ in processes]
        for process in processes:
            process.join()
        study = dict(word.split("=", 1) for word in words)
        states = Counter(record.state for record in read(Path(folder) / study["study"], study.get("storage")))
    trials = sum(one[0] for one in ended)
    idle = [seconds for one in ended for seconds in one[3]]
    share = statistics.fmean(idle) / (60 * own["minutes"] + statistics.fmean(idle))
    per_trial = 1000 * sum(one[1] for one in ended) / trials
    processor = 1000 * sum(one[2] for one in ended) / trials
    print(
        f"{own['slots']:.0f} slots, {own['schedulers']:.0f} schedulers, {given.get('sampler', 'tpe')}: {dict(states)}; "
        f"{per_trial:.1f} ms a trial ({processor:.1f} of the processor); idle {share:.2%}, "
        f"at most {max(idle):.1f} s"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
