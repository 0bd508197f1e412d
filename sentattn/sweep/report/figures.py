"""The figures of a study: those of `optuna.visualization`, in the look of our pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

from optuna.distributions import CategoricalDistribution, IntDistribution

from sentattn.config.types import as_typed
from sentattn.rendering.html import layout, safe
from sentattn.sweep.report.analysis import Importances, as_study
from sentattn.sweep.spec.search_space import Dimension, Distribution, Value

if TYPE_CHECKING:
    import optuna
    import plotly.graph_objects as go
    from optuna.importance import BaseImportanceEvaluator

    from sentattn.sweep.spec.plan import Plan
    from sentattn.sweep.study.records import Record

MAX_TRIALS, MAX_CURVES, MAX_CONTOUR, MAX_BARS = 2000, 200, 150, 300
"""Trials that are drawn; of more the best ones and every n-th other one, in the timeline the last ones.

The grid of a contour has a cell for each pair of values, so that its size grows with the square of the trials.
"""
MIN_CONTOUR_TRIALS, MAX_TICKS = 10, 16

Chart = tuple[str, "go.Figure"]
"""A figure with its title, plain text that may be empty."""


class Charts:
    """The figures of a study, whose n-th record has number n. The point 0 of a log range is a small number in them."""

    def __init__(self, plan: Plan, records: Sequence[Record], front: Sequence[Record]) -> None:
        self._objectives = plan.objectives
        self._metrics = [safe(objective.metric) for objective in plan.objectives]
        self._best = {record.number for record in front}
        self._space = {key: _with_texts(dimension) for key, dimension in plan.space.items()}
        self._all = [replace(record, values=self._texts(record.values)) for record in records]
        self._records = self._thinned(MAX_TRIALS, self._all)
        self._complete = [record for record in self._records if record.state == "complete"]

    def history(self) -> list[Chart]:
        """The value of each trial and the best so far, for each objective."""
        from optuna.visualization import plot_optimization_history

        return [
            (self._title(index), _styled(plot_optimization_history(self._study(index), target_name=metric), 340))
            for index, metric in enumerate(self._metrics if self._complete else ())
        ]

    def pareto(self) -> list[Chart]:
        """Each pair of objectives, with the trials on the Pareto front."""
        from optuna.visualization import plot_pareto_front

        charts = []
        for pair in combinations(range(len(self._objectives)), 2) if self._best else ():
            objectives = [self._objectives[index] for index in pair]
            records = [
                replace(
                    record, objectives=tuple(record.objectives[index] for index in pair) if record.objectives else None
                )
                for record in self._records
            ]
            names = [f"{safe(objective.metric)} ({objective.mode})" for objective in objectives]
            study = as_study(records, self._space, objectives)
            charts.append(("", _styled(plot_pareto_front(study, target_names=names), 380)))
        return charts

    def importances(self, measured: Sequence[Importances | None]) -> list[Chart]:
        """Importances by both measures, for each objective."""
        from optuna.visualization import plot_param_importances

        charts = []
        for index, measure in enumerate(measured):
            for name, shares in (("PED-ANOVA", measure.ped_anova), ("fANOVA", measure.fanova)) if measure else ():
                if shares:
                    figure = plot_param_importances(self._study(index), _measured(shares), [*shares])
                    height = 110 + 30 * len(shares)
                    charts.append((f"{self._title(index, ': ')}{name}", _styled(figure, height, showlegend=False)))
        return charts

    def slices(self) -> list[Chart]:
        """Each objective over each setting that two trials have; a single point shows nothing."""
        from optuna.visualization import plot_slice

        charts = []
        for (index, metric), key in product(enumerate(self._metrics), self._space):
            if (count := sum(key in record.values for record in self._complete)) > 1:
                figure = plot_slice(self._study(index), [key], target_name=metric)
                if _is_short(self._space[key].distribution):
                    figure.update_xaxes(dtick=1)  # plotly has ticks between whole numbers
                missing, total = len(self._complete) - count, len(self._complete)
                unset = f", not set in {missing} of {total} trials" if missing else ""
                charts.append((f"{self._title(index, ': ')}{key}{unset}", _styled(figure, 240)))
        return charts

    def contour(self, index: int, ranking: Sequence[str]) -> go.Figure | None:
        """An objective over the first two settings of a ranking that are numbers; None where that shows nothing.

        Between choices nothing can be interpolated, and with few trials that have both settings little.
        """
        from optuna.visualization import plot_contour

        numbers = [key for key in ranking if not isinstance(self._space[key].distribution, CategoricalDistribution)]
        both = [record for record in self._complete if set(numbers[:2]) <= record.values.keys()]
        if len(numbers) < 2 or len(both) < MIN_CONTOUR_TRIALS:
            return None
        if any(len({record.values[key] for record in both}) < 2 for key in numbers[:2]):
            return None
        study = self._study(index, self._thinned(MAX_CONTOUR, both))
        return _styled(plot_contour(study, numbers[:2], target_name=self._metrics[index]), 420)

    def parallel(self) -> list[Chart]:
        """A line per trial through all settings, for each objective; none with fewer than two trials."""
        from optuna.visualization import plot_parallel_coordinate

        if len(self._complete) < 2 or not any(record.values for record in self._complete):
            return []
        return [
            (self._title(index), _styled(plot_parallel_coordinate(self._study(index), target_name=metric), 440))
            for index, metric in enumerate(self._metrics)
        ]

    def curves(self) -> go.Figure | None:
        """The objective of each trial after each epoch or repeat; None where no trial has two values."""
        from optuna.visualization import plot_intermediate_values

        if len(self._objectives) > 1 or all(len(record.steps) < 2 for record in self._records):
            return None
        records = self._thinned(MAX_CURVES, [record for record in self._records if record.steps])
        return _styled(plot_intermediate_values(self._study(0, records)), 360)

    def timeline(self) -> go.Figure | None:
        """When each trial ran; None without trials."""
        from optuna.visualization import plot_timeline

        if not any(record.started for record in self._all):
            return None
        figure = plot_timeline(as_study(self._all, {}, self._objectives), n_recent_trials=MAX_BARS)
        return _styled(figure, max(220, min(700, 110 + 14 * min(len(self._all), MAX_BARS))))

    def _study(self, index: int, records: Sequence[Record] | None = None) -> optuna.Study:
        """The trials as a study with one of the objectives."""
        return as_study(self._records if records is None else records, self._space, self._objectives, index)

    def _texts(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """The values of settings, choices as texts."""
        space = self._space.items()
        choices = {key for key, dimension in space if isinstance(dimension.distribution, CategoricalDistribution)}
        return {key: safe(as_typed(value)) if key in choices else value for key, value in values.items()}

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


def _is_short(distribution: Distribution) -> bool:
    """Whether a range has few whole numbers."""
    return isinstance(distribution, IntDistribution) and distribution.high - distribution.low < MAX_TICKS


def _measured(shares: Mapping[str, float]) -> BaseImportanceEvaluator:
    """Returns known importances in the form that `plot_param_importances` takes."""
    from optuna.importance import BaseImportanceEvaluator

    class Measured(BaseImportanceEvaluator):
        def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
            return dict(shares)

    return Measured()


def _styled(figure: go.Figure, height: int, **others: Any) -> go.Figure:
    return figure.update_layout(layout(height), **others)
