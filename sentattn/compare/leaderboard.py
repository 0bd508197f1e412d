"""Rows and lines of a leaderboard: settings with their metrics and costs, remarks, tests, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sentattn.compare.across import Overall
from sentattn.compare.comparison import Comparison, Pair
from sentattn.compare.runs import Setting
from sentattn.console import TERMINAL_WIDTH, markdown_lines, table_lines, wrap
from sentattn.errors import Fault, SettingError
from sentattn.metrics import MAJORITY

if TYPE_CHECKING:
    pass

Row: TypeAlias = dict[str, Any]
"""A setting: its name, seeds, metrics with the ends of their 95% intervals, and costs; NaN where something is unknown.

The keys are the columns of `format=csv`; the ends of `accuracy` are `accuracy_low` and `accuracy_high`.
"""
ENDS = ("_low", "_high")
COSTS = {"parameters": 0, "train_seconds": 0, "tokens_per_second": 0, "ms_one_text": 2, "ms_a_batch": 2, "trials": 0}
"""Columns after the metrics, with the digits that are shown: `trials` is the number of those of the study that found a
setting."""
IN_TERMINAL = ("settings", "seeds", "parameters", "train_seconds")
"""Columns that are shown next to the metric that settings are compared by, unless others are chosen."""
FAR_POINTS, FAR, FAR_SEEDS = 1.0, 5.0, 5
"""A seed whose accuracy is so far from the median of all seeds, and so many times as far as the others, is named; of
fewer seeds ordinary ones often are."""
UNEVEN = 10
"""An interval is written with its ends where its middle is farther from the value than half of it over this."""


def board_rows(comparison: Comparison) -> list[Row]:
    """Returns a row for each setting, the best first, and one for the share of the largest class."""
    return [*map(setting_row, comparison.leaderboard), {"settings": MAJORITY, "accuracy": comparison.majority}]


def setting_row(setting: Setting) -> Row:
    """Returns the row of a setting."""
    row: Row = {"settings": setting.name, "seeds": len(setting.runs)}
    for name, estimate in setting.metrics.items():
        low, high = setting.interval(name) or (np.nan, np.nan)
        row |= {name: estimate.value, f"{name}_low": low, f"{name}_high": high}
    trials = max((run.trials for run in setting.runs if run.trials), default=np.nan)
    names = ("seconds.train", "tokens_per_second", "latency_ms.one", "latency_ms.batch")
    costs = [setting.parameters, *map(setting.cost, names), trials]
    return row | dict(zip(COSTS, costs, strict=True))


def cell(row: Row, name: str) -> str:
    """Returns a value as text: a metric with half of its interval, or with its ends where these are uneven."""
    value = row.get(name, np.nan)
    if isinstance(value, str) or name == "seeds":
        return str(value) if name in row else "-"
    if np.isnan(value):
        return "-"
    if name in COSTS:
        return f"{value:,.{COSTS[name]}f}"
    low, high = (row.get(f"{name}{end}", np.nan) for end in ENDS)
    half = (high - low) / 2
    if np.isnan(half):
        return f"{value:.4f}"
    is_even = abs(value - low - half) < half / UNEVEN
    return f"{value:.4f} ±{half:.4f}" if is_even else f"{value:.4f} ({low:.4f} to {high:.4f})"


def board_lines(comparison: Comparison, columns: Sequence[str] = (), *, markdown: bool = False) -> list[str]:
    """Returns the leaderboard as lines, as Markdown with all columns or some; else with a few, and with remarks.

    A line has 80 columns, or as many as the longest word of a setting needs. A `SettingError` if there is no column of
    a name.
    """
    rows = cells(comparison, columns)
    if markdown:
        return markdown_lines(rows)
    if not columns:
        shown = [i for i, name in enumerate(rows[0]) if name in (*IN_TERMINAL, comparison.metric.name)]
        rows = [[row[i] for i in shown] for row in rows]
    rows = ranked(rows)
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    longest = max(len(word) for row in rows for word in row[0].split())
    lines = table_lines(
        rows, align="<" + ">" * (len(rows[0]) - 1), wrap=0, width=max(TERMINAL_WIDTH, sum(widths[1:]) + longest)
    )
    remarks = [line for note in notes(comparison.leaderboard) for line in wrap(note, "", "  ")]
    return [*wrap(heading(comparison)), "", *lines, *remarks]


def ranked(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Returns the rows of `cells` with the place of each setting before its name."""
    heading, *settings, largest = rows
    places = [[f"{rank} {name}", *values] for rank, (name, *values) in enumerate(settings, start=1)]
    return [list(heading), *places, list(largest)]


