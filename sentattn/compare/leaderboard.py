"""The leaderboard of a comparison: a row for each setting, as a table for the terminal, Markdown, CSV or LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import numpy as np

from sentattn.compare.runs import Setting
from sentattn.console import format_count, table_lines
from sentattn.metrics import MAJORITY

Format: TypeAlias = Literal["table", "markdown", "csv", "latex"]

IN_TERMINAL = ("accuracy", "log_loss")
"""Metrics that fit 80 columns; the other formats have all."""
COSTS = ("parameters", "train seconds", "tokens per second", "ms one text", "ms a batch", "trials")
"""Columns after the metrics: `trials` is the number of trials of the study that found a setting."""
TOP, AROUND = 5, 1
"""Rows from the top, and rows on either side of a marked setting, that are shown."""
UNEVEN = 10
"""An interval is written with its ends where its middle is farther from the value than half of it over this."""
LATEX_SPECIAL = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"} | {"±": r"$\pm$", "~": r"$\sim$", "|": "$|$"}
)


def leaderboard_lines(settings: Sequence[Setting], style: Format, *, majority: float) -> list[str]:
    """Returns a leaderboard as lines of text, with a last row for the share of the largest class."""
    match style:
        case "table":
            return terminal_lines(settings, majority=majority)
        case "csv":
            return csv_lines(_values(settings, majority))
        case "markdown" | "latex":
            return table_in_format(cells(settings, majority=majority), style)


def notes(settings: Sequence[Setting]) -> list[str]:
    """Returns remarks about the runs behind a leaderboard, each with the name of its setting."""
    return [f"{setting.name}: {note}." for setting in settings for note in (*setting.notes, *_one_class(setting))]


def _one_class(setting: Setting) -> list[str]:
    """Returns that a setting predicts one class only, with the seeds."""
    predicted_SN = setting.probabilities.argmax(axis=-1)
    constant_S = (predicted_SN == predicted_SN[:, :1]).all(axis=1)
    seeds = [str(run.seed) for run, is_constant in zip(setting.runs, constant_S, strict=True) if is_constant]
    return [f"predicts one class for all rows (seed {', '.join(seeds)})"] if seeds else []


def csv_lines(rows: Iterable[Sequence[object]]) -> list[str]:
    """Returns rows of cells as CSV."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue().splitlines()


def table_in_format(cells: Sequence[Sequence[str]], style: Literal["markdown", "latex"]) -> list[str]:
    """Returns rows of cells, the first of them the header, as Markdown or LaTeX."""
    if style == "markdown":
        header, *rows = cells
        rule = ["---", *["---:"] * (len(header) - 1)]
        return [f"| {' | '.join(row)} |" for row in (header, rule, *rows)]
    top, *body = [" & ".join(cell.translate(LATEX_SPECIAL) for cell in row) + r" \\" for row in cells]
    start, end = rf"\begin{{tabular}}{{l{'r' * (len(cells[0]) - 1)}}}", r"\end{tabular}"
    return [start, r"\toprule", top, r"\midrule", *body, r"\bottomrule", end]


def terminal_lines(
    settings: Sequence[Setting],
    metric: str = "accuracy",
    marked: Setting | None = None,
    *,
    majority: float | None = None,
) -> list[str]:
    """Returns a leaderboard for a terminal of 80 columns.

    Args:
        settings: The rows, the best first.
        metric: The metric that ranks them.
        marked: A setting to mark; rows that are neither at the top nor next to it are left out.
        majority: The share of the largest class, where it is known.
    """
    metrics = list(dict.fromkeys([metric, *IN_TERMINAL]))[: len(IN_TERMINAL)]
    place = next((i for i, setting in enumerate(settings) if setting is marked), None)
    visible = [i for i in range(len(settings)) if place is None or i < TOP or abs(i - place) <= AROUND]
    rows: list[tuple[str, ...]] = [("", "settings", "seeds", *metrics, "params", "train")]
    for before, i in zip([-1, *visible], visible, strict=False):
        if i > before + 1:
            rows.append(("", "...", *[""] * (len(rows[0]) - 2)))
        setting, mark = settings[i], "> " if i == place else ""
        values = [format_metric(setting, name, with_interval=name == metric) for name in metrics]
        costs = format_count(setting.parameters), f"{setting.cost('seconds.train'):.0f} s"
        rows.append((f"{mark}{i + 1}", setting.name, str(len(setting.runs)), *values, *costs))
    if majority is not None:
        rows.append(("", MAJORITY, "", *(f"{majority:.4f}" if name == "accuracy" else "" for name in metrics), "", ""))
    more = len(settings) - 1 - visible[-1]
    return [*table_lines(rows, align="><>>>>>", wrap=1), *([f"{more} more"] if more else [])]


def cells(settings: Sequence[Setting], *, majority: float) -> list[list[str]]:
    """Returns the heading and a row for each setting, as text, and one for the share of the largest class."""
    names = list(settings[0].metrics)
    rows = [["settings", "seeds", *names, *COSTS]]
    for setting in settings:
        values = [format_metric(setting, name) for name in names]
        costs = ["-" if np.isnan(cost) else f"{cost:,.{digits}f}" for cost, digits in _costs(setting)]
        rows.append([setting.name, str(len(setting.runs)), *values, *costs])
    values = [f"{majority:.4f}" if name == "accuracy" else "-" for name in names]
    return [*rows, [MAJORITY, "-", *values, *["-"] * len(COSTS)]]


def _values(settings: Sequence[Setting], majority: float) -> list[list[object]]:
    """Returns unrounded values with the ends of 95% intervals, empty where there are none; the header first."""
    names = [f"{name}{end}" for name in settings[0].metrics for end in ("", "_low", "_high")]
    rows: list[list[object]] = [["settings", "seeds", *names, *(name.replace(" ", "_") for name in COSTS)]]
    for setting in settings:
        rows.append([setting.name, len(setting.runs)])
        for name, estimate in setting.metrics.items():
            rows[-1] += [estimate.value, *(setting.interval(name) or ("", ""))]
        rows[-1] += ["" if np.isnan(cost) else cost for cost, _ in _costs(setting)]
    of_majority = [majority if name == "accuracy" else "" for name in names]
    return [*rows, [MAJORITY, "", *of_majority, *[""] * len(COSTS)]]


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
