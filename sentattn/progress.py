"""Progress of long work: a bar on a terminal, a line every few seconds elsewhere. It goes to standard error."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Shows how far a piece of work is.

    Calling it again with another stage ends the stage before.

    Args:
        shown: Whether it shows anything: of several processes that train together one does.
    """

    def __init__(self, *, shown: bool = True) -> None:
        self._shown = shown
        self._console = Console(file=sys.stderr)
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._stage = ""
        self._started = self._told = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, stage: str, done: int, total: int | None, note: str = "") -> None:
        """Tells that `done` of `total` (None: not known) are done in a stage.

        Args:
            stage: What is being done, in words.
            done: How much of it is done.
            total: How much there is.
            note: A few more words, such as the loss.
        """
        if not self._shown:
            return
        if stage != self._stage:
            self.close()
            self._stage = stage
            self._started = self._told = time.monotonic()
        if self._console.is_terminal:
            self._show(stage, done, total, note)
        elif time.monotonic() - self._told > SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            seconds = self._told - self._started
            of = f" of {total:,}" if total else ""
            print(f"{stage}: {done:,}{of}, {seconds:.0f} s {note}".rstrip(), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Ends the stage and takes its bar away."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None
        self._stage = ""

    def _show(self, stage: str, done: int, total: int | None, note: str) -> None:
        if self._bar is None or self._task is None:
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task(stage, total=total, note=note)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total, note=note)
