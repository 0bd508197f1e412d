"""Progress of jobs: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sentattn.config.types import format_values
from sentattn.jobs.job import JobSource, RunningJob
from sentattn.run import METRICS_FILE, Run

REFRESH = 0.5
"""Seconds between two drawings of the table."""


class JobProgress:
    """Prints a line for each job that ends; on a terminal, running jobs are a table under these lines.

    Args:
        sources: The studies, or the grid.
        slots: How many jobs run at once.
        console: Where it prints.
    """

    def __init__(self, sources: Sequence[JobSource], slots: int, console: Console | None = None) -> None:
        self._sources = sources
        self._slots = slots
        self._console = console or Console()
        is_terminal = self._console.is_terminal
        self._table = Live(console=self._console, auto_refresh=False, transient=True) if is_terminal else None
        self._drawn = 0.0
        self._seconds: list[float] = []
        self._epochs: dict[Path, int] = {}

    def __enter__(self) -> JobProgress:
        if self._table:
            self._table.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._table:
            self._table.stop()

    def message(self, text: str) -> None:
        if self._table:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:  # in a notebook, rich would show each line as an output of its own
            print(text, file=self._console.file, flush=True)

    def started(self, running: RunningJob) -> None:
        self._drawn = 0.0
        if self._table is None:
            values = format_values(running.job.values)
            values = "" if values == running.job.name else f": {values}"
            self.message(f"{self._name(running)} on {running.slot.name}{values}")

    def ended(self, running: RunningJob, text: str) -> None:
        self._drawn = 0.0
        self._seconds.append(time.monotonic() - running.since)
        state = self._state(running.source)
        if self._table:  # which holds the time left
            state = state.partition(",")[0]
        result, *log = text.splitlines()
        self.message(f"{self._name(running)}: {result} ({self._seconds[-1]:.0f} s); {state}")
        for line in log:
            self.message(f"    {line}")

    def draw(self, running: Sequence[RunningJob]) -> None:
        if self._table and time.monotonic() - self._drawn >= REFRESH:
            self._drawn = time.monotonic()
            self._table.update(Group(self._rows(running), *map(self._summary, self._sources)), refresh=True)

    def _rows(self, running: Sequence[RunningJob]) -> Table:
        table = Table(box=None, pad_edge=False)
        for name in ("job", "where", "epoch", "value", "for", "varies"):
            table.add_column(name, no_wrap=name != "varies")
        for each in running:
            epoch, value = self._reached(each)
            values, name = format_values(each.job.values), self._name(each).removeprefix("trial ")
            name = str(each.job.number) if name == values else name
            taken = duration(time.monotonic() - each.since)
            epoch = "ending" if each.killed or each.stopped else epoch
            table.add_row(*map(Text, (name, each.slot.name, epoch, value, taken, values)))
        return table

    def _name(self, running: RunningJob) -> str:
        """Returns the name of a job, where several studies run with that of its own."""
        is_trial = running.job.name.startswith("trial ") and len(self._sources) > 1
        return f"{running.source.name}, {running.job.name}" if is_trial else running.job.name

    def _reached(self, running: RunningJob) -> tuple[str, str]:
        """Returns the last epoch of a job with its last, and its metric after it, from the files of its run."""
        folder = running.job.folder
        with suppress(OSError, ValueError, KeyError, IndexError):
            file = max(
                folder.glob(f"**/{METRICS_FILE}"), key=lambda path: path.stat().st_mtime, default=folder / METRICS_FILE
            )
            row = json.loads(file.read_text(encoding="utf-8").splitlines()[-1])
            if file not in self._epochs:
                self._epochs[file] = Run(file.parent).settings["trainer"]["max_epochs"]
            value = row.get(running.job.metric)
            return f"{row['epoch']}/{self._epochs[file]}", "-" if value is None else format_objective(value)
        return "-", "-"

    def _summary(self, source: JobSource) -> Text:
        """Returns how far a source is, and its best job; the last one also the time that all have left."""
        best = f"; best: {text}" if (text := source.best()) else ""
        name = f"{source.name}: " if len(self._sources) > 1 else ""
        state = self._state(source)
        return Text(f"{name}{state if source is self._sources[-1] else state.partition(',')[0]}{best}")

    def _state(self, source: JobSource) -> str:
        """Returns how many jobs are finished, and the time left if jobs take as long as those before."""
        finished, total = source.finished(), source.total
        text = f"{finished} of {total} finished" if total else f"{finished} finished"
        left = sum(max(0, (each.total or 0) - each.finished()) for each in self._sources)
        if not self._seconds or not left or not all(each.total for each in self._sources):
            return text
        at_once = self._slots + sum(each.elsewhere() for each in self._sources)
        return f"{text}, about {duration(left * sum(self._seconds) / len(self._seconds) / at_once)} left"


def format_objective(value: float) -> str:
    """Formats an objective: four decimals, integers such as parameters without."""
    return f"{value:,.0f}" if abs(value) > 1 and float(value).is_integer() else f"{value:,.4f}"


def duration(seconds: float) -> str:
    """Formats a duration."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
