"""Progress of long work, on standard error: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_NOTES = 0.5


class Progress:
    """Shows how far a piece of work is.

    Calling it with another stage ends the previous stage.

    Args:
        shown: Whether it shows anything: of several processes that train together only rank 0 does.
    """

    def __init__(self, *, shown: bool = True) -> None:
        self._shown = shown
        self._console = Console(file=sys.stderr)
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._stage = ""
        self._started = self._printed = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, stage: str, done: int, total: int | None, note: str | Callable[[], str] = "") -> None:
        """Reports that `done` of `total` (None: unknown) are done in a stage.

        Args:
            stage: The work, in a few words.
            done: How much of it is done.
            total: How much there is.
            note: More words, such as the loss; a function is called only when they are shown.
        """
        if not self._shown:
            return
        if stage != self._stage:
            self.close()
            self._stage = stage
            self._started = self._printed = time.monotonic()
        if self._console.is_terminal:
            self._update_bar(stage, done, total, note)
        elif time.monotonic() - self._printed > SECONDS_BETWEEN_LINES:
            self._printed = time.monotonic()
            of = f" of {total:,}" if total else ""
            line = f"{stage}: {done:,}{of}, {self._printed - self._started:.0f} s  {_text(note)}"
            print(line.rstrip(), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Ends the stage and removes its bar."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None
        self._stage = ""

    def _update_bar(self, stage: str, done: int, total: int | None, note: str | Callable[[], str]) -> None:
        if self._bar is None or self._task is None:
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task(stage, total=total, note="")
            self._bar.start()
            self._printed = 0.0
        if isinstance(note, str) or time.monotonic() - self._printed > SECONDS_BETWEEN_NOTES:
            self._printed = time.monotonic()
            self._bar.update(self._task, completed=done, total=total, note=_text(note))
        else:
            self._bar.update(self._task, completed=done, total=total)


def _text(note: str | Callable[[], str]) -> str:
    return note if isinstance(note, str) else note()
