"""The leaderboard of a comparison: a row for each setting, as a table for the terminal, Markdown, CSV or LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from sentattn.compare.metrics import estimates
from sentattn.compare.runs import Comparison, Setting
from sentattn.compare.statistics import Estimate
from sentattn.config.schema import BETTER
from sentattn.console import format_count, table_lines
from sentattn.metrics import MAJORITY

Format: TypeAlias = Literal["table", "markdown", "csv", "latex"]

IN_TERMINAL = ("accuracy", "log_loss")
"""Metrics that fit 80 columns; the other formats have all."""
COSTS = ("parameters", "train seconds", "tokens per second", "ms one text", "ms a batch", "trials")
"""Columns after the metrics: `trials` is the number of trials of the study that found a setting."""
TOP, AROUND = 5, 1
"""Rows from the top, and rows on either side of a setting, that are shown where one setting is looked for."""
UNEVEN = 10
"""An interval is written with its ends where its middle is farther from the value than half of it over this."""
LATEX_SPECIAL = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"} | {"±": r"$\pm$", "~": r"$\sim$", "|": "$|$"}
)


@dataclass(frozen=True)
class Entry:
    """A row of the leaderboard.

    Attributes:
        setting: The setting.
        metrics: Mean over its seeds with standard error, by metric.
    """

    setting: Setting
    metrics: dict[str, Estimate]

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return int(self.setting.runs[0].result["parameters"]["total"])

    def costs(self) -> Iterator[tuple[float, int]]:
        """Yields the costs of `COSTS`, NaN where they are not known, with the digits that are shown."""
        yield self.parameters, 0
        yield self.cost("seconds", "train"), 0
        yield self.cost("tokens_per_second"), 0
        yield self.cost("latency_ms", "one"), 2
        yield self.cost("latency_ms", "batch"), 2
        yield max((one.trials for one in self.setting.runs if one.trials), default=np.nan), 0

    def interval(self, metric: str) -> tuple[float, float] | None:
        """Returns the 95% interval of a metric; None where there are too few seeds, or its error is not known."""
        estimate = self.metrics[metric]
        return estimate.interval() if self.setting.has_seeds and estimate.error > 0 else None

    def cost(self, *keys: str) -> float:
        """Returns the mean over seeds of a cost in `result.json`; NaN where a run lacks it."""
        values = []
        for one in self.setting.runs:
            value = one.result
            for key in keys:
                value = value.get(key) or {}
            values.append(value or np.nan)
        return float(np.mean(np.array(values, dtype=np.float64)))


def leaderboard(comparison: Comparison, metric: str = "accuracy") -> list[Entry]:
    """Returns the settings with their metrics, the best by one of them first."""
    rows = comparison.rows
    entries = [
        Entry(
            one,
            estimates(
                one.probabilities,
                rows.labels_N,
                rows.group_N,
                ordered=comparison.ordered,
                deterministic=one.deterministic,
            ),
        )
        for one in comparison.settings
    ]
    return sorted(entries, key=lambda entry: entry.metrics[metric].value, reverse=BETTER[metric] == "max")


def lines(entries: Sequence[Entry], style: Format, *, majority: float) -> list[str]:
    """Returns a leaderboard as lines of text, with a last row for the share of the largest class."""
    match style:
        case "table":
            return terminal_lines(entries, majority=majority)
        case "csv":
            return _csv(entries, majority)
        case "markdown" | "latex":
            return paper_lines(cells(entries, majority=majority), style)


def notes(entries: Sequence[Entry]) -> list[str]:
    """Returns what to know of the runs behind a leaderboard, with the setting that it is about."""
    return [
        f"{entry.setting.name}: {note}."
        for entry in entries
        for note in (*entry.setting.notes, *_one_class(entry.setting))
    ]


def _one_class(setting: Setting) -> Iterator[str]:
    """Yields that a setting predicts one class only, with the seeds."""
    predicted_SN = setting.probabilities.argmax(axis=-1)
    constant = (predicted_SN == predicted_SN[:, :1]).all(axis=1)
    seeds = [str(run.seed) for run, is_constant in zip(setting.runs, constant, strict=True) if is_constant]
    if seeds:
        yield f"predicts one class for all rows (seed {', '.join(seeds)})"


def paper_lines(cells: Sequence[Sequence[str]], style: Format) -> list[str]:
    """Returns rows of cells, the first of them the header, as Markdown, CSV or LaTeX."""
    header, *rows = cells
    if style == "markdown":
        rule = ["---", *["---:"] * (len(header) - 1)]
        return [f"| {' | '.join(row)} |" for row in (header, rule, *rows)]
    if style == "csv":
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows(cells)
        return file.getvalue().splitlines()
    header, *body = [" & ".join(cell.translate(LATEX_SPECIAL) for cell in row) + r" \\" for row in cells]
    start, end = rf"\begin{{tabular}}{{l{'r' * (len(cells[0]) - 1)}}}", r"\end{tabular}"
    return [start, r"\toprule", header, r"\midrule", *body, r"\bottomrule", end]


def terminal_lines(
    entries: Sequence[Entry], metric: str = "accuracy", own: Setting | None = None, *, majority: float | None = None
) -> list[str]:
    """Returns a leaderboard for a terminal of 80 columns.

    Args:
        entries: The rows, the best first.
        metric: The metric that ranks them.
        own: A setting to mark; rows that are neither at the top nor next to it are left out.
        majority: The share of the largest class, where it is known.
    """
    metrics = list(dict.fromkeys([metric, *IN_TERMINAL]))[: len(IN_TERMINAL)]
    place = next((i for i, entry in enumerate(entries) if entry.setting is own), None)
    visible = [i for i in range(len(entries)) if place is None or i < TOP or abs(i - place) <= AROUND]
    rows: list[tuple[str, ...]] = [("", "settings", "seeds", *metrics, "params", "train")]
    for before, i in zip([-1, *visible], visible, strict=False):
        if i > before + 1:
            rows.append(("", "...", *[""] * (len(rows[0]) - 2)))
        entry, mark = entries[i], "> " if i == place else ""
        values = [_value(entry, name, "±" if name == metric else "") for name in metrics]
        costs = format_count(entry.parameters), f"{entry.cost('seconds', 'train'):.0f} s"
        rows.append((f"{mark}{i + 1}", entry.setting.name, str(len(entry.setting.runs)), *values, *costs))
    if majority is not None:
        rows.append(("", MAJORITY, "", *(f"{majority:.4f}" if name == "accuracy" else "" for name in metrics), "", ""))
    more = len(entries) - 1 - visible[-1]
    return [*table_lines(rows, align="><>>>>>", wrap=1), *([f"{more} more"] if more else [])]


def metric_lines(entries: Sequence[Entry], splits: Sequence[str]) -> list[str]:
    """Returns all metrics of one setting, which has an entry for each split."""
    runs = entries[0].setting.runs
    title = f"{len(runs)} seeds ({', '.join(str(one.seed) for one in runs)}): means with 95% intervals."
    rows = [("", *splits)]
    rows += [(name, *(_value(entry, name, "±") for entry in entries)) for name in entries[0].metrics]
    return [title, *table_lines(rows, align="<" + ">" * len(splits))]


def cells(entries: Sequence[Entry], *, majority: float | None = None) -> list[list[str]]:
    """Returns the heading and a row for each setting, as text, and one for the share of the largest class."""
    names = list(entries[0].metrics)
    rows = [["settings", "seeds", *names, *COSTS]]
    for entry in entries:
        values = [_value(entry, name, "±") for name in names]
        costs = ["-" if np.isnan(cost) else f"{cost:,.{digits}f}" for cost, digits in entry.costs()]
        rows.append([entry.setting.name, str(len(entry.setting.runs)), *values, *costs])
    if majority is not None:
        values = [f"{majority:.4f}" if name == "accuracy" else "-" for name in names]
        rows.append([MAJORITY, "-", *values, *["-"] * len(COSTS)])
    return rows


def _csv(entries: Sequence[Entry], majority: float) -> list[str]:
    """All numbers as they are, with the ends of 95% intervals; empty where there are none."""
    names = list(entries[0].metrics)
    header = ["settings", "seeds", *(f"{name}{end}" for name in names for end in ("", "_low", "_high"))]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*header, *(name.replace(" ", "_") for name in COSTS)])
    for entry in entries:
        values: list[float | str] = []
        for name, estimate in entry.metrics.items():
            values += [estimate.value, *(entry.interval(name) or ("", ""))]
        costs = ["" if np.isnan(cost) else cost for cost, _ in entry.costs()]
        writer.writerow([entry.setting.name, len(entry.setting.runs), *values, *costs])
    of_majority: list[float | str] = [majority if name == "accuracy" else "" for name in header[2:]]
    writer.writerow([MAJORITY, "", *of_majority, *[""] * len(COSTS)])
    return file.getvalue().splitlines()


def _value(entry: Entry, name: str, sign: str) -> str:
    """The mean, with its 95% interval where there is one and it is to be shown: half of it, or its ends if unequal."""
    value, interval = entry.metrics[name].value, entry.interval(name)
    if not sign or interval is None:
        return f"{value:.4f}"
    (low, high), half = interval, (interval[1] - interval[0]) / 2
    is_even = abs(value - low - half) < half / UNEVEN
    return f"{value:.4f} {sign}{half:.4f}" if is_even else f"{value:.4f} ({low:.4f} to {high:.4f})"
