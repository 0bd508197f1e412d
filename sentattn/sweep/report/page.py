"""`report.html`: a study as one page that needs no network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sentattn.config.types import as_typed
from sentattn.rendering.html import draw, plotly_script, render
from sentattn.sweep.report.analysis import Findings
from sentattn.sweep.report.artifacts import BEST, train_arguments, train_command
from sentattn.sweep.report.figures import Charts

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_ROWS = 500
"""Trials in the table: the best ones and the last others."""


def page(findings: Findings) -> str:
    """Returns `report.html`, a study in one file, with plotly's script in it once."""
    plan, charts = findings.plan, Charts(findings.plan, findings.records, findings.front)
    measured = [(index, measure) for index, measure in enumerate(findings.importances) if measure]
    heading, rows = _trials(findings)
    figures: dict[str, Callable[[], list[tuple[str, go.Figure]] | list[tuple[str, go.Figure | None]]]] = {
        "History": charts.history,
        "Pareto front": charts.pareto,
        "Importance": lambda: charts.importances(findings.importances),
        "Slices": charts.slices,
        "Contour": lambda: [("", charts.contour(index, measure.ranking)) for index, measure in measured],
        "Parallel coordinates": charts.parallel,
        "Learning curves": lambda: [("", charts.curves())],
        "Timeline": lambda: [("", charts.timeline())],
    }

    def drawn(heading: str) -> list[tuple[str, str]]:
        shown = [(title, figure) for title, figure in figures[heading]() if figure is not None]
        name = heading.lower().replace(" ", "-")
        return [(title, draw(figure, f"{name}-{number}")) for number, (title, figure) in enumerate(shown)]

    return render(
        "sentattn.sweep.report",
        "report.html",
        findings=findings,
        plan=plan,
        states=Counter(record.state for record in findings.records),
        command=train_command(findings.folder / BEST),
        arguments=" ".join(train_arguments(plan, findings.front[0].values)) if findings.front else "",
        charts={heading: findings.attempt(heading, [], drawn, heading) for heading in figures},
        measured=[measure for _, measure in measured],
        heading=heading,
        rows=rows,
        metric=_metric,
        as_text=as_text,
        as_typed=as_typed,
        plotly=plotly_script(),
    )


def _trials(findings: Findings) -> tuple[list[str], list[list[object]]]:
    """Heading and rows of the table of trials, without its empty columns."""
    plan, records = findings.plan, findings.records
    best = {record.number for record in findings.front}
    names = ["trial", "state", *(objective.metric for objective in plan.objectives), *short_names(plan.space)]
    heading, rows = [*names, "best epoch", "seconds", "retry of", "note"], []
    for record in [r for n, r in enumerate(records) if r.number in best or n >= len(records) - MAX_ROWS]:
        costs = findings.reader.costs(record)
        values = [as_text(record.values[key]) if key in record.values else "not set" for key in plan.space]
        objectives = [_metric(value) for value in record.objectives or ()] or [""] * len(plan.objectives)
        seconds = None if costs.seconds is None else f"{costs.seconds:.0f}"
        row = [record.number, record.state, *objectives, *values, costs.best_epoch, seconds, record.retry_of]
        rows.append(["" if cell is None else cell for cell in [*row, record.error.partition("\n")[0]]])
    filled = [n for n in range(len(heading)) if n < 2 or any(row[n] != "" for row in rows)]
    return [heading[n] for n in filled], [[row[n] for n in filled] for row in rows]


def _metric(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) >= 1000 else f"{value:.6g}"


def as_text(value: object) -> str:
    """Returns a value of a setting as text, floats with six digits."""
    return f"{value:.6g}" if isinstance(value, float) else as_typed(value)


def short_names(keys: Iterable[str]) -> list[str]:
    """Returns the last part of each key, or the whole key where two of them end alike."""
    lasts = {key: key.replace("/", ".").rpartition(".")[2] for key in keys}
    parts = list(lasts.values())
    return [last if parts.count(last) == 1 else key for key, last in lasts.items()]
