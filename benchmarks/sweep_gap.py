"""Measures the time from the end of a trial to the first batch of the next on a slot, and the bytes that trials read.

usage: python benchmarks/sweep_gap.py [trials=8] [SETTING ...]

The bytes that each trial read from files are printed; a memory map that is already in memory reads none. If the data is
not in the cache yet, run it twice and use the second result.

Examples:
  python benchmarks/sweep_gap.py
  python benchmarks/sweep_gap.py data=imdb data.path=aclImdb_v1.tar.gz data.limit=2000
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sentattn.sweep.execution.interfaces import RunningTrial, TrialConnection, TrialOutcome, TrialTask
from sentattn.sweep.execution.local import LocalEngine
from sentattn.sweep.execution.resources import Slot
from sentattn.sweep.execution.scheduler import Scheduler
from sentattn.sweep.spec.config import read_plan
from sentattn.sweep.study.study import SweepStudy

SHORT = ("logger=none", "trainer.max_epochs=1", "trainer.accelerator=cpu", "sampler=random", "pruner=none")
RANGES = ("model.attention.hops=range(1,9)", "optimizer.lr=interval(0.001,0.01)")
BUILT = "The tokenized corpus is cached in"
READ, BYTES = re.compile(r"rchar: (\d+)"), "read.txt"


def preload(studies: Any) -> None:
    """Imports what every trial needs, and fills the caches with the data of the studies."""
    from sentattn.sweep.execution import trial

    trial.preload(studies)


def run(task: TrialTask, connection: TrialConnection) -> None:
    """Trains, and records how many bytes were read from files."""
    from sentattn.sweep.execution import trial

    before = _read()
    trial.run(task, connection)
    (task.folder / BYTES).write_text(str(_read() - before))


def _read() -> int:
    match = READ.search(Path("/proc/self/io").read_text())
    assert match, "Linux counts the bytes that a process reads"
    return int(match[1])


class Gaps:
    """Records the times between consecutive trials on a slot."""

    def __init__(self) -> None:
        self.assigned: dict[int, float] = {}
        self.to_first_batch: list[float] = []
        self.gaps: list[float] = []
        self._ended: float | None = None

    def started(self, trial: RunningTrial) -> None:
        """Records when a trial was assigned."""
        self.assigned[trial.task.number] = time.monotonic()

    def ended(self, trial: RunningTrial, outcome: TrialOutcome) -> None:
        """Records the first batch and the end of a trial."""
        assert outcome.state == "complete", outcome.error
        # The very first trial waits for the server, so it is not counted.
        if trial.first_batch is not None and self._ended is not None:
            self.to_first_batch.append(trial.first_batch - self.assigned[trial.task.number])
            self.gaps.append(trial.first_batch - self._ended)
        self._ended = time.monotonic()

    def message(self, text: str) -> None:
        """Ignores messages."""

    def tick(self) -> float | None:
        """Asks for no further call."""
        return None


def main(arguments: list[str]) -> None:
    """Runs a short sweep on one slot and prints seconds and bytes."""
    trials = next((word for word in arguments if word.startswith("trials=")), "trials=8")
    settings = [word for word in arguments if word != trials]
    keys = {word.partition("=")[0] for word in settings}
    defaults = [word for word in SHORT if word.partition("=")[0] not in keys]
    with tempfile.TemporaryDirectory() as folder:
        plan = read_plan([*defaults, *RANGES, *settings, trials, "study=gap", f"output_dir={folder}"])
        gaps = Gaps()
        with SweepStudy.open(plan, Path(folder)) as study:
            engine = LocalEngine("sweep_gap", [plan.arguments({})], Path(folder) / "server.txt")
            Scheduler([study], [Slot("CPU", (), 1)], engine, [gaps]).run()
        read = [int(file.read_text()) for file in Path(folder).glob(f"trials/*/{BYTES}")]
        built = sum(BUILT in file.read_text(errors="replace") for file in Path(folder).glob("trials/*/log.txt"))
    print(f"assignment to first batch: {_spread(gaps.to_first_batch)} s")
    print(f"end of a trial to the first batch of the next: {_spread(gaps.gaps)} s")
    print(f"read from files, MB a trial: {_spread([size / 1e6 for size in read])}; trials that built a corpus: {built}")


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main(sys.argv[1:])
