"""What lies between two trials on a slot: from the end of one to the first batch of the next; and what they read.

usage: python benchmarks/sweep_gap.py [trials=8] [SETTING ...]

Of each trial the bytes that it read from files are told; a memory map that is already in memory takes none. Run it
twice with data that is not in the cache yet: the second time counts.

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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentattn.sweep.callbacks import RunningTrial, TrialOutcome
from sentattn.sweep.config import read_plan
from sentattn.sweep.engines import TrialConnection, TrialTask
from sentattn.sweep.engines.local import LocalEngine
from sentattn.sweep.resources import Slot
from sentattn.sweep.scheduler import Scheduler
from sentattn.sweep.study import SweepStudy

SHORT = ("logger=none", "trainer.max_epochs=1", "trainer.accelerator=cpu", "sampler=random", "pruner=none")
RANGES = ("model.attention.hops=range(1,9)", "optimizer.lr=interval(0.001,0.01)")
BUILT = "The tokenized corpus is kept"
READ, BYTES = re.compile(r"rchar: (\d+)"), "read.txt"


def preload(studies: Any) -> None:
    """Imports and prepares as for any sweep."""
    from sentattn.sweep import trial

    trial.preload(studies)


def prepare(studies: Any) -> None:
    """Prepares as for any sweep."""
    from sentattn.sweep import trial

    trial.prepare(studies)


def run(task: TrialTask, connection: TrialConnection) -> None:
    """Trains, and writes down how much was read from files."""
    from sentattn.sweep import trial

    before = _read()
    trial.run(task, connection)
    (Path(task.directory) / BYTES).write_text(str(_read() - before))


def _read() -> int:
    found = READ.search(Path("/proc/self/io").read_text())
    assert found, "Linux counts what a process reads"
    return int(found[1])


class Gaps:
    """Notes moments of trials that follow one another on a slot."""

    def __init__(self) -> None:
        self.handed: dict[int, float] = {}
        self.to_first_batch: list[float] = []
        self.gaps: list[float] = []
        self._ended: float | None = None

    def started(self, trial: RunningTrial) -> None:
        """A trial was handed over."""
        self.handed[trial.number] = time.monotonic()

    def moved(self, trial: RunningTrial, metrics: Mapping[str, float]) -> None:
        """Its first batch has come, or an epoch ended."""
        if (
            not metrics and trial.first_batch is not None and self._ended is not None
        ):  # the very first waits for the server
            self.to_first_batch.append(trial.first_batch - self.handed[trial.number])
            self.gaps.append(trial.first_batch - self._ended)

    def ended(self, trial: RunningTrial, how: TrialOutcome) -> None:
        """Its process has ended."""
        assert how.state == "complete", how.report
        self._ended = time.monotonic()

    def message(self, text: str) -> None:
        """Nothing is said that matters here."""

    def tick(self) -> float | None:
        """Nothing is shown."""
        return None


def main(arguments: list[str]) -> None:
    """Runs a short sweep on one slot and prints seconds and bytes."""
    trials = next((word for word in arguments if word.startswith("trials=")), "trials=8")
    own = [word for word in arguments if word != trials]
    named = {word.partition("=")[0] for word in own}
    usual = [word for word in SHORT if word.partition("=")[0] not in named]
    with tempfile.TemporaryDirectory() as folder:
        plan = read_plan([*usual, *RANGES, *own, trials, "study=gap", f"output_dir={folder}"])
        gaps = Gaps()
        with SweepStudy.open(plan, Path(folder)) as study:
            engine = LocalEngine("sweep_gap", [plan.arguments({})], Path(folder) / "server.txt")
            Scheduler([study], [Slot("CPU", (), 1)], engine, [gaps]).run()
        read = [int(file.read_text()) for file in Path(folder).glob(f"trials/*/{BYTES}")]
        built = sum(BUILT in file.read_text(errors="replace") for file in Path(folder).glob("trials/*/log.txt"))
    print(f"handed over to first batch: {_spread(gaps.to_first_batch)} s")
    print(f"end of a trial to the first batch of the next: {_spread(gaps.gaps)} s")
    print(f"read from files, MB a trial: {_spread([size / 1e6 for size in read])}; trials that built a corpus: {built}")


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main(sys.argv[1:])