def csv_rows(comparisons: Sequence[Comparison], columns: Sequence[str] = ()) -> list[list[Any]]:
    """Returns the heading and the rows of comparisons as one table, which names data set and split of each row."""
    rows = [{**row, "data": each.data, "split": each.split} for each in comparisons for row in board_rows(each)]
    names = _choose(list(dict.fromkeys(name for row in rows for name in row)), columns)
    known = [{name: x for name, x in row.items() if isinstance(x, str) or not np.isnan(x)} for row in rows]
    return [names, *([row.get(name, "") for name in names] for row in known)]


def heading(comparison: Comparison) -> str:
    """Returns the heading of a leaderboard: its data, and what its numbers are."""
    means = f"seeds and {comparison.folds} folds, with approximate" if comparison.folds else "seeds with"
    text = f"{comparison.title}: {comparison.counts}. Means over {means} 95% intervals."
    trained_on = {run.fingerprint for setting in comparison.settings for run in setting.runs} - {None}
    if len(trained_on) > (len(comparison.settings[0].runs) if comparison.folds else 1):
        text += " Not all settings were trained on the same rows."
    return text


def _choose(names: list[str], columns: Sequence[str]) -> list[str]:
    """Returns the first of some columns and those that are named; all where none is."""
    if unknown := [name for name in columns if name not in names]:
        message = f"columns must be some of {', '.join(names[1:])}, got {', '.join(unknown)}."
        raise SettingError(Fault("columns", "unknown", message))
    return [names[0], *columns] if columns else names


def message_lines(comparison: Comparison) -> list[str]:
    """Returns the results of the tests in words, as lines of at most 80 columns."""
    lines = []
    for title, items in comparison.messages:
        lines += wrap(title)
        for item in items:
            lines += wrap(item, "- ", "  ")
    return lines


def overall_lines(overall: Overall) -> list[str]:
    """Returns a verdict over data sets, and the difference on each, as lines of at most 80 columns."""
    lines = table_lines(overall.rows(), align="<<>>", wrap=0)
    return [*wrap(f"Over {len(overall.by_data)} data sets: {overall.message}"), "", *lines]


def cells(comparison: Comparison, columns: Sequence[str] = ()) -> list[list[str]]:
    """Returns the heading and the rows as text, with some columns or all."""
    rows = board_rows(comparison)
    every = [name for name in dict.fromkeys(name for row in rows for name in row) if not name.endswith(ENDS)]
    unknown = {name for name in COSTS if all(math.isnan(row.get(name, math.nan)) for row in rows)}
    names = _choose([name for name in every if name not in unknown], columns)
    return [names, *([cell(row, name) for name in names] for row in rows)]


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
        means_S = setting.correct.mean(axis=1)
        distances_S = np.abs(means_S - np.median(means_S))
        *_, second, farthest = 0.0, *np.sort(distances_S)
        if len(distances_S) >= FAR_SEEDS and farthest > max(FAR_POINTS / 100, FAR * second):
            far = f"seed {setting.runs[int(distances_S.argmax())].seed} is {100 * farthest:.1f} points from the median"
            remarks.append(f"{setting.name}: {far} of its seeds, and no interval holds where a seed in many fails.")
    return remarks


def verdict_rows(comparisons: Sequence[Comparison], overall: Sequence[Overall] = ()) -> list[list[object]]:
    """Returns the tests, unrounded differences, ends of intervals and adjusted p-values; the header first.

    Those over data sets are the last, without numbers of seeds.
    """
    header = "data,split,metric,first,second,family,first_seeds,second_seeds,difference,verdict,margin"
    for test in ("difference", "equivalence"):
        header += f",{test}_p,{test}_confidence,{test}_low,{test}_high"
    rows: list[list[object]] = [[*header.split(",")]]
    tested: list[tuple[str, Pair, str, tuple[object, object]]] = [
        (each.data, pair, "declared" if pair.declared else "exploratory", (len(pair.first.runs), len(pair.second.runs)))
        for each in comparisons
        for pair in each.tests
    ]
    tested += [(each.mean.basis, each.mean, "over data sets", ("", "")) for each in overall]
    for data, pair, family, seeds in tested:
        first, second, metric = pair.first, pair.second, pair.first.metric
        rows.append([data, comparisons[0].split, metric.name, first.name, second.name, family, *seeds])
        rows[-1] += [pair.estimate.value, pair.verdict, comparisons[0].share_of_margin]
        of_difference, of_equivalence = pair.intervals
        rows[-1] += [pair.p_difference, 1 - pair.level, *of_difference]
        rows[-1] += [pair.p_equivalence, 1 - 2 * pair.level, *of_equivalence]
    return rows
