"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

WIDTH = 80
"""Columns of a terminal that every table fits."""


def table_lines(rows: Iterable[Sequence[str]], *, align: str, wrap: int = -1, width: int = WIDTH) -> list[str]:
    """Returns a table as lines.

    Args:
        rows: The cells of each row.
        align: For each column `<` or `>`: to the left or to the right.
        wrap: The one column whose cells are wrapped where the line would be too long; the last by default.
        width: Columns of a line at most.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    wrapped = wrap % len(align)
    for column, side in enumerate(align):
        table.add_column(justify="left" if side == "<" else "right", no_wrap=column != wrapped, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]
