"""`report.html`: a study in one file that needs no network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from sentattn.config.types import as_typed
from sentattn.sweep.plan import Plan
from sentattn.sweep.records import Record
from sentattn.sweep.report.analysis import Importances
from sentattn.sweep.report.artifacts import BEST, PARETO, TABLE, CostReader, train_arguments, train_command
from sentattn.sweep.report.figures import Charts
from sentattn.sweep.report.style import safe, short_names, shown

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_ROWS = 500
"""Trials in the table: the best ones and the last others."""
CONFIG = {"displaylogo": False, "responsive": True, "displayModeBar": False}
MEASURES = (
    "PED-ANOVA compares where the good trials lie with where all lie; fANOVA measures what the predictions of a random "
    "forest vary with."
)
NO_FANOVA = ' fANOVA needs scikit-learn: pip install "sentattn[report]".'


@dataclass(frozen=True)
class Findings:
    """What is known of a study.

    Attributes:
        plan: The sweep.
        folder: The study's folder.
        records: Its trials.
        front: The best trial; with several objectives the Pareto front, most balanced first.
        importances: For each objective, None where there are too few trials.
        cautions: What to be careful about.
        confirmed: The content of `confirm.json`; None where the best setting is not confirmed.
        reader: Of the runs' costs.
    """

    plan: Plan
    folder: Path
    records: Sequence[Record]
    front: Sequence[Record]
    importances: Sequence[Importances | None]
    cautions: Sequence[str]
    confirmed: Mapping[str, Any] | None
    reader: CostReader


def page(findings: Findings) -> str:
    """Returns the report as HTML, with plotly's script in it once."""
    from plotly.offline import get_plotlyjs

    template = resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        title=safe(findings.plan.study),
        counts=safe(counts(findings.records)),
        cautions=_cautions(findings),
        best=_best(findings),
        confirmed=_confirmed(findings.confirmed),
        charts=_charts(findings),
        trials=_trials(findings),
        searched=_searched(findings.plan),
        plotly=get_plotlyjs(),
    )


def counts(records: Sequence[Record]) -> str:
    """Returns how many trials there are, by state."""
    states = Counter(record.state for record in records)
    by_state = ", ".join(f"{count:,} {state}" for state, count in states.items())
    return f"{len(records):,} trial{'s' * (len(records) != 1)}: {by_state}" if by_state else "no trial yet"


def _charts(findings: Findings) -> str:
    charts, plan = Charts(findings.plan, findings.records, findings.front), findings.plan
    complete = sum(record.state == "complete" for record in findings.records)
    measured = [measure for measure in findings.importances if measure]
    without_forest = any(measure.fanova is None for measure in measured)
    shares = f"Of {complete} complete trials, drawn by sampler={plan.sampler['name']}. {MEASURES}"
    contours = [
        ("", charts.contour(index, measure.ranking)) for index, measure in enumerate(findings.importances) if measure
    ]
    return "".join(
        (
            _section("History", charts.history()),
            _section("Pareto front", charts.pareto(), columns=True),
            _section(
                "Importance",
                charts.importances(findings.importances),
                *(measure.caution for measure in measured if measure.caution),
                shares + NO_FANOVA * without_forest,
            ),
            _section("Slices", charts.slices(), "Darker points are later trials; orange is the best.", columns=True),
            _section(
                "Contour",
                contours,
                "Over the two numeric settings that matter most. The surface is interpolated between the trials (the "
                "points): it shows where to look.",
            ),
            _section("Parallel coordinates", [("", charts.parallel())]),
            _section("Learning curves", [("", charts.curves())]),
            _section("Timeline", [("", charts.timeline())]),
        )
    )


def _section(heading: str, charts: Iterable[tuple[str, go.Figure | None]], *notes: str, columns: bool = False) -> str:
    """A section with its figures; empty without any."""
    parts: list[str] = []
    name = heading.lower().replace(" ", "-")
    for title, figure in charts:
        if figure is not None:
            div = figure.to_html(full_html=False, include_plotlyjs=False, config=CONFIG, div_id=f"{name}-{len(parts)}")
            parts.append(f"<div>{f'<h3>{safe(title)}</h3>' if title else ''}{div}</div>")
    if not parts:
        return ""
    grid = f'<div class="{"charts" if columns and len(parts) > 1 else ""}">{"".join(parts)}</div>'
    text = "".join(f'<p class="note">{safe(note)}</p>' for note in notes)
    return f'<section id="{name}"><h2>{heading}</h2>{grid}{text}</section>'


def _cautions(findings: Findings) -> str:
    if not findings.cautions:
        return ""
    items = "".join(f"<li>{safe(line)}</li>" for line in findings.cautions)
    return f'<section class="cautions"><h2>Be careful</h2><ul>{items}</ul></section>'


