"""The leaderboard of a comparison and the results of its tests as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sentattn.compare.comparison import Comparison
from sentattn.compare.runs import Setting
from sentattn.console import Format, csv_lines, format_count, table_in_format, table_lines, wrap
from sentattn.errors import Fault, SettingError
from sentattn.metrics import MAJORITY

IN_TERMINAL = ("accuracy", "log_loss")
"""Metrics that fit 80 columns; the other formats have all."""
COSTS = ("parameters", "train seconds", "tokens per second", "ms one text", "ms a batch", "trials")
"""Columns after the metrics: `trials` is the number of trials of the study that found a setting."""
UNEVEN = 10
"""An interval is written with its ends where its middle is farther from the value than half of it over this."""


def board_lines(comparison: Comparison, style: Format = "table", columns: Sequence[str] = ()) -> list[str]:
    """Returns the leaderboard as lines, with some columns or all; in the terminal, with remarks about the runs.

    By default the terminal has a few columns. A `SettingError` if there is no column of a name.
    """
    if style == "csv":
        return csv_lines(_choose(values(comparison), columns))
    chosen = _choose(cells(comparison), columns)
    if style != "table":
        return table_in_format(chosen, style)
    remarks = [line for note in notes(comparison.leaderboard) for line in wrap(note, "", "  ")]
    lines = _terminal_lines(comparison)
    if columns:
        width = sum(max(map(len, column)) + 2 for column in zip(*chosen, strict=True))
        lines = table_lines(chosen, align="<" + ">" * len(columns), wrap=0, width=width)
    return [*wrap(heading(comparison)), "", *lines, *remarks]


def heading(comparison: Comparison) -> str:
    """Returns the heading of a leaderboard: its data, and what its numbers are."""
    text = f"{comparison.data}, split {comparison.split}: {comparison.counts}. Means over seeds with 95% intervals."
    if len({run.fingerprint for setting in comparison.settings for run in setting.runs} - {None}) > 1:
        text += " Not all settings were trained on the same rows."
    return text


def _choose(rows: list[list[Any]], columns: Sequence[str]) -> list[list[Any]]:
    """Returns the first column of rows, and those that are named."""
    heading = [name.replace(" ", "_") for name in rows[0]]
    if unknown := [name for name in columns if name not in heading]:
        message = f"columns must be some of {', '.join(heading[1:])}, got {', '.join(unknown)}."
        raise SettingError(Fault("columns", "unknown", message))
    places = [0, *map(heading.index, columns)] if columns else range(len(heading))
    return [[row[place] for place in places] for row in rows]


def message_lines(comparison: Comparison) -> list[str]:
    """Returns the results of the tests in words, as lines of at most 80 columns."""
    lines = []
    for title, items in comparison.messages:
        lines += wrap(title)
        for item in items:
            lines += wrap(item, "- ", "  ")
    return lines


def cells(comparison: Comparison) -> list[list[str]]:
    """Returns the heading and a row for each setting, as text, and one for the share of the largest class."""
    names = list(comparison.leaderboard[0].metrics)
    rows = [["settings", "seeds", *names, *COSTS]]
    for setting in comparison.leaderboard:
        costs = ["-" if np.isnan(cost) else f"{cost:,.{digits}f}" for cost, digits in _costs(setting)]
        rows.append([setting.name, str(len(setting.runs)), *(format_metric(setting, name) for name in names), *costs])
    values = [f"{comparison.majority:.4f}" if name == "accuracy" else "-" for name in names]
    return [*rows, [MAJORITY, "-", *values, *["-"] * len(COSTS)]]


def values(comparison: Comparison) -> list[list[object]]:
    """Returns unrounded values with the ends of 95% intervals, empty where there are none; the header first."""
    names = [f"{name}{end}" for name in comparison.leaderboard[0].metrics for end in ("", "_low", "_high")]
    rows: list[list[object]] = [["settings", "seeds", *names, *(name.replace(" ", "_") for name in COSTS)]]
    for setting in comparison.leaderboard:
        rows.append([setting.name, len(setting.runs)])
        for name, estimate in setting.metrics.items():
            rows[-1] += [estimate.value, *(setting.interval(name) or ("", ""))]
        rows[-1] += ["" if np.isnan(cost) else cost for cost, _ in _costs(setting)]
    majority = [comparison.majority if name == "accuracy" else "" for name in names]
    return [*rows, [MAJORITY, "", *majority, *[""] * len(COSTS)]]


def _costs(setting: Setting) -> list[tuple[float, int]]:
    """Returns the costs of `COSTS`, NaN where they are not known, with the number of digits that are shown."""
    return [
        (setting.parameters, 0),
        (setting.cost("seconds.train"), 0),
        (setting.cost("tokens_per_second"), 0),
        (setting.cost("latency_ms.one"), 2),
        (setting.cost("latency_ms.batch"), 2),
        (max((run.trials for run in setting.runs if run.trials), default=np.nan), 0),
    ]


def format_metric(setting: Setting, name: str, *, with_interval: bool = True) -> str:
    """Returns the mean of a metric, with its 95% interval: half of its width, or its ends where these are uneven."""
    value, interval = setting.metrics[name].value, setting.interval(name)
    if not with_interval or interval is None:
        return f"{value:.4f}"
    (low, high), half = interval, (interval[1] - interval[0]) / 2
    is_even = abs(value - low - half) < half / UNEVEN
    return f"{value:.4f} ±{half:.4f}" if is_even else f"{value:.4f} ({low:.4f} to {high:.4f})"


def _terminal_lines(comparison: Comparison) -> list[str]:
    """Returns the leaderboard for 80 columns."""
    rows: list[tuple[str, ...]] = [("", "settings", "seeds", *IN_TERMINAL, "params", "train")]
    for rank, setting in enumerate(comparison.leaderboard, start=1):
        values = [format_metric(setting, name, with_interval=name == "accuracy") for name in IN_TERMINAL]
        costs = format_count(setting.parameters), f"{setting.cost('seconds.train'):.0f} s"
        rows.append((str(rank), setting.name, str(len(setting.runs)), *values, *costs))
    rows.append(("", MAJORITY, "", f"{comparison.majority:.4f}", "", "", ""))
    return table_lines(rows, align="><>>>>>", wrap=1)


def notes(settings: Sequence[Setting]) -> list[str]:
    """Returns remarks about the runs behind a leaderboard, each with the name of its setting."""
    remarks = []
    for setting in settings:
        remarks += [f"{setting.name}: {note}." for note in setting.notes]
        predicted_SN = setting.probabilities.argmax(axis=-1)
        constant_S = (predicted_SN == predicted_SN[:, :1]).all(axis=1)
        seeds = [str(run.seed) for run, is_constant in zip(setting.runs, constant_S, strict=True) if is_constant]
        if seeds:
            remarks.append(f"{setting.name}: predicts one class for all rows (seed {', '.join(seeds)}).")
    return remarks


def verdict_rows(comparison: Comparison) -> list[list[object]]:
    """Returns the tests, unrounded differences, ends of intervals and adjusted p-values; the header first."""
    header = "first,second,family,first_seeds,second_seeds,difference,verdict,margin"
    for test in ("difference", "equivalence"):
        header += f",{test}_p,{test}_confidence,{test}_low,{test}_high"
    rows: list[list[object]] = [[*header.split(",")]]
    for pair in comparison.tests:
        first, second = pair.first, pair.second
        rows.append([first.name, second.name, "declared" if pair.declared else "exploratory"])
        rows[-1] += [len(first.runs), len(second.runs), pair.estimate.value, pair.verdict, comparison.margin / 100]
        of_difference, of_equivalence = pair.intervals
        rows[-1] += [pair.p_difference, 1 - pair.levels[0], *of_difference]
        rows[-1] += [pair.p_equivalence, 1 - 2 * pair.levels[1], *of_equivalence]
    return rows
