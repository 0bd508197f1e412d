"""Measures trials an hour on one CPU slot and on two, each with one thread, in interleaved rounds.

usage: python benchmarks/sweep_throughput.py [rounds=3] [trials=8] [SETTING ...]

The time is from the start of the first trial, when the server is warm, to the end of the last one. All trials cost the
same.

Example:
  python benchmarks/sweep_throughput.py data.limit=2000
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from sentattn.sweep.execution.interfaces import RunningTrial, TrialOutcome
from sentattn.sweep.execution.local import LocalEngine
from sentattn.sweep.execution.resources import Slot
from sentattn.sweep.execution.scheduler import Scheduler
from sentattn.sweep.spec.config import read_plan
from sentattn.sweep.study.study import SweepStudy

SHORT = ("logger=none", "trainer.max_epochs=2", "trainer.accelerator=cpu", "sampler=random", "pruner=none")
RANGE = "optimizer.lr=interval(0.004,0.006)"


class Span:
    """Records when the first trial began and the last one ended."""

    def __init__(self) -> None:
        self.began = float("inf")
        self.ended_at = 0.0

    def started(self, trial: RunningTrial) -> None:
        """Ignores the assignment: the trial may have to wait for the server."""

    def ended(self, trial: RunningTrial, outcome: TrialOutcome) -> None:
        """Records the start of a trial's process, and its end."""
        assert outcome.state == "complete", outcome.error
        self.began = min(self.began, trial.since)
        self.ended_at = time.monotonic()

    def message(self, text: str) -> None:
        """Ignores messages."""

    def tick(self) -> float | None:
        """Asks for no further call."""
        return None


def trials_an_hour(slots: int, trials: int, settings: list[str]) -> float:
    """Runs a sweep and returns its trials an hour."""
    with tempfile.TemporaryDirectory() as folder:
        plan = read_plan([*settings, RANGE, f"trials={trials}", "study=throughput", f"output_dir={folder}"])
        span = Span()
        with SweepStudy.open(plan, Path(folder)) as study:
            cpu_slots = [Slot(f"CPU {number}", (), 1) for number in range(slots)]
            engine = LocalEngine("sentattn.sweep.execution.trial", [plan.arguments({})], Path(folder) / "server.txt")
            Scheduler([study], cpu_slots, engine, [span]).run()
    return 3600 * trials / (span.ended_at - span.began)


def main(arguments: list[str]) -> None:
    """Prints the trials an hour of one slot and of two, each round, and their ratio."""
    counts = {"rounds": 3, "trials": 8}
    counts |= {key: int(text) for key, _, text in (word.partition("=") for word in arguments) if key in counts}
    typed = [word for word in arguments if word.partition("=")[0] not in counts]
    keys = {word.partition("=")[0] for word in typed}
    settings = [*typed, *(word for word in SHORT if word.partition("=")[0] not in keys)]
    ratios = []
    for number in range(1, counts["rounds"] + 1):
        one, two = (trials_an_hour(slots, counts["trials"], settings) for slots in (1, 2))
        ratios.append(two / one)
        print(f"round {number}: one slot {one:.0f}, two {two:.0f} trials an hour, {two / one:.2f} times", flush=True)
    print(f"median {statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main(sys.argv[1:])
