"""The figures of the report: Optuna's plots, in which 0 reads 0, a setting that was not set says so, and text is safe.

Optuna draws from a study in memory. The point 0 of a log range is a small number there; its tick and its hover text
read 0. All text that plotly shows passes through `safe`, because plotly renders a part of HTML.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from optuna.distributions import CategoricalDistribution

from sentattn.sweep.report import style
from sentattn.sweep.report.analysis import Importances, as_study, single_objective
from sentattn.sweep.report.style import BLUE, GREY, ORANGE, RED, SCALE, safe, shown, styled

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from optuna.trial import FrozenTrial

    from sentattn.sweep.config import Plan
    from sentattn.sweep.records import Record

MAX_TRIALS, MAX_CURVES, MAX_CONTOUR, MAX_BARS = 2000, 200, 150, 300
"""Trials that are drawn; of more the best ones and every n-th other one, in the timeline the last ones."""
MIN_CONTOUR_TRIALS = 10
STATE_COLOURS = {"complete": BLUE, "pruned": ORANGE, "running": GREY, "failed": RED}


class Chart(NamedTuple):
    """A figure with its title.

    Attributes:
        title: Plain text; empty where the section's heading says it all.
        figure: The figure.
    """

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
        self._best = {one.number for one in front}
        self._space = {key: style.with_labels(dimension) for key, dimension in plan.space.items()}
        self._all = [self._labelled(one) for one in records]
        self._records = self._thinned(MAX_TRIALS, self._all)
        self._hover = [self._describe(one) for one in records]

    def history(self) -> list[Chart]:
        """The value of each trial and the best so far, for each objective."""
        from optuna.visualization import plot_optimization_history

        charts: list[Chart] = []
        if not self._complete(0):
            return charts
        for index, objective in enumerate(self._objectives):
            figure = plot_optimization_history(self._study(index), target_name=safe(objective.metric))
            points, best = figure.data[:2]
            points.update(name="complete", marker={"color": BLUE, "size": 7})
            self._set_hover(points, points.x)
            best.update(name="best so far", line={"color": ORANGE, "shape": "hv"}, hoverinfo="skip")
            figure.data = [points, best]
            self._mark_best(figure, points.x, points.x, points.y)
            if len(self._objectives) == 1:
                self._add_pruned(figure)
            charts.append(Chart(self._title(index), styled(figure, 340)))
        return charts

    def pareto(self) -> list[Chart]:
        """Each pair of objectives, with the trials on the Pareto front."""
        from optuna.visualization import plot_pareto_front

        if len(self._objectives) == 1 or not self._best:
            return []
        study = as_study(self._records, {}, [one.mode for one in self._objectives])
        labels = [safe(f"{one.metric} ({one.mode})") for one in self._objectives]
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
        return [Chart(self._title(index), _bars(one)) for index, one in enumerate(measured) if one]

    def slices(self) -> list[Chart]:
        """Each objective over each setting."""
        from optuna.visualization import plot_slice

        charts = []
        for index, objective in enumerate(self._objectives):
            study, complete = self._study(index), self._complete(index)
            for key, dimension in self._space.items():
                if not (count := sum(key in one.values for one in complete)):
                    continue
                figure = plot_slice(study, params=[key], target_name=safe(objective.metric))
                [points] = figure.data
                numbers = points.marker.color
                if isinstance(dimension.distribution, CategoricalDistribution):
                    labels = {repr(label): label for label in dimension.distribution.choices}
                    points.x = [labels[label] for label in points.x]
                    figure.update_xaxes(categoryarray=dimension.distribution.choices)
                self._set_hover(points, numbers)
                points.update(name="complete", marker={"colorscale": SCALE, "showscale": False, "size": 8})
                self._mark_best(figure, numbers, points.x, points.y)
                style.set_axis(figure.layout.xaxis, dimension)
                missing = len(complete) - count
                unset = f", not set in {missing} of {len(complete)} trials" if missing else ""
                figure.update_layout(xaxis_title=None, showlegend=False)
                charts.append(Chart(f"{self._title(index, ': ')}{key}{unset}", styled(figure, 260)))
        return charts

    def contour(self, index: int, settings: Sequence[str]) -> go.Figure | None:
        """An objective over two settings; None where too few trials have both, or one of them never changes."""
        from optuna.visualization import plot_contour

        x, y = sorted(settings)
        both = [one for one in self._complete(index) if {x, y} <= one.values.keys()]
        if len(both) < MIN_CONTOUR_TRIALS or any(len({one.values[key] for one in both}) < 2 for key in (x, y)):
            return None
        # Optuna's grid has a cell for each pair of values, so that its size grows with the square of the trials.
        records = self._thinned(MAX_CONTOUR, self._all, where=lambda one: {x, y} <= one.values.keys())
        metric = safe(self._objectives[index].metric)
        figure = plot_contour(self._study(index, records), params=[x, y], target_name=metric)
        surface, points = figure.data[:2]
        surface.update(colorscale=SCALE)
        self._set_hover(points, [n for n, one in enumerate(records) if _is_finite(one, index)])
        points.update(marker={"color": "black", "size": 6, "line": {"color": "white", "width": 1}})
        figure.data = [surface, points]
        for axis, key in ((figure.layout.xaxis, x), (figure.layout.yaxis, y)):
            style.set_axis(axis, self._space[key])
            axis.title.text = safe(key)
        return styled(figure, 440)

    def parallel(self) -> go.Figure | None:
        """A line per trial through all settings and objectives; None with fewer than two trials."""
        from optuna.visualization import plot_parallel_coordinate

        complete = [one for one in self._records if one.state == "complete" and one.objectives]
        keys = sorted({key for one in complete for key in one.values if key in self._space})
        if len(complete) < 2 or not keys:
            return None
        if len(self._objectives) == 1:
            figure = plot_parallel_coordinate(self._study(0), target_name=safe(self._objectives[0].metric))
        else:
            modes = [one.mode for one in self._objectives]
            figure = plot_parallel_coordinate(as_study(self._records, self._space, modes))
        metrics = [one.metric for one in self._objectives]
        names = [safe(name) for name in (*metrics, *style.short_names(keys))]
        columns = [*(None for _ in metrics), *(self._space[key] for key in keys)]
        partial = [None if c is None else any(c.key not in one.values for one in complete) for c in columns]
        figure.layout.xaxis.ticktext = [style.wrapped(name) for name in names]
        for note in figure.layout.annotations:
            note.bgcolor = "rgba(255,255,255,0.75)"
            note.text = style.tick(note.text, columns[int(note.x)], missing=bool(partial[int(note.x)]))
        *lines, scale = figure.data
        for line in lines:
            line.customdata = [
                [name, style.tick(text, column, missing=bool(missing))]
                for name, (_, text), column, missing in zip(names, line.customdata, columns, partial, strict=True)
            ]
            line.line.color = style.darker(line.line.color)
            line.opacity = 0.75
        scale.marker.colorscale = [[place, style.darker(colour)] for place, colour in scale.marker.colorscale]
        if len(metrics) == 1:
            for line, record in zip(lines, [one for one in complete if _is_finite(one, 0)], strict=True):
                line.hovertemplate = f"trial {record.number}<br>{line.hovertemplate}"
                if record.number in self._best:
                    line.line.update(color=ORANGE, width=4)
                    line.opacity = 1
        return styled(figure, 460, margin={"l": 70, "t": 20, "b": 60})

    def curves(self) -> go.Figure | None:
        """What each trial had reached after each epoch or repeat; None where none has two of them."""
        from optuna.visualization import plot_intermediate_values

        records = self._thinned(MAX_CURVES, self._records, where=lambda one: bool(one.steps))
        drawn = [one for one in records if one.state in ("complete", "pruned", "running") and one.steps]
        if len(self._objectives) > 1 or all(len(one.steps) < 2 for one in drawn):
            return None
        figure = plot_intermediate_values(self._study(0, records))
        named: set[str] = set()
        for trace, record in zip(figure.data, drawn, strict=True):
            name = "best" if record.number in self._best else record.state
            colour = ORANGE if name == "best" else {"complete": BLUE}.get(name, GREY)
            symbol = "x" if name == "pruned" else "circle"
            self._set_hover(trace, [record.number] * len(trace.x))
            trace.update(
                name=name,
                legendgroup=name,
                showlegend=name not in named,
                opacity=1 if name == "best" else 0.6,
                line={
                    "color": colour,
                    "width": 3.5 if name == "best" else 1.5,
                    "dash": "dot" if symbol == "x" else None,
                },
                marker={"color": colour, "symbol": symbol, "size": 6},
                zorder=1 if name == "best" else 0,
            )
            named.add(name)
        metric, unit = safe(self._objectives[0].metric), "repeat" if self._plan.repeats > 1 else "epoch"
        title = metric if unit == "repeat" else f"{metric}, best epoch so far"
        figure.update_layout(xaxis_title=unit, yaxis_title=title, showlegend=True)
        steps = max(max(one.steps) for one in drawn)
        figure.update_xaxes(tickformat="d", dtick=max(1, round(steps / 10)))
        return styled(figure, 360)

    def timeline(self) -> go.Figure | None:
        """When each trial ran; None without trials."""
        from optuna.visualization import plot_timeline

        if not any(one.started for one in self._all):
            return None
        modes = [one.mode for one in self._objectives]
        figure = plot_timeline(as_study(self._all, {}, modes), n_recent_trials=MAX_BARS)
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
        chosen = single_objective(self._records if records is None else records, index)
        return as_study(chosen, self._space, [self._objectives[index].mode])

    def _complete(self, index: int) -> list[Record]:
        return [one for one in self._records if _is_finite(one, index)]

    def _labelled(self, record: Record) -> Record:
        """A trial with labels in place of choices."""
        choices = {key for key, one in self._space.items() if isinstance(one.distribution, CategoricalDistribution)}
        labels = {key: style.label(value) if key in choices else value for key, value in record.values.items()}
        return replace(record, values=labels)

    def _thinned(self, most: int, records: Sequence[Record], where: Any = lambda one: True) -> list[Record]:
        """Of too many trials, all but the best ones and every n-th other one as trials that are not drawn."""
        places = [place for place, one in enumerate(records) if where(one)]
        every = -(-len(places) // most)
        kept = {*places[:: max(1, every)], *(place for place in places if records[place].number in self._best)}
        return [one if place in kept else replace(one, state="outside") for place, one in enumerate(records)]

    def _describe(self, record: Record) -> str:
        """The hover text of a trial."""
        named = zip(self._objectives, record.objectives or (), strict=False)
        reached = ", ".join(f"{one.metric} {value:.6g}" for one, value in named) or record.state
        values = [f"{key}={shown(value)}" for key, value in record.values.items()]
        unset = [f"{key} not set" for key in self._plan.space if key not in record.values] if record.values else []
        lines = [f"trial {record.number}: {reached}", *values, *unset, record.error.partition("\n")[0]]
        return "<br>".join(safe(line) for line in lines if line)

    def _set_hover(self, trace: Any, numbers: Iterable[Any]) -> None:
        """Shows a trial's description at each point; `numbers` are the points' trials."""
        trace.update(text=[self._hover[int(n)] for n in numbers], hovertemplate="%{text}<extra></extra>")

    def _mark_best(self, figure: go.Figure, numbers: Sequence[Any], x: Sequence[Any], y: Sequence[Any]) -> None:
        best = [place for place, number in enumerate(numbers) if self._all[int(number)].number in self._best]
        if best:
            figure.add_scatter(
                x=[x[place] for place in best],
                y=[y[place] for place in best],
                mode="markers",
                name="best" if len(self._objectives) == 1 else "Pareto front",
                marker={"color": ORANGE, "size": 11, "line": {"color": "black", "width": 1}},
            )
            self._set_hover(figure.data[-1], [numbers[place] for place in best])

    def _add_pruned(self, figure: go.Figure) -> None:
        """Adds the last value of each pruned trial."""
        pruned = [(n, one.steps[max(one.steps)]) for n, one in enumerate(self._records) if _is_pruned(one)]
        if pruned:
            numbers, values = zip(*pruned, strict=True)
            marker = {"color": ORANGE, "size": 7, "symbol": "circle-open", "line": {"width": 1.5}}
            figure.add_scatter(x=numbers, y=values, mode="markers", name="pruned", marker=marker)
            self._set_hover(figure.data[-1], numbers)

    def _title(self, index: int, end: str = "") -> str:
        return f"{self._objectives[index].metric}{end}" if len(self._objectives) > 1 else ""


def _values(trial: FrozenTrial, places: Sequence[int]) -> list[float]:
    return [trial.values[place] for place in places]


def _is_finite(record: Record, index: int) -> bool:
    return record.state == "complete" and bool(record.objectives) and math.isfinite(record.objectives[index])  # type: ignore[index]


def _is_pruned(record: Record) -> bool:
    return record.state == "pruned" and bool(record.steps) and math.isfinite(record.steps[max(record.steps)])


def _bars(measured: Importances) -> go.Figure:
    """Grouped bars: the two measures of each setting."""
    import plotly.graph_objects as go

    largest = {key: max(share, (measured.fanova or {}).get(key, 0)) for key, share in measured.ped_anova.items()}
    keys = sorted(largest, key=largest.__getitem__, reverse=True)
    figure = go.Figure()
    for name, shares, colour in (("PED-ANOVA", measured.ped_anova, BLUE), ("fANOVA", measured.fanova, ORANGE)):
        if shares is not None:
            _add_bars(figure, name, shares, keys, colour)
    figure.update_yaxes(autorange="reversed", ticksuffix="  ", automargin=True)
    figure.update_xaxes(title_text="share of importance", range=[0, 1.08])
    return styled(figure, 110 + 42 * len(keys))


def _add_bars(figure: go.Figure, name: str, shares: Mapping[str, float], keys: Sequence[str], colour: str) -> None:
    texts = [f"{shares[key]:.2f}" if key in shares else "conditional: not measured" for key in keys]
    figure.add_bar(
        x=[shares.get(key, 0) for key in keys],
        y=[safe(key) for key in keys],
        orientation="h",
        name=name,
        text=texts,
        textposition="outside",
        cliponaxis=False,
        marker={"color": colour},
        hovertemplate=f"%{{y}}: %{{text}}<extra>{name}</extra>",
    )
