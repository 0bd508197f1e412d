"""The figures of the report: Optuna's plots, in which 0 reads 0, a setting that was not set says so, and text is safe.

Optuna draws from a study in memory. The point 0 of a log range is a small number there; its tick and its hover text
read 0. All text that plotly shows passes through `safe`, because plotly renders a part of HTML.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, combinations, product
from typing import TYPE_CHECKING, Any

from optuna.distributions import CategoricalDistribution

from sentattn.rendering.charts import BLUE, GREY, ORANGE, RED, SCALE, empty_figure, layout, safe
from sentattn.sweep.report.analysis import Importances, as_study
from sentattn.sweep.report.style import as_text, place, set_axis, short_names

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from sentattn.sweep.spec.plan import Plan
    from sentattn.sweep.study.records import Record

MAX_TRIALS, MAX_CURVES, MAX_CONTOUR, MAX_BARS = 2000, 200, 150, 300
"""Trials that are drawn; of more the best ones and every n-th other one, in the timeline the last ones."""
MIN_CONTOUR_TRIALS = 10
HOVER = "%{text}<extra></extra>"
STATE_COLOURS = {"complete": BLUE, "pruned": ORANGE, "running": GREY}
BEST = {"color": ORANGE, "size": 11, "line": {"color": "black", "width": 1}}
PRUNED = {"color": ORANGE, "size": 7, "symbol": "circle-open", "line": {"width": 1.5}}
CURVES: dict[str, Any] = {
    "best": {"line": {"color": ORANGE, "width": 3.5}, "marker": {"color": ORANGE}, "zorder": 1},
    "complete": {"line": {"color": BLUE, "width": 1.5}, "marker": {"color": BLUE}, "opacity": 0.6},
    "pruned": {"line": {"color": GREY, "width": 1.5, "dash": "dot"}, "marker": {"color": GREY, "symbol": "x"}},
    "running": {"line": {"color": GREY, "width": 1.5}, "marker": {"color": GREY}},
}


class Charts:
    """The figures of a study, whose n-th record has number n; titles are plain text and may be empty."""

    def __init__(self, plan: Plan, records: Sequence[Record], front: Sequence[Record]) -> None:
        self._plan = plan
        self._objectives = plan.objectives
        self._metrics = [safe(objective.metric) for objective in plan.objectives]
        self._best = {record.number for record in front}
        self._hover = [self._describe(record) for record in records]
        self._all = records
        self._records = self._thinned(MAX_TRIALS, records)
        self._complete = [record for record in self._records if record.state == "complete"]

    def history(self) -> list[tuple[str, go.Figure]]:
        """The value of each trial and the best so far, for each objective."""
        charts = []
        for index, objective in enumerate(self._objectives if self._complete else ()):
            figure = empty_figure(340, xaxis_title="trial", yaxis_title=self._metrics[index])
            numbers, values = [record.number for record in self._complete], _reached(self._complete, index)
            self._add_points(figure, self._complete, numbers, values, {"color": BLUE, "size": 7})
            best, line = accumulate(values, max if objective.mode == "max" else min), {"color": ORANGE, "shape": "hv"}
            figure.add_scatter(x=numbers, y=list(best), name="best so far", mode="lines", line=line, hoverinfo="skip")
            pruned = [record for record in self._records if record.state == "pruned" and record.steps]
            if len(self._objectives) == 1:
                numbers, values = [r.number for r in pruned], [r.steps[max(r.steps)] for r in pruned]
                self._add_points(figure, pruned, numbers, values, PRUNED, "pruned")
            charts.append((self._title(index), figure))
        return charts

    def pareto(self) -> list[tuple[str, go.Figure]]:
        """Each pair of objectives, with the trials on the Pareto front."""
        charts = []
        for x, y in combinations(reversed(range(len(self._objectives))), 2) if self._best else ():
            titles = [f"{self._metrics[n]} ({self._objectives[n].mode})" for n in (x, y)]
            figure = empty_figure(380, xaxis_title=titles[0], yaxis_title=titles[1])
            values, marker = [_reached(self._complete, n) for n in (x, y)], {"color": BLUE, "size": 8}
            self._add_points(figure, self._complete, values[0], values[1], marker, "dominated")
            charts.append(("", figure))
        return charts

    def importances(self, measured: Sequence[Importances | None]) -> list[tuple[str, go.Figure]]:
        """Importances by both measures, for each objective, as grouped bars."""
        charts = []
        for index, measure in enumerate(measured):
            if measure is None:
                continue
            ped_anova, fanova = measure.ped_anova, measure.fanova
            keys = sorted(ped_anova, key=lambda key: max(ped_anova[key], (fanova or {}).get(key, 0)), reverse=True)
            figure = empty_figure(110 + 42 * len(keys), xaxis_title="share of importance", xaxis_range=[0, 1.08])
            for name, shares, colour in (("PED-ANOVA", ped_anova, BLUE), ("fANOVA", fanova, ORANGE)):
                if shares is not None:
                    figure.add_bar(
                        x=[shares.get(key, 0) for key in keys],
                        y=[safe(key) for key in keys],
                        orientation="h",
                        name=name,
                        text=[f"{shares[key]:.2f}" if key in shares else "not measured" for key in keys],
                        textposition="outside",
                        cliponaxis=False,
                        marker={"color": colour},
                        hovertemplate=f"%{{y}}: %{{text}}<extra>{name}</extra>",
                    )
            figure.update_yaxes(autorange="reversed", ticksuffix="  ", automargin=True)
            charts.append((self._title(index), figure))
        return charts

    def slices(self) -> list[tuple[str, go.Figure]]:
        """Each objective over each setting that two trials have; a single point shows nothing."""
        charts = []
        for (index, metric), (key, dimension) in product(enumerate(self._metrics), self._plan.space.items()):
            records = [record for record in self._complete if key in record.values]
            if len(records) < 2:
                continue
            figure = empty_figure(230, top=12, yaxis_title=metric, showlegend=False)
            values, numbers = [place(dimension, r.values[key]) for r in records], [r.number for r in records]
            marker = {"color": numbers, "colorscale": SCALE, "size": 8, "line": {"width": 0.5, "color": "grey"}}
            self._add_points(figure, records, values, _reached(records, index), marker)
            set_axis(figure.layout.xaxis, dimension)
            missing, count = len(self._complete) - len(records), len(self._complete)
            unset = f", not set in {missing} of {count} trials" if missing else ""
            charts.append((f"{self._title(index, ': ')}{key}{unset}", figure))
        return charts

    def contour(self, index: int, ranking: Sequence[str]) -> go.Figure | None:
        """An objective over the first two settings of a ranking that are numbers; None where that shows nothing.

        Between choices nothing can be interpolated, and with few trials that have both settings little.
        """
        from optuna.visualization import plot_contour

        space = self._plan.space
        numbers = [key for key in ranking if not isinstance(space[key].distribution, CategoricalDistribution)]
        both = [record for record in self._complete if set(numbers[:2]) <= record.values.keys()]
        if len(numbers) < 2 or len(both) < MIN_CONTOUR_TRIALS:
            return None
        x, y = sorted(numbers[:2])
        if any(len({record.values[key] for record in both}) < 2 for key in (x, y)):
            return None
        # Optuna's grid has a cell for each pair of values, so that its size grows with the square of the trials.
        records = self._thinned(MAX_CONTOUR, both)
        study = as_study(records, {x: space[x], y: space[y]}, self._objectives, index)
        figure = plot_contour(study, params=[x, y], target_name=self._metrics[index])
        surface, points = figure.data[:2]
        surface.update(colorscale=SCALE)
        texts = [self._hover[record.number] for record in records if record.state == "complete"]
        points.update(text=texts, hovertemplate=HOVER)
        points.update(marker={"color": "black", "size": 6, "line": {"color": "white", "width": 1}})
        figure.data = [surface, points]
        for axis, key in ((figure.layout.xaxis, x), (figure.layout.yaxis, y)):
            set_axis(axis, space[key])
            axis.title.text = safe(key)
        return figure.update_layout(layout(420, top=12))

    def parallel(self) -> go.Figure | None:
        """A line per trial through all settings and objectives; None with fewer than two trials."""
        import plotly.colors
        from optuna.visualization import plot_parallel_coordinate

        complete, count, space = self._complete, len(self._metrics), dict(self._plan.space)
        keys = sorted({key for record in complete for key in record.values if key in space})
        if len(complete) < 2 or not keys:
            return None
        for key, dimension in space.items():
            if isinstance(dimension.distribution, CategoricalDistribution):
                choices = [place(dimension, value) for value in dimension.distribution.choices]
                space[key] = replace(dimension, distribution=CategoricalDistribution(choices))
        records = [
            replace(r, values={k: place(self._plan.space[k], v) for k, v in r.values.items() if k in space})
            for r in self._records
        ]
        study = as_study(records, space, self._objectives, 0 if count == 1 else None)
        figure = plot_parallel_coordinate(study, target_name=self._metrics[0] if count == 1 else "Objective Value")
        names = [*self._metrics, *map(safe, short_names(keys))]

        def text(column: int, label: str) -> str:
            """Optuna's tick as people read it: it writes None for "not set", and the drawn value for 0."""
            if column < count:
                return label
            key, dimension = keys[column - count], space[keys[column - count]]
            if label in ("None", "None (value)") and any(key not in record.values for record in complete):
                return "not set" if label == "None" else "None"
            if not dimension.zero or float(label) >= dimension.floor * 0.99:
                return label
            return "0" if label == f"{dimension.drawn(0):.3g}" else ""

        def darker(colour: str) -> str:  # the lightest of Optuna's scale are invisible on white
            return "rgb({:.0f},{:.0f},{:.0f})".format(*(0.82 * part for part in plotly.colors.unlabel_rgb(colour)))

        # A long name breaks after dots and slashes.
        breaks = str.maketrans({sign: f"{sign}<br>" for sign in "./_"})
        figure.layout.xaxis.ticktext = [name if len(name) < 16 else name.translate(breaks) for name in names]
        for note in figure.layout.annotations:
            note.update(text=text(note.x, note.text), bgcolor="rgba(255,255,255,0.75)")
        *lines, scale = figure.data
        for line in lines:
            labels = [text(column, label) for column, (_, label) in enumerate(line.customdata)]
            line.customdata = list(zip(names, labels, strict=True))
            line.update(line={"color": darker(line.line.color)}, opacity=0.75)
        scale.marker.colorscale = [[place, darker(colour)] for place, colour in scale.marker.colorscale]
        if count == 1:  # with several, Optuna draws the trials in the order of their ranks
            for line, record in zip(lines, complete, strict=True):
                line.hovertemplate = f"trial {record.number}<br>{line.hovertemplate}"
                if record.number in self._best:
                    line.update(line={"color": ORANGE, "width": 4}, opacity=1)
        return figure.update_layout(layout(440, top=20))

    def curves(self) -> go.Figure | None:
        """What each trial had reached after each epoch or repeat; None where none has two of them."""
        records = self._thinned(MAX_CURVES, [record for record in self._records if record.steps])
        drawn = [record for record in records if record.state in CURVES and record.steps]
        if len(self._objectives) > 1 or all(len(record.steps) < 2 for record in drawn):
            return None
        repeats = self._plan.repeats > 1
        title = self._metrics[0] if repeats else f"{self._metrics[0]}, best epoch so far"
        figure = empty_figure(360, xaxis_title="repeat" if repeats else "epoch", yaxis_title=title, showlegend=True)
        legend: set[str] = set()
        for record in drawn:
            name = "best" if record.number in self._best else record.state
            steps = {step: value for step, value in sorted(record.steps.items()) if math.isfinite(value)}
            figure.add_scatter(x=list(steps), y=list(steps.values()), mode="lines+markers", name=name, legendgroup=name)
            texts = [self._hover[record.number]] * len(steps)
            figure.data[-1].update(CURVES[name], text=texts, hovertemplate=HOVER, showlegend=name not in legend)
            legend.add(name)
        figure.update_xaxes(dtick=max(1, round(max(max(record.steps) for record in drawn) / 10)))
        return figure

    def timeline(self) -> go.Figure | None:
        """When each trial ran; None without trials."""
        from optuna.visualization import plot_timeline

        if not any(record.started for record in self._all):
            return None
        figure = plot_timeline(as_study(self._all, {}, self._objectives), n_recent_trials=MAX_BARS)
        for trace in figure.data:
            states = {self._all[number].state for number in trace.y}
            trace.update(name=" or ".join(sorted(states)), marker={"color": STATE_COLOURS.get(min(states), RED)})
            trace.update(text=[self._hover[number] for number in trace.y], hovertemplate=HOVER)
        figure.update_yaxes(autorange="reversed", tickformat="d")
        height = max(220, min(700, 110 + 14 * min(len(self._all), MAX_BARS)))
        return figure.update_layout(layout(height), xaxis_title=None, yaxis_title="trial", bargap=0.15)

    def _thinned(self, most: int, wanted: Sequence[Record]) -> list[Record]:
        """All trials, in which only `most` of the wanted ones and the best keep their state, and so are drawn."""
        kept = {record.number for record in wanted[:: max(1, -(-len(wanted) // most))]}
        kept |= self._best & {record.number for record in wanted}
        return [record if record.number in kept else replace(record, state="outside") for record in self._all]

    def _describe(self, record: Record) -> str:
        """The hover text of a trial."""
        named = zip(self._objectives, record.objectives or (), strict=False)
        reached = ", ".join(f"{objective.metric} {value:.6g}" for objective, value in named) or record.state
        values = [f"{key}={as_text(value)}" for key, value in record.values.items()]
        unset = [f"{key} not set" for key in self._plan.space if key not in record.values] if record.values else []
        lines = [f"trial {record.number}: {reached}", *values, *unset, record.error.partition("\n")[0]]
        return "<br>".join(safe(line) for line in lines if line)

    def _add_points(
        self,
        figure: go.Figure,
        records: Sequence[Record],
        x: Sequence[Any],
        y: Sequence[float],
        marker: dict[str, Any],
        name: str = "complete",
    ) -> None:
        """Draws a point for each trial, and those of the best ones again, larger."""
        best_name = "best" if len(self._objectives) == 1 else "Pareto front"
        points = list(zip((record.number for record in records), x, y, strict=True))
        best = [point for point in points if point[0] in self._best]
        for drawn, drawn_name, style in ((points, name, marker), (best, best_name, BEST)):
            if drawn:
                numbers, xs, ys = zip(*drawn, strict=True)
                texts = [self._hover[number] for number in numbers]
                figure.add_scatter(x=xs, y=ys, mode="markers", name=drawn_name, marker=style, text=texts)
                figure.data[-1].hovertemplate = HOVER

    def _title(self, index: int, end: str = "") -> str:
        return f"{self._objectives[index].metric}{end}" if len(self._objectives) > 1 else ""


def _reached(records: Sequence[Record], index: int) -> list[float]:
    """What complete trials reached of an objective."""
    return [record.objectives[index] for record in records if record.objectives]
