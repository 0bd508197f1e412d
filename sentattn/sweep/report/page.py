"""`report.html`: a study as one page that needs no network, with the figures of `optuna.visualization`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import TypeAlias

import plotly.graph_objects as go
from optuna import Study
from optuna.distributions import CategoricalDistribution
from optuna.visualization import plot_intermediate_values, plot_optimization_history, plot_pareto_front, plot_slice

from sentattn.config.search_space import Dimension
from sentattn.config.types import as_typed
from sentattn.errors import first_line
from sentattn.jobs.progress import format_objective, short_names
from sentattn.rendering.html import draw, layout, plotly_script, render, safe
from sentattn.run import REPORT, write_atomically
from sentattn.sweep.report.analysis import Findings, as_study
from sentattn.sweep.report.artifacts import BEST, train_arguments, train_command, trial_table, write_table
from sentattn.sweep.spec.plan import Plan
from sentattn.sweep.study.records import Record

MAX_ROWS = 500
"""Trials in the table: the best ones and the last others."""
MAX_TRIALS, MAX_CURVES = 2000, 200
"""Trials that are drawn; of more the best ones and every n-th other one."""

Chart: TypeAlias = tuple[str, go.Figure]
"""A figure with its title, plain text that may be empty."""


class Charts:
    """The figures of a study, whose n-th record has number n. The point 0 of a log range is a small number in them."""

    def __init__(self, plan: Plan, records: Sequence[Record], front: Sequence[Record]) -> None:
        self._objectives, self._repeats = plan.objectives, plan.repeats
        self._metrics = [safe(objective.metric) for objective in plan.objectives]
        self._best = {record.number for record in front}
        self._space = {key: _with_texts(dimension) for key, dimension in plan.space.items()}
        choices = {key for key, dimension in plan.space.items() if dimension.is_categorical}
        self._all = [
            replace(record, values={k: safe(as_typed(v)) if k in choices else v for k, v in record.values.items()})
            for record in records
        ]
        self._records = self._thinned(MAX_TRIALS, self._all)
        self._complete = [record for record in self._records if record.state == "complete"]

    def history(self) -> list[Chart]:
        """The value of each trial and the best so far, for each objective."""
        return [
            (self._title(index), _styled(plot_optimization_history(self._study(index), target_name=metric), 340))
            for index, metric in enumerate(self._metrics if self._complete else ())
        ]

    def pareto(self) -> list[Chart]:
        """Each pair of objectives, with the trials on the Pareto front."""
        charts = []
        for pair in combinations(range(len(self._objectives)), 2) if self._best else ():
            objectives = [self._objectives[index] for index in pair]
            reached = [record.objectives and tuple(record.objectives[n] for n in pair) for record in self._records]
            records = [replace(record, objectives=o) for record, o in zip(self._records, reached, strict=True)]
            names = [f"{safe(objective.metric)} ({objective.mode})" for objective in objectives]
            study = as_study(records, self._space, objectives)
            charts.append(("", _styled(plot_pareto_front(study, target_names=names), 380)))
        return charts

    def importances(self, measured: Sequence[Mapping[str, float]]) -> list[Chart]:
        """Importances for each objective."""
        charts = []
        for index, shares in enumerate(measured):
            if shares:
                bars = go.Figure(go.Bar(x=[*shares.values()], y=[*shares], orientation="h"))
                bars.update_yaxes(autorange="reversed")  # the first is at the top
                charts.append((self._title(index), _styled(bars, 110 + 30 * len(shares))))
        return charts

    def slices(self) -> list[Chart]:
        """Each objective over each setting that two trials have; a single point shows nothing."""
        charts = []
        for (index, metric), key in product(enumerate(self._metrics), self._space):
            if (count := sum(key in record.values for record in self._complete)) > 1:
                figure = _styled(plot_slice(self._study(index), [key], target_name=metric), 240)
                missing, total = len(self._complete) - count, len(self._complete)
                unset = f", not set in {missing} of {total} trials" if missing else ""
                charts.append((f"{self._title(index, ': ')}{key}{unset}", figure))
        return charts

    def curves(self) -> list[Chart]:
        """The objective of each trial after each epoch or repeat; none where no trial has two values."""
        if len(self._objectives) > 1 or all(len(record.steps) < 2 for record in self._records):
            return []
        records = self._thinned(MAX_CURVES, [record for record in self._records if record.steps])
        step = "repeat" if self._repeats > 1 else "epoch"
        figure = _styled(plot_intermediate_values(self._study(0, records)), 360)
        return [("", figure.update_layout(xaxis_title=step, yaxis_title=self._metrics[0]))]

    def _study(self, index: int, records: Sequence[Record] | None = None) -> Study:
        """The trials as a study with one of the objectives."""
        return as_study(self._records if records is None else records, self._space, self._objectives, index)

    def _thinned(self, most: int, wanted: Sequence[Record]) -> list[Record]:
        """All trials, in which only `most` of the wanted ones and the best keep their state, and so are drawn."""
        kept = {record.number for record in wanted[:: max(1, -(-len(wanted) // most))]}
        kept |= self._best & {record.number for record in wanted}
        return [record if record.number in kept else replace(record, state="interrupted") for record in self._all]

    def _title(self, index: int, end: str = "") -> str:
        return f"{self._objectives[index].metric}{end}" if len(self._objectives) > 1 else ""


def _with_texts(dimension: Dimension) -> Dimension:
    """A dimension whose choices are texts that plotly shows as they are."""
    if not isinstance(dimension.distribution, CategoricalDistribution):
        return dimension
    texts = [safe(as_typed(choice)) for choice in dimension.distribution.choices]
    return replace(dimension, distribution=CategoricalDistribution(texts))


def _styled(figure: go.Figure, height: int) -> go.Figure:
    # More numbers overlap on a narrow screen.
    return figure.update_layout(layout(height)).update_xaxes(nticks=3, selector={"type": "log"})


def write_report(plan: Plan, folder: Path, records: Sequence[Record]) -> list[str]:
    """Writes `trials.parquet` and `report.html` of a study; returns a line for each part that cannot be drawn.

    Raises:
        OSError: If they cannot be written.
    """
    write_table(folder, records, plan)
    try:
        findings = Findings(plan, folder, records)
        text = page(findings)
    except Exception as error:  # no page keeps a sweep from its end
        return [f"{folder / REPORT} is not up to date: {first_line(error)}."]
    write_atomically(folder / REPORT, text)
    return [f"{folder / REPORT}: {name} is missing: {message}." for name, message in findings.failures.items()]


def page(findings: Findings) -> str:
    """Returns `report.html`, a study in one file, with plotly's script in it once."""
    plan, charts = findings.plan, Charts(findings.plan, findings.records, findings.front)
    figures = {
        "History": charts.history,
        "Pareto front": charts.pareto,
        "Importance": lambda: charts.importances(findings.importances),
        "Slices": charts.slices,
        "Learning curves": charts.curves,
    }

    def drawn(heading: str) -> list[tuple[str, str]]:
        name = heading.lower().replace(" ", "-")
        return [(title, draw(figure, f"{name}-{n}")) for n, (title, figure) in enumerate(figures[heading]())]

    names = short_names(plan.space)
    best, last = {record.number for record in findings.front}, len(findings.records) - MAX_ROWS
    listed = [record for n, record in enumerate(findings.records) if record.number in best or n >= last]
    table = {name: [*map(as_text, cells)] for name, cells in trial_table(plan, findings.folder, listed).items()}
    table = {name: cells for name, cells in table.items() if name != "directory" and any(cells)}
    return render(
        "sentattn.sweep.report",
        "report.html",
        findings=findings,
        plan=plan,
        states=Counter(record.state for record in findings.records),
        command=train_command(findings.folder / BEST, plan.overrides),
        arguments=" ".join(train_arguments(plan, findings.front[0].values)) if findings.front else "",
        charts={heading: findings.attempt(heading, partial(drawn, heading), []) for heading in figures},
        heading=[names.get(name, name) for name in table],
        rows=[*zip(*table.values(), strict=True)],
        as_text=as_text,
        format_objective=format_objective,
        as_typed=as_typed,
        plotly=plotly_script(),
    )


def as_text(value: object) -> str:
    """Returns a cell of the table: floats with six digits, of several lines the first, nothing for None."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value == int(value) and abs(value) >= 1000 else f"{value:.6g}"
    text = value if isinstance(value, str) else as_typed(value)
    return "" if value is None else text.partition("\n")[0]
