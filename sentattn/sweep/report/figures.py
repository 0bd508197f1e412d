"""The figures of the report: Optuna's plots, in which 0 reads 0, a setting that was not set says so, and text is safe.

Optuna draws from a study in memory. The point 0 of a log range is a small number there; its tick and its hover text
read 0. All text that plotly shows passes through `safe`, because plotly renders a part of HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from optuna.distributions import CategoricalDistribution

from sentattn.sweep.report import style
from sentattn.sweep.report.analysis import Importances, as_study
from sentattn.sweep.report.style import BLUE, GREY, ORANGE, RED, SCALE, safe, shown, styled

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from optuna.trial import FrozenTrial

    from sentattn.sweep.plan import Plan
    from sentattn.sweep.records import Record

MAX_TRIALS, MAX_CURVES, MAX_CONTOUR, MAX_BARS = 2000, 200, 150, 300
"""Trials that are drawn; of more the best ones and every n-th other one, in the timeline the last ones."""
MIN_CONTOUR_TRIALS = 10
STATE_COLOURS = {"complete": BLUE, "pruned": ORANGE, "running": GREY}
BEST = {"color": ORANGE, "size": 11, "line": {"color": "black", "width": 1}}
PRUNED = {"color": ORANGE, "size": 7, "symbol": "circle-open", "line": {"width": 1.5}}
CURVES: dict[str, Any] = {
    "best": {"line": {"color": ORANGE, "width": 3.5}, "marker": {"color": ORANGE}, "zorder": 1},
    "complete": {"line": {"color": BLUE, "width": 1.5}, "marker": {"color": BLUE}, "opacity": 0.6},
    "pruned": {"line": {"color": GREY, "width": 1.5, "dash": "dot"}, "marker": {"color": GREY, "symbol": "x"}},
    "running": {"line": {"color": GREY, "width": 1.5}, "marker": {"color": GREY}},
}


class Chart(NamedTuple):
    """A figure with its title, which is plain text and may be empty."""

    title: str
    figure: go.Figure


class Charts:
    """The figures of a study.

    Args:
        plan: The sweep.
        records: Its trials, the n-th with number n.
        front: The best trial, or the Pareto front.
    """

    def __init__(self, plan: Plan, records: Sequence[Record], front: Sequence[Record]) -> None:
        self._plan = plan
        self._objectives = plan.objectives
        self._best = {record.number for record in front}
        self._space = {key: style.with_labels(dimension) for key, dimension in plan.space.items()}
        self._all = [style.with_labels_of(self._space, record) for record in records]
        self._records = self._thinned(MAX_TRIALS, self._all)
        self._hover = [self._describe(record) for record in records]

    def history(self) -> list[Chart]:
        """The value of each trial and the best so far, for each objective."""
        from optuna.visualization import plot_optimization_history

        charts: list[Chart] = []
        if not self._complete():
            return charts
        for index, objective in enumerate(self._objectives):
            figure = plot_optimization_history(self._study(index), target_name=safe(objective.metric))
            points, best = figure.data[:2]
            points.update(name="complete", marker={"color": BLUE, "size": 7})
            self._set_hover(points, points.x)
            best.update(name="best so far", line={"color": ORANGE, "shape": "hv"}, hoverinfo="skip")
            figure.data = [points, best]
            self._mark_best(figure, points.x)
            pruned = [n for n, record in enumerate(self._records) if record.state == "pruned" and record.steps]
            if pruned and len(self._objectives) == 1:
                values = [self._records[n].steps[max(self._records[n].steps)] for n in pruned]
                figure.add_scatter(x=pruned, y=values, mode="markers", name="pruned", marker=PRUNED)
                self._set_hover(figure.data[-1], pruned)
            figure.update_xaxes(title_text="trial")
            charts.append(Chart(self._title(index), styled(figure, 340)))
        return charts

    def pareto(self) -> list[Chart]:
        """Each pair of objectives, with the trials on the Pareto front."""
        from optuna.visualization import plot_pareto_front

        if len(self._objectives) == 1 or not self._best:
            return []
        study = as_study(self._records, {}, self._objectives)
        labels = [safe(f"{objective.metric} ({objective.mode})") for objective in self._objectives]
        charts = []
        for pair in combinations(reversed(range(len(labels))), 2):
            names = [labels[place] for place in pair]
            figure = plot_pareto_front(study, target_names=names, targets=partial(_values, places=pair))
            for trace, name, colour in zip(figure.data, ("dominated", "Pareto front"), (BLUE, ORANGE), strict=True):
                self._set_hover(trace, trace.marker.color)
                trace.update(name=name, showlegend=True, marker={"color": colour, "size": 8, "showscale": False})
            charts.append(Chart("", styled(figure, 380)))
        return charts

    def importances(self, measured: Sequence[Importances | None]) -> list[Chart]:
        """Importances by both measures, for each objective."""
        return [
            Chart(self._title(index), style.importance_bars(measure))
            for index, measure in enumerate(measured)
            if measure
        ]

    def slices(self) -> list[Chart]:
        """Each objective over each setting."""
        from optuna.visualization import plot_slice

        charts = []
        for index, objective in enumerate(self._objectives):
            study, complete = self._study(index), self._complete()
            for key, dimension in self._space.items():
                missing = sum(key not in record.values for record in complete)
                if missing == len(complete):
                    continue
                figure = plot_slice(study, params=[key], target_name=safe(objective.metric))
                [points] = figure.data
                if isinstance(dimension.distribution, CategoricalDistribution):
                    labels = {repr(label): label for label in dimension.distribution.choices}
                    points.x = [labels[label] for label in points.x]
                    figure.update_xaxes(categoryarray=dimension.distribution.choices)
                numbers = points.marker.color
                self._set_hover(points, numbers)
                points.update(name="complete", marker={"colorscale": SCALE, "showscale": False, "size": 8})
                self._mark_best(figure, numbers)
                style.set_axis(figure.layout.xaxis, dimension)
                figure.update_layout(xaxis_title=None, showlegend=False)
                unset = f", not set in {missing} of {len(complete)} trials" if missing else ""
                charts.append(Chart(f"{self._title(index, ': ')}{key}{unset}", styled(figure, 230, top=12)))
        return charts

    def contour(self, index: int, ranking: Sequence[str]) -> go.Figure | None:
        """An objective over the first two settings of a ranking that are numbers; None where that shows nothing.

        Between choices nothing can be interpolated, and with few trials that have both settings little.
        """
        from optuna.visualization import plot_contour

        numbers = [key for key in ranking if not isinstance(self._space[key].distribution, CategoricalDistribution)]
        if len(numbers) < 2:
            return None
        x, y = sorted(numbers[:2])
        both = [record for record in self._complete() if {x, y} <= record.values.keys()]
        if len(both) < MIN_CONTOUR_TRIALS or any(len({record.values[key] for record in both}) < 2 for key in (x, y)):
            return None
        # Optuna's grid has a cell for each pair of values, so that its size grows with the square of the trials.
        records = self._thinned(MAX_CONTOUR, both)
        metric = safe(self._objectives[index].metric)
        figure = plot_contour(self._study(index, records), params=[x, y], target_name=metric)
        surface, points = figure.data[:2]
        surface.update(colorscale=SCALE)
        self._set_hover(points, [n for n, record in enumerate(records) if record.state == "complete"])
        points.update(marker={"color": "black", "size": 6, "line": {"color": "white", "width": 1}})
        figure.data = [surface, points]
        for axis, key in ((figure.layout.xaxis, x), (figure.layout.yaxis, y)):
            style.set_axis(axis, self._space[key])
            axis.title.text = safe(key)
        return styled(figure, 420, top=12)

    def parallel(self) -> go.Figure | None:
        """A line per trial through all settings and objectives; None with fewer than two trials."""
        from optuna.visualization import plot_parallel_coordinate

        complete = self._complete()
        keys = sorted({key for record in complete for key in record.values if key in self._space})
        if len(complete) < 2 or not keys:
            return None
        metrics = [objective.metric for objective in self._objectives]
        if len(metrics) == 1:
            figure = plot_parallel_coordinate(self._study(0), target_name=safe(metrics[0]))
        else:
            figure = plot_parallel_coordinate(as_study(self._records, self._space, self._objectives))
        names = [safe(name) for name in (*metrics, *style.short_names(keys))]
        partial = {key for key in keys if any(key not in record.values for record in complete)}

        def text(column: int, tick: str) -> str:
            key = keys[column - len(metrics)]
            return tick if column < len(metrics) else style.tick(tick, self._space[key], partial=key in partial)

        figure.layout.xaxis.ticktext = [style.wrapped(name) for name in names]
        for note in figure.layout.annotations:
            note.update(text=text(note.x, note.text), bgcolor="rgba(255,255,255,0.75)")
        *lines, scale = figure.data
        for line in lines:
            ticks = [text(column, tick) for column, (_, tick) in enumerate(line.customdata)]
            line.customdata = list(zip(names, ticks, strict=True))
            line.update(line={"color": style.darker(line.line.color)}, opacity=0.75)
        scale.marker.colorscale = [[place, style.darker(colour)] for place, colour in scale.marker.colorscale]
        if len(metrics) == 1:  # with several, Optuna draws the trials in the order of their ranks
            for line, record in zip(lines, complete, strict=True):
                line.hovertemplate = f"trial {record.number}<br>{line.hovertemplate}"
                if record.number in self._best:
                    line.update(line={"color": ORANGE, "width": 4}, opacity=1)
        return styled(figure, 440, top=20)

    def curves(self) -> go.Figure | None:
        """What each trial had reached after each epoch or repeat; None where none has two of them."""
        from optuna.visualization import plot_intermediate_values

        records = self._thinned(MAX_CURVES, [record for record in self._records if record.steps])
        drawn = [record for record in records if record.state in ("complete", "pruned", "running") and record.steps]
        if len(self._objectives) > 1 or all(len(record.steps) < 2 for record in drawn):
            return None
        figure = plot_intermediate_values(self._study(0, records))
        legend: set[str] = set()
        for trace, record in zip(figure.data, drawn, strict=True):
            name = "best" if record.number in self._best else record.state
            self._set_hover(trace, [record.number] * len(trace.x))
            trace.update(CURVES[name], name=name, legendgroup=name, showlegend=name not in legend)
            legend.add(name)
        metric, unit = safe(self._objectives[0].metric), "repeat" if self._plan.repeats > 1 else "epoch"
        title = metric if unit == "repeat" else f"{metric}, best epoch so far"
        figure.update_layout(xaxis_title=unit, yaxis_title=title, showlegend=True)
        figure.update_xaxes(dtick=max(1, round(max(max(record.steps) for record in drawn) / 10)))
        return styled(figure, 360)

    def timeline(self) -> go.Figure | None:
        """When each trial ran; None without trials."""
        from optuna.visualization import plot_timeline

        if not any(record.started for record in self._all):
            return None
        figure = plot_timeline(as_study(self._all, {}, self._objectives), n_recent_trials=MAX_BARS)
        for trace in figure.data:
            states = {self._all[number].state for number in trace.y}
            trace.update(name=" or ".join(sorted(states)), marker={"color": STATE_COLOURS.get(min(states), RED)})
            self._set_hover(trace, trace.y)
        count = min(len(self._all), MAX_BARS)
        figure.update_layout(xaxis_title=None, yaxis_title="trial", bargap=0.15)
        figure.update_yaxes(autorange="reversed", tickformat="d")
        return styled(figure, max(220, min(700, 110 + 14 * count)))

    def _study(self, index: int, records: Sequence[Record] | None = None) -> Any:
        """The trials with one of the objectives, as Optuna has them."""
        return as_study(self._records if records is None else records, self._space, self._objectives, index)

    def _complete(self) -> list[Record]:
        return [record for record in self._records if record.state == "complete"]

    def _thinned(self, most: int, wanted: Sequence[Record]) -> list[Record]:
        """All trials, in which only `most` of the wanted ones and the best keep their state, and so are drawn."""
        kept = {record.number for record in wanted[:: max(1, -(-len(wanted) // most))]}
        kept |= self._best & {record.number for record in wanted}
        return [record if record.number in kept else replace(record, state="outside") for record in self._all]

    def _describe(self, record: Record) -> str:
        """The hover text of a trial."""
        named = zip(self._objectives, record.objectives or (), strict=False)
        reached = ", ".join(f"{objective.metric} {value:.6g}" for objective, value in named) or record.state
        values = [f"{key}={shown(value)}" for key, value in record.values.items()]
        unset = [f"{key} not set" for key in self._plan.space if key not in record.values] if record.values else []
        lines = [f"trial {record.number}: {reached}", *values, *unset, record.error.partition("\n")[0]]
        return "<br>".join(safe(line) for line in lines if line)

    def _set_hover(self, trace: Any, numbers: Iterable[Any]) -> None:
        """Shows a trial's description at each point; `numbers` are the points' trials."""
        trace.update(text=[self._hover[int(n)] for n in numbers], hovertemplate="%{text}<extra></extra>")

    def _mark_best(self, figure: go.Figure, numbers: Sequence[Any]) -> None:
        """Draws the best of the first trace's points again, larger; `numbers` are its points' trials."""
        points = figure.data[0]
        best = [place for place, number in enumerate(numbers) if number in self._best]
        x, y = ([values[place] for place in best] for values in (points.x, points.y))
        name = "best" if len(self._objectives) == 1 else "Pareto front"
        figure.add_scatter(x=x, y=y, mode="markers", name=name, marker=BEST)
        self._set_hover(figure.data[-1], [numbers[place] for place in best])

    def _title(self, index: int, end: str = "") -> str:
        return f"{self._objectives[index].metric}{end}" if len(self._objectives) > 1 else ""


def _values(trial: FrozenTrial, places: Sequence[int]) -> list[float]:
    return [trial.values[place] for place in places]
