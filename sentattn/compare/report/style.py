"""Shared by the charts of a report: tables of their numbers, and the colour of each setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sentattn.compare.runs import Setting
from sentattn.rendering.html import BLUE, GREY, ORANGE, safe

if TYPE_CHECKING:
    import plotly.graph_objects as go

Interval: TypeAlias = tuple[float, float]

COLOURS = (BLUE, ORANGE, "#2a9d6f", "#b5479b", "#9a7b1f", "#d1495b", "#6b7fd7", "#5b8a94")
MAX_DRAWN = len(COLOURS)
"""Settings that are drawn, the best of the leaderboard; the tables have all."""
NAME_WIDTH = 22
NARROWEST = 0.05
"""An axis of accuracies spans 5 points at least."""


@dataclass(frozen=True)
class Table:
    """A table of a page; cells are plain text.

    Attributes:
        heading: The names of its columns.
        rows: The cells of each row.
        note: A message below it.
    """

    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


class Chart(NamedTuple):
    """A chart, and the numbers that it draws unless a table next to it has them."""

    title: str
    figure: go.Figure
    table: Table | None


def key(settings: Sequence[Setting]) -> list[tuple[int, str, str]]:
    """Returns rank, name and colour of each setting that is drawn; they are the same in every chart."""
    return [(rank + 1, setting.name, COLOURS[rank]) for rank, setting in enumerate(settings[:MAX_DRAWN])]


def marker(rank: int) -> dict[str, Any]:
    """Returns the marker of a setting, grey for those beyond the last colour."""
    return {"color": COLOURS[rank] if rank < MAX_DRAWN else GREY, "line": {"width": 1.5}}


def line(rank: int, kind: str = "validation") -> dict[str, Any]:
    """Returns the line of a setting; that of its training rows is grey."""
    return {"color": COLOURS[rank] if kind == "validation" else GREY, "width": 2}


def bar(values: Sequence[float], intervals: Sequence[Interval | None]) -> dict[str, Any]:
    """Returns the error bars of marks; those without an interval have none."""
    ends = [interval or (value, value) for value, interval in zip(values, intervals, strict=True)]
    return {
        "array": [high - value for value, (_, high) in zip(values, ends, strict=True)],
        "arrayminus": [value - low for value, (low, _) in zip(values, ends, strict=True)],
        "thickness": 1.5,
        "width": 3,
    }


def accuracy_range(values: Sequence[float], intervals: Sequence[Interval | None]) -> list[float]:
    """Returns the range of an axis that has all marks and intervals, and shows no small difference as a large one."""
    ends = [*values, *(end for interval in intervals if interval for end in interval)]
    low, high = min(ends), max(ends)
    missing = max(0.0, NARROWEST - (high - low)) / 2
    pad = max(0.06 * (high - low), missing)
    return [low - pad, high + pad]


def apart(values: Sequence[float], gap: float) -> list[float]:
    """Returns positions in the order of the values and at least a gap apart, with the least sum of squared shifts."""
    order = sorted(range(len(values)), key=values.__getitem__)
    blocks: list[list[float]] = []  # labels that touch: summed positions of the first label, and their number
    for rank, index in enumerate(order):
        blocks.append([values[index] - rank * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1] = [blocks[-1][0] + total, blocks[-1][1] + count]
    starts = [total / count for total, count in blocks for _ in range(int(count))]
    positions = {index: start + rank * gap for rank, (index, start) in enumerate(zip(order, starts, strict=True))}
    return [positions[index] for index in range(len(values))]


def percent(value: float) -> str:
    """Returns a share in percent."""
    return f"{100 * value:.2f}%"


def percents(interval: Interval | None, missing: str = "") -> str:
    """Returns an interval in percent; the other text where there is none."""
    return "{} to {}".format(*map(percent, interval)) if interval else missing


def cut(text: str, width: int = NAME_WIDTH) -> str:
    """Returns a text that fits an axis, shortened if needed."""
    return text if len(text) <= width else f"{text[: width - 1]}\u2026"


def short(text: str) -> str:
    """Returns the label of a setting in two lines at most, as text that plotly shows as it is."""
    first, _, others = text.partition("; ")
    return "<br>".join(safe(cut(part)) for part in (first, others) if part)
