"""`report.html`: a study in one file that needs no network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sentattn.config.types import as_typed
from sentattn.insight.page import render
from sentattn.sweep.plan import Plan
from sentattn.sweep.records import Record
from sentattn.sweep.report.analysis import Findings
from sentattn.sweep.report.artifacts import BEST, train_arguments, train_command
from sentattn.sweep.report.figures import Charts
from sentattn.sweep.report.style import as_text, short_names

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from markupsafe import Markup

MAX_ROWS = 500
"""Trials in the table: the best ones and the last others."""
CONFIG = {"displaylogo": False, "responsive": True, "displayModeBar": False}
MEASURES = (
    "PED-ANOVA compares where the good trials lie with where all lie; fANOVA measures what the predictions of a random "
    "forest vary with."
)
NO_FANOVA = ' fANOVA needs scikit-learn: pip install "sentattn[report]".'
SLICES = "Darker points are later trials; orange is the best."
CONTOUR = (
    "Over the two numeric settings that matter most. The surface is interpolated between the trials (the points): it "
    "shows where to look."
)


def page(found: Findings) -> str:
    """Returns the report as HTML, with plotly's script in it once."""
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    plan, best = found.plan, found.front[0] if found.front else None
    heading, rows = _trials(found)
    return render(
        "sentattn.sweep.report",
        "report.html",
        plan=plan,
        found=found,
        counts=counts(found.records),
        best=best,
        values=[(key, as_text(value)) for key, value in best.values.items()] if best else [],
        command=train_command(found.folder / BEST),
        arguments=" ".join(train_arguments(plan, best.values)) if best else "",
        confirmed=[
            (name, f"{m['mean']:.4f}", " to ".join(map(_four, m["interval"] or ())), ", ".join(map(_four, m["values"])))
            for name, m in (found.confirmed or {}).get("metrics", {}).items()
        ],
        sections=_sections(found),
        heading=heading,
        rows=rows,
        searched=_searched(plan),
        others=_others(plan).items(),
        metric=_metric,
        draw=_draw,
        plotly=Markup(get_plotlyjs()),  # noqa: S704 - plotly's own script
    )


def counts(records: Sequence[Record]) -> str:
    """Returns how many trials there are, by state."""
    states = Counter(record.state for record in records)
    by_state = ", ".join(f"{count:,} {state}" for state, count in states.items())
    return f"{len(records):,} trial{'s' * (len(records) != 1)}: {by_state}" if by_state else "no trial yet"


def _sections(found: Findings) -> list[tuple[str, list[tuple[str, go.Figure]], list[str]]]:
    """Heading, figures with their titles, and notes of each section."""
    charts = Charts(found.plan, found.records, found.front)
    measured = [(index, measure) for index, measure in enumerate(found.importances) if measure]
    shares = f"Of {len(found.complete)} complete trials, drawn by sampler={found.plan.sampler['name']}. {MEASURES}"
    shares += NO_FANOVA * any(measure.fanova is None for _, measure in measured)
    contours = [("", charts.contour(index, measure.ranking)) for index, measure in measured]
    sections = [
        ("History", charts.history(), []),
        ("Pareto front", charts.pareto(), []),
        ("Importance", charts.importances(found.importances), [*(m.caution for _, m in measured if m.caution), shares]),
        ("Slices", charts.slices(), [SLICES]),
        ("Contour", contours, [CONTOUR]),
        ("Parallel coordinates", [("", charts.parallel())], []),
        ("Learning curves", [("", charts.curves())], []),
        ("Timeline", [("", charts.timeline())], []),
    ]
    return [(heading, [chart for chart in figures if chart[1]], notes) for heading, figures, notes in sections]


def _draw(figure: go.Figure, div: str) -> Markup:
    from markupsafe import Markup

    html = figure.to_html(full_html=False, include_plotlyjs=False, config=CONFIG, div_id=div)
    return Markup(html)  # noqa: S704 - all texts of the figures are safe


def _trials(found: Findings) -> tuple[list[str], list[list[object]]]:
    """Heading and rows of the table of trials, without its empty columns."""
    plan, records = found.plan, found.records
    best = {record.number for record in found.front}
    names = ["trial", "state", *(objective.metric for objective in plan.objectives), *short_names(plan.space)]
    heading, rows = [*names, "best epoch", "seconds", "retry of", "note"], []
    for record in [r for n, r in enumerate(records) if r.number in best or n >= len(records) - MAX_ROWS]:
        costs = found.reader.costs(record)
        values = [as_text(record.values[key]) if key in record.values else "not set" for key in plan.space]
        objectives = [_metric(value) for value in record.objectives or ()] or [""] * len(plan.objectives)
        seconds = None if costs.seconds is None else f"{costs.seconds:.0f}"
        row = [record.number, record.state, *objectives, *values, costs.best_epoch, seconds, record.retry_of]
        rows.append(["" if cell is None else cell for cell in [*row, record.error.partition("\n")[0]]])
    filled = [n for n in range(len(heading)) if n < 2 or any(row[n] != "" for row in rows)]
    return [heading[n] for n in filled], [[row[n] for n in filled] for row in rows]


def _searched(plan: Plan) -> list[tuple[str, str]]:
    """The settings that are searched, with their ranges and conditions."""
    ranges = []
    for key, dimension in plan.space.items():
        conditions = (f"{other}={' or '.join(map(as_typed, legal))}" for other, legal in dimension.when.items())
        ranges.append((key, dimension.written + (f" where {' and '.join(conditions)}" if dimension.when else "")))
    return ranges


def _others(plan: Plan) -> dict[str, str]:
    """Objectives, sampler, pruner and what all trials share."""
    budget = [f"{plan.budget.trials} trials"] if plan.budget.trials else []
    budget += [f"{plan.budget.hours:g} hours"] if plan.budget.hours else []
    return {
        "objective": ", ".join(f"{objective.metric} ({objective.mode})" for objective in plan.objectives),
        "sampler": _component(plan.sampler),
        "pruner": _component(plan.pruner),
        "budget": ", ".join(budget),
        "seed": f"{plan.seed}" + (f", {plan.repeats} trainings a trial" if plan.repeats > 1 else ""),
        "all trials": " ".join(plan.overrides),
    }


def _component(named: Mapping[str, Any]) -> str:
    options = ", ".join(f"{key}={as_typed(value)}" for key, value in named.items() if key != "name")
    return f"{named['name']}{f' ({options})' if options else ''}"


def _metric(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) >= 1000 else f"{value:.6g}"


def _four(value: float) -> str:
    return f"{value:.4f}"
