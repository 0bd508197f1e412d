"""`report.html`: a study as one page that needs no network, with the figures of `optuna.visualization`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any, TypeAlias

import plotly.graph_objects as go
from optuna import Study
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.importance import BaseImportanceEvaluator
from optuna.visualization import (
    plot_contour,
    plot_intermediate_values,
    plot_optimization_history,
    plot_parallel_coordinate,
    plot_param_importances,
    plot_pareto_front,
    plot_slice,
    plot_timeline,
)

from sentattn.config.types import as_typed
from sentattn.rendering.html import draw, layout, plotly_script, render, safe
from sentattn.sweep.report.analysis import Findings, Importances, as_study
from sentattn.sweep.report.artifacts import BEST, costs, train_arguments, train_command
from sentattn.sweep.spec.plan import Plan
from sentattn.sweep.spec.search_space import Dimension
from sentattn.sweep.study.records import Record

MAX_ROWS = 500
"""Trials in the table: the best ones and the last others."""
MAX_TRIALS, MAX_CURVES, MAX_CONTOUR, MAX_BARS = 2000, 200, 150, 300
"""Trials that are drawn; of more the best ones and every n-th other one, in the timeline the last ones.

The grid of a contour has a cell for each pair of values, so that its size grows with the square of the trials.
"""
MIN_CONTOUR_TRIALS, MAX_TICKS = 10, 16

Chart: TypeAlias = tuple[str, go.Figure]
"""A figure with its title, plain text that may be empty."""


class Charts:
    """The figures of a study, whose n-th record has number n. The point 0 of a log range is a small number in them."""

    def __init__(self, plan: Plan, records: Sequence[Record], front: Sequence[Record]) -> None:
        self._objectives = plan.objectives
        self._metrics = [safe(objective.metric) for objective in plan.objectives]
        self._best = {record.number for record in front}
        self._space = {key: _with_texts(dimension) for key, dimension in plan.space.items()}
        choices = {key for key, dimension in plan.space.items() if _is_categorical(dimension)}
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

    def importances(self, measured: Sequence[Importances | None]) -> list[Chart]:
        """Importances by both measures, for each objective."""
        charts = []
        for index, measure in enumerate(measured):
            for name, shares in (("PED-ANOVA", measure.ped_anova), ("fANOVA", measure.fanova)) if measure else ():
                if shares:
                    figure = plot_param_importances(self._study(index), _Measured(shares), [*shares])
                    height = 110 + 30 * len(shares)
                    charts.append((f"{self._title(index, ': ')}{name}", _styled(figure, height, showlegend=False)))
        return charts

    def slices(self) -> list[Chart]:
        """Each objective over each setting that two trials have; a single point shows nothing."""
        charts = []
        for (index, metric), key in product(enumerate(self._metrics), self._space):
            if (count := sum(key in record.values for record in self._complete)) > 1:
                figure = plot_slice(self._study(index), [key], target_name=metric)
                distribution = self._space[key].distribution
                if isinstance(distribution, IntDistribution) and distribution.high - distribution.low < MAX_TICKS:
                    figure.update_xaxes(dtick=1)  # plotly has ticks between whole numbers
                missing, total = len(self._complete) - count, len(self._complete)
                unset = f", not set in {missing} of {total} trials" if missing else ""
                charts.append((f"{self._title(index, ': ')}{key}{unset}", _styled(figure, 240)))
        return charts

    def contour(self, index: int, ranking: Sequence[str]) -> go.Figure | None:
        """An objective over the first two settings of a ranking that are numbers; None where that shows nothing.

        Between choices nothing can be interpolated, and with few trials that have both settings little.
        """
        numbers = [key for key in ranking if not _is_categorical(self._space[key])]
        both = [record for record in self._complete if set(numbers[:2]) <= record.values.keys()]
        if len(numbers) < 2 or len(both) < MIN_CONTOUR_TRIALS:
            return None
        if any(len({record.values[key] for record in both}) < 2 for key in numbers[:2]):
            return None
        study = self._study(index, self._thinned(MAX_CONTOUR, both))
        return _styled(plot_contour(study, numbers[:2], target_name=self._metrics[index]), 420)

    def parallel(self) -> list[Chart]:
        """A line per trial through all settings, for each objective; none with fewer than two trials."""
        if len(self._complete) < 2 or not any(record.values for record in self._complete):
            return []
        return [
            (self._title(index), _styled(plot_parallel_coordinate(self._study(index), target_name=metric), 440))
            for index, metric in enumerate(self._metrics)
        ]

    def curves(self) -> go.Figure | None:
        """The objective of each trial after each epoch or repeat; None where no trial has two values."""
        if len(self._objectives) > 1 or all(len(record.steps) < 2 for record in self._records):
            return None
        records = self._thinned(MAX_CURVES, [record for record in self._records if record.steps])
        return _styled(plot_intermediate_values(self._study(0, records)), 360)

    def timeline(self) -> go.Figure | None:
        """When each trial ran; None without trials."""
        if not any(record.started for record in self._all):
            return None
        figure = plot_timeline(as_study(self._all, {}, self._objectives), n_recent_trials=MAX_BARS)
        return _styled(figure, max(220, min(700, 110 + 14 * min(len(self._all), MAX_BARS))))

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


def _is_categorical(dimension: Dimension) -> bool:
    return isinstance(dimension.distribution, CategoricalDistribution)


def _with_texts(dimension: Dimension) -> Dimension:
    """A dimension whose choices are texts that plotly shows as they are."""
    if not isinstance(dimension.distribution, CategoricalDistribution):
        return dimension
    texts = [safe(as_typed(choice)) for choice in dimension.distribution.choices]
    return replace(dimension, distribution=CategoricalDistribution(texts))


class _Measured(BaseImportanceEvaluator):
    """Known importances in the form that `plot_param_importances` takes."""

    def __init__(self, shares: Mapping[str, float]) -> None:
        self._shares = dict(shares)

    def evaluate(self, *_: object, **__: object) -> dict[str, float]:
        """Returns the shares."""
        return self._shares


def _styled(figure: go.Figure, height: int, **others: Any) -> go.Figure:
    return figure.update_layout(layout(height), **others)


def page(findings: Findings) -> str:
    """Returns `report.html`, a study in one file, with plotly's script in it once."""
    plan, charts = findings.plan, Charts(findings.plan, findings.records, findings.front)
    measured = [(index, measure) for index, measure in enumerate(findings.importances) if measure]
    heading, rows = _table(findings)
    figures: dict[str, Callable[[], Sequence[tuple[str, go.Figure | None]]]] = {
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


def _table(findings: Findings) -> tuple[list[str], list[list[object]]]:
    """Heading and rows of the table of trials, without its empty columns."""
    plan, records = findings.plan, findings.records
    best = {record.number for record in findings.front}
    names = ["trial", "state", *(objective.metric for objective in plan.objectives), *short_names(plan.space)]
    heading, rows = [*names, "best epoch", "seconds", "retry of", "note"], []
    for record in [r for n, r in enumerate(records) if r.number in best or n >= len(records) - MAX_ROWS]:
        spent = costs(findings.folder, record)
        values = [as_text(record.values[key]) if key in record.values else "not set" for key in plan.space]
        objectives = [_metric(value) for value in record.objectives or ()] or [""] * len(plan.objectives)
        seconds = None if spent.seconds is None else f"{spent.seconds:.0f}"
        row = [record.number, record.state, *objectives, *values, spent.best_epoch, seconds, record.retry_of]
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
