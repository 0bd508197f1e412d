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

from sentattn.config.request import read_request
from sentattn.config.search_space import first_point
from sentattn.grid import prepare_data
from sentattn.jobs import scheduler
from sentattn.jobs.pool import LocalPool
from sentattn.jobs.progress import JobProgress
from sentattn.jobs.scheduler import RunningJob
from sentattn.jobs.slots import Slot
from sentattn.sweep.config import read_plan
from sentattn.sweep.records import TrialTask
from sentattn.sweep.study import SweepStudy

SHORT = ("logger=none", "trainer.max_epochs=1", "trainer.accelerator=cpu", "sampler=random", "pruner=none")
RANGES = ("model.attention.hops=range(1,9)", "optimizer.lr=interval(0.001,0.01)")
BUILT = "The tokenized corpus is cached in"
READ, BYTES, FIRST = re.compile(r"rchar: (\d+)"), "read.txt", "first.txt"


def train(task: TrialTask, threads: int, devices: int) -> None:
    """Trains, and records when the first batch began and how many bytes were read from files."""
    from sentattn.sweep import trial

    def note(*_: object) -> None:
        if not (task.folder / FIRST).exists():
            (task.folder / FIRST).write_text(str(time.monotonic()))  # a clock that all processes share

    before = _read()
    trial.ReportEpochs.on_train_batch_start = note  # type: ignore[method-assign, assignment]  # in this process alone
    trial.run_trial(task, threads, devices)
    (task.folder / BYTES).write_text(str(_read() - before))


def _read() -> int:
    match = READ.search(Path("/proc/self/io").read_text())
    assert match, "Linux counts the bytes that a process reads"
    return int(match[1])


class Gaps(JobProgress):
    """Records the times between consecutive trials on a slot."""

    last = 0.0

    def message(self, text: str) -> None:
        """Prints nothing."""

    def ended(self, running: RunningJob, text: str) -> None:
        """Records the first batch and the end of a trial; the very first one waits for the server and counts not."""
        assert text.startswith("val/"), text
        began = float((running.job.folder / FIRST).read_text())
        if self.last:
            to_first_batch.append(began - running.since)
            gaps.append(began - self.last)
        self.last = time.monotonic()


to_first_batch: list[float] = []
gaps: list[float] = []


def main(arguments: list[str]) -> None:
    """Runs a short sweep on one slot and prints seconds and bytes."""
    keys = {word.partition("=")[0] for word in arguments}
    defaults = [word for word in ("trials=8", *SHORT) if word.partition("=")[0] not in keys]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = read_plan([*defaults, *RANGES, *arguments, "study=gap", f"output_dir={name}"])
        prepare_data(read_request(plan.arguments(first_point(plan.space))).settings)
        with SweepStudy.open(plan, folder, train) as study:
            scheduler.run([study], [Slot("CPU", (), 1)], LocalPool(), Gaps([study], 1))
        read = [int(file.read_text()) / 1e6 for file in folder.glob(f"trials/*/{BYTES}")]
        built = sum(BUILT in file.read_text(errors="replace") for file in folder.glob("trials/*/log.txt"))
    print(f"start of a trial to its first batch: {_spread(to_first_batch)} s")
    print(f"end of a trial to the first batch of the next: {_spread(gaps)} s")
    print(f"read from files, MB a trial: {_spread(read)}; trials that built a corpus: {built}")


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main(sys.argv[1:])
