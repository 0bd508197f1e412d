"""What commands print: progress on standard error, and tables as text, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table as Grid
from rich.text import Text

from sentattn.errors import visible

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_NOTES = 0.5
TERMINAL_WIDTH = 80
"""Columns of a terminal that every table fits."""
MARKDOWN_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\|*"})
"""A bar would end a cell, and stars would make text between them italic."""


class Table(NamedTuple):
    """A table with a note below it; cells are plain text."""

    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def table_lines(rows: Iterable[Sequence[str]], *, align: str, wrap: int = -1, width: int = TERMINAL_WIDTH) -> list[str]:
    """Returns a table as lines of at most `width` columns.

    Args:
        rows: The cells of each row.
        align: For each column `<` or `>`: to the left or to the right.
        wrap: The one column whose cells are wrapped where the line would be too long; the last by default.
        width: Columns of a line at most.
    """
    table = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for column, side in enumerate(align):
        no_wrap = column != wrap % len(align)
        table.add_column(justify="left" if side == "<" else "right", no_wrap=no_wrap, overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    console = Console(width=width, color_system=None, force_terminal=False, force_jupyter=False)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def wrap(text: str, first: str = "", others: str = "") -> list[str]:
    """Returns indented lines of `TERMINAL_WIDTH` columns, broken at spaces only, so that paths stay whole."""
    wrapper = textwrap.TextWrapper(TERMINAL_WIDTH, first, others, break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(text)


def csv_lines(rows: Iterable[Sequence[object]], delimiter: str = ",") -> Iterator[str]:
    """Yields rows of cells as CSV, without the ends of lines; a cell with a line break of any kind is in quotes."""
    for row in rows:
        file = io.StringIO(newline="")
        csv.writer(file, delimiter=delimiter).writerow(row)
        yield file.getvalue().removesuffix("\r\n")


def markdown_lines(cells: Sequence[Sequence[str]]) -> list[str]:
    """Returns rows of cells, the first of them the header, as Markdown."""
    header, *rows = ([cell.translate(MARKDOWN_SPECIAL) for cell in row] for row in cells)
    rule = ["---", *["---:"] * (len(header) - 1)]
    return [f"| {' | '.join(row)} |" for row in (header, rule, *rows)]


def format_count(number: float) -> str:
    """Returns a number of parameters for people, such as 12.3k."""
    for unit in ("", "k"):
        if number < 1000:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g}M" if number < 1000 else f"{number:,.0f}M"


def plural(number: int, noun: str) -> str:
    """Returns a number with its noun, such as `1 run` and `2 runs`."""
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


class Progress(AbstractContextManager["Progress"]):
    """Shows how far long work is: a bar on a terminal, a line every few seconds elsewhere.

    Calling it with another stage ends the previous stage.

    Args:
        shown: Whether it shows anything: of several processes that train together only rank 0 does.
    """

    def __init__(self, *, shown: bool = True) -> None:
        self._shown = shown
        self._console = Console(file=sys.stderr)
        self._bar: Bar | None = None
        self._stage = ""
        self._started = self._printed = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self.close()

    def __call__(self, stage: str, done: int, total: int | None, note: Callable[[], str] = str) -> None:
        """Reports that `done` of `total` (None: unknown) are done in a stage.

        Args:
            stage: The work, in a few words.
            done: How much of it is done.
            total: How much there is.
            note: Returns more words, such as the loss; called only when they are shown.
        """
        if not self._shown:
            return
        now = time.monotonic()
        if stage != self._stage:
            self.close()
            self._stage, self._started = stage, now
            self._printed = 0.0 if self._console.is_terminal else now
        if self._console.is_terminal:
            bar = self._bar = self._bar or self._start_bar()
            bar.update(bar.task_ids[0], completed=done, total=total)
            if now - self._printed > SECONDS_BETWEEN_NOTES:
                self._printed = now
                bar.update(bar.task_ids[0], note=note())
        elif now - self._printed > SECONDS_BETWEEN_LINES:
            self._printed = now
            of = f" of {total:,}" if total else ""
            line = f"{stage}: {done:,}{of}, {now - self._started:.0f} s  {note()}"
            print(line.rstrip(), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Ends the stage and removes its bar."""
        if self._bar is not None:
            self._bar.stop()
        self._bar, self._stage = None, ""

    def _start_bar(self) -> Bar:
        columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        words = (TextColumn("{task.description}"), TextColumn("{task.fields[note]}"))
        bar = Bar(words[0], *columns, words[1], console=self._console, transient=True)
        bar.add_task(self._stage, total=None, note="")
        bar.start()
        return bar
