"""Charts of settings: accuracy, cost, learning curves and hops, each with the numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sentattn.compare.report.style import (
    MAX_DRAWN,
    Chart,
    Interval,
    Table,
    accuracy_range,
    apart,
    bar,
    line,
    marker,
    percent,
    percents,
    short,
)
from sentattn.compare.report.summaries import hop_groups, hops, learning_curve, pareto
from sentattn.compare.runs import Setting
from sentattn.console import format_count
from sentattn.rendering.html import GREY, empty_figure, log_ticks, safe

if TYPE_CHECKING:
    import plotly.graph_objects as go

COSTS = {
    "training time in seconds": "seconds.train",
    "parameters": "parameters.total",
    "latency of one text in ms": "latency_ms.one",
}
LABEL_GAP = 0.07
"""Of the height of a chart, between labels at the ends of curves."""
CURVES = (("accuracy", "val/accuracy", ""), ("log loss", "val/log_loss", "train/cross_entropy"))
"""Title and metric of the learning curves, and the metric of the training rows that a single run has too."""


NO_INTERVAL = "too few seeds: no interval"


def leaderboard_chart(settings: Sequence[Setting]) -> list[Chart]:
    """The accuracy of each setting with its 95% interval."""
    shown = settings[: 3 * MAX_DRAWN]
    figure = empty_figure(90 + 32 * len(shown), top=8, xaxis_title="accuracy", showlegend=False)
    values, intervals = _accuracies(shown)
    for rank, (setting, value, interval) in enumerate(zip(shown, values, intervals, strict=True)):
        text = percents(interval, NO_INTERVAL)
        figure.add_scatter(
            x=[value],
            y=[rank],
            mode="markers",
            marker={**marker(rank), "size": 10, "symbol": "circle" if interval else "circle-open"},
            error_x=bar([value], [interval]),
            hovertemplate=f"{safe(setting.name)}<br>{percent(value)} ({text})<extra></extra>",
        )
    labels = [short(f"{rank + 1} {setting.name}") for rank, setting in enumerate(shown)]
    figure.update_yaxes(tickvals=list(range(len(shown))), ticktext=labels, range=[len(shown) - 0.5, -0.5])
    figure.update_yaxes(automargin=True, zeroline=False)
    figure.update_xaxes(tickformat=".1~%", nticks=6, range=accuracy_range(values, intervals))
    return [Chart("", figure, None)]


def _accuracies(settings: Sequence[Setting]) -> tuple[list[float], list[Interval | None]]:
    """Returns the accuracy of each setting, and its 95% interval."""
    values = [setting.metrics["accuracy"].value for setting in settings]
    return values, [setting.interval("accuracy") for setting in settings]


def cost_charts(settings: Sequence[Setting]) -> list[Chart]:
    """Accuracy against each cost, with the Pareto front."""
    charts = []
    values, intervals = _accuracies(settings)
    for title, key in COSTS.items():
        costs = [setting.cost(key) for setting in settings]
        known = [i for i, cost in enumerate(costs) if math.isfinite(cost)]
        if len(known) < 2:
            continue
        front = pareto(costs, values)
        figure = empty_figure(340, top=12, xaxis_title=title, yaxis_title="accuracy", showlegend=False)
        step = {"color": GREY, "width": 1.5, "dash": "dot", "shape": "hv"}
        x, y = [costs[i] for i in front], [values[i] for i in front]
        figure.add_scatter(x=x, y=y, mode="lines", line=step, hoverinfo="skip")
        for i in known:
            text = f"{percent(values[i])} ({percents(intervals[i], NO_INTERVAL)})"
            figure.add_scatter(
                x=[costs[i]],
                y=[values[i]],
                error_y=bar([values[i]], [intervals[i]]),
                mode="markers+text",
                text=[str(i + 1) * (i < MAX_DRAWN)],
                textposition=("middle right", "middle left")[i % 2],
                marker={**marker(i), "size": 11, "symbol": "circle" if i in front else "circle-open"},
                hovertemplate=f"{safe(settings[i].name)}<br>{costs[i]:,.4g}<br>{text}<extra></extra>",
            )
        _set_cost_axis(figure, [costs[i] for i in known])
        shown = accuracy_range([values[i] for i in known], [intervals[i] for i in known])
        figure.update_yaxes(tickformat=".1~%", range=shown)
        rows = []
        for i in known:
            cells = [f"{costs[i]:,.4g}", percent(values[i]), percents(intervals[i]), "yes" * (i in front)]
            rows.append([str(i + 1), settings[i].name, *cells])
        heading = ["", "settings", title, "accuracy", "95% interval", "on the front"]
        charts.append(Chart(title, figure, Table(heading, rows)))
    return charts


def curve_charts(settings: Sequence[Setting]) -> list[Chart]:
    """Metrics of the validation rows by epoch, a line for each run."""
    runs = [(rank, run) for rank, setting in enumerate(settings[:MAX_DRAWN]) for run in setting.runs]
    curves = [(rank, run.seed, learning_curve(run.path)) for rank, run in runs]
    charts = []
    for title, metric, trained in CURVES:
        figure = empty_figure(320, top=12, xaxis_title="epoch", yaxis_title=title, showlegend=len(runs) == 1)
        rows: list[list[str]] = []
        lasts: dict[int, list[float]] = {}
        metrics = {"validation": metric} | ({"training": trained} if trained and len(runs) == 1 else {})
        for rank, seed, epochs in curves:
            for kind, key in metrics.items():
                points = [(row["epoch"], row[key]) for row in epochs if math.isfinite(row.get(key, math.nan))]
                if not points:
                    continue
                x, y = zip(*points, strict=True)
                name = settings[rank].name
                lasts.setdefault(rank, []).append(y[-1])
                hover = f"{safe(name)}, seed {seed}, {kind}<br>epoch %{{x}}: %{{y:.4f}}<extra></extra>"
                figure.add_scatter(x=x, y=y, name=kind, mode="lines+markers")
                figure.data[-1].update(line=line(rank, kind), marker={"size": 5}, hovertemplate=hover)
                rows += [[name, str(seed), kind, f"{epoch}", f"{value:.4f}"] for epoch, value in points]
        if rows:
            last = max(int(row["epoch"]) for _, _, epochs in curves for row in epochs)
            figure.update_xaxes(dtick=max(1, round(last / 8)))
            figure.update_yaxes(tickformat=".1~%" if title == "accuracy" else None)
            if len(runs) > 1:
                _label_ends(figure, lasts)
            charts.append(Chart(title, figure, Table(["settings", "seed", "rows", "epoch", title], rows)))
    return charts


def _label_ends(figure: go.Figure, lasts: Mapping[int, Sequence[float]]) -> None:
    """Writes the rank of each setting beside the ends of its curves, at their mean, apart from other ranks."""
    drawn = [value for trace in figure.data for value in trace.y]
    ends = [sum(values) / len(values) for values in lasts.values()]
    for rank, y in zip(lasts, apart(ends, LABEL_GAP * (max(drawn) - min(drawn))), strict=True):
        font = {"color": marker(rank)["color"], "size": 13}
        figure.add_annotation(x=1, xref="x domain", y=y, text=str(rank + 1), showarrow=False, xanchor="left", font=font)


def hop_chart(settings: Sequence[Setting]) -> list[Chart]:
    """The accuracy by the number of hops, where settings differ in it alone."""
    groups = hop_groups(settings)
    if not groups:
        return []
    figure = empty_figure(320, top=12, xaxis_title="hops", yaxis_title="accuracy", showlegend=False)
    rows: list[list[str]] = []
    for number, group in enumerate(groups[:MAX_DRAWN]):
        values, intervals = _accuracies(group)
        figure.add_scatter(
            x=list(map(hops, group)),
            y=values,
            error_y=bar(values, intervals),
            mode="lines+markers",
            line=line(number),
            text=[safe(setting.name) for setting in group],
            hovertemplate="%{text}<br>%{y:.2%}<extra></extra>",
        )
        for setting, value, interval in zip(group, values, intervals, strict=True):
            rows.append([setting.name, str(hops(setting)), percent(value), percents(interval)])
    drawn = [setting for group in groups[:MAX_DRAWN] for setting in group]
    figure.update_xaxes(tickvals=sorted({hops(setting) for group in groups for setting in group}))
    figure.update_yaxes(tickformat=".1~%", range=accuracy_range(*_accuracies(drawn)))
    return [Chart("", figure, Table(["settings", "hops", "accuracy", "95% interval"], rows))]


def _set_cost_axis(figure: go.Figure, costs: Sequence[float]) -> None:
    """A log axis with few ticks, or a linear one where all costs are near each other."""
    low, high = min(costs), max(costs)
    if low <= 0 or high < 4 * low:
        figure.update_xaxes(tickformat="~s", nticks=5)
        return
    ticks = log_ticks(low, high)
    texts = [f"{tick:g}" if tick < 1000 else format_count(tick) for tick in ticks]
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=texts, tickangle=0)
    figure.update_xaxes(range=[math.log10(low) - 0.15, math.log10(high) + 0.15])