def _best(findings: Findings) -> str:
    """The best setting, or the most balanced one of the Pareto front, with the command that trains it."""
    plan = findings.plan
    if not findings.front:
        return "<section><h2>Best setting</h2><p>No trial is complete yet.</p></section>"
    best = findings.front[0]
    values = zip(plan.objectives, best.objectives or (), strict=True)
    reached = ", ".join(f"<b>{_metric(value)}</b> {safe(objective.metric)}" for objective, value in values)
    several = len(plan.objectives) > 1
    note = (
        f"<p>Of the {len(findings.front)} settings of the Pareto front it is the one nearest to the best of each "
        f"objective; the others are in <code>{PARETO}/</code>.</p>"
    )
    return (
        f"<section><h2>{'Most balanced' if several else 'Best'} setting: trial {best.number}</h2>"
        f'<p class="reached">{reached}</p>{note if several else ""}'
        f"{_list((key, shown(value)) for key, value in best.values.items())}"
        f"<p>Train and test it again:</p><pre>{safe(train_command(findings.folder / BEST))}</pre>"
        f"<details><summary>its arguments</summary><pre>{safe(' '.join(train_arguments(plan, best.values)))}</pre>"
        "</details></section>"
    )


def _confirmed(confirmed: Mapping[str, Any] | None) -> str:
    if not confirmed:
        return ""
    rows = [
        (
            name,
            f"{metric['mean']:.4f}",
            " to ".join(f"{value:.4f}" for value in metric["interval"] or ()),
            ", ".join(f"{value:.4f}" for value in metric["values"]),
        )
        for name, metric in confirmed["metrics"].items()
    ]
    seeds = ", ".join(map(str, confirmed["seeds"]))
    table = _table(("metric", "mean", "95% interval of the mean", "each seed"), rows)
    return f"<section><h2>Confirmed: trial {confirmed['trial']} with seeds {safe(seeds)}</h2>{table}</section>"


def _trials(findings: Findings) -> str:
    plan, records = findings.plan, findings.records
    best = {record.number for record in findings.front}
    rows = []
    for record in [r for n, r in enumerate(records) if r.number in best or n >= len(records) - MAX_ROWS]:
        costs = findings.reader.costs(record)
        values = [shown(record.values[key]) if key in record.values else "not set" for key in plan.space]
        objectives = [_metric(value) for value in record.objectives or ()] or [""] * len(plan.objectives)
        epoch = "" if costs.best_epoch is None else costs.best_epoch
        seconds = "" if costs.seconds is None else f"{costs.seconds:.0f}"
        retried = "" if record.retry_of is None else record.retry_of
        note = record.error.partition("\n")[0]
        rows.append((record.number, record.state, *objectives, *values, epoch, seconds, retried, note))
    names = ("trial", "state", *(objective.metric for objective in plan.objectives), *short_names(plan.space))
    heading = (*names, "best epoch", "seconds", "retry of", "note")
    filled = [n for n in range(len(heading)) if n < 2 or any(row[n] != "" for row in rows)]
    table = _table([heading[n] for n in filled], [[row[n] for n in filled] for row in rows], "sortable")
    rest = (
        f"<p class=note>{len(rows)} of {len(records)} trials; {TABLE} has all.</p>" if len(rows) < len(records) else ""
    )
    return f"<section><h2>Trials</h2>{table}{rest}</section>" if rows else ""


def _searched(plan: Plan) -> str:
    """The search space, objectives, sampler, pruner and what all trials share."""
    ranges = []
    for key, dimension in plan.space.items():
        conditions = (f"{other}={' or '.join(map(as_typed, legal))}" for other, legal in dimension.when.items())
        ranges.append((key, dimension.written + (f" where {' and '.join(conditions)}" if dimension.when else "")))
    budget = [f"{plan.budget.trials} trials"] if plan.budget.trials else []
    budget += [f"{plan.budget.hours:g} hours"] if plan.budget.hours else []
    others = {
        "objective": ", ".join(f"{objective.metric} ({objective.mode})" for objective in plan.objectives),
        "sampler": _component(plan.sampler),
        "pruner": _component(plan.pruner),
        "budget": ", ".join(budget),
        "seed": f"{plan.seed}" + (f", {plan.repeats} trainings a trial" if plan.repeats > 1 else ""),
        "all trials": " ".join(plan.overrides),
    }
    return _list(ranges) + _list(others.items())


def _component(named: Mapping[str, Any]) -> str:
    options = ", ".join(f"{key}={as_typed(value)}" for key, value in named.items() if key != "name")
    return f"{named['name']}{f' ({options})' if options else ''}"


def _metric(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) >= 1000 else f"{value:.6g}"


def _list(items: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<dt>{safe(name)}</dt><dd>{safe(text)}</dd>" for name, text in items)
    return f'<dl class="values">{rows}</dl>'


def _table(heading: Sequence[object], rows: Iterable[Sequence[object]], kind: str = "") -> str:
    head = "".join(f"<th>{safe(name)}</th>" for name in heading)
    body = "".join(f"<tr>{''.join(f'<td>{safe(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
