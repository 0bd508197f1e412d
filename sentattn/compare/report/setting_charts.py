"""Charts of settings: accuracy, cost, learning curves and hops, each with the numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sentattn.compare.leaderboard import Entry
from sentattn.compare.report.style import (
    MAX_DRAWN,
    Chart,
    Table,
    accuracy_range,
    apart,
    bar,
    drawn,
    interval,
    line,
    marker,
    percent,
    short,
)
from sentattn.compare.report.summaries import hop_groups, hops, learning_curve, pareto
from sentattn.console import format_count
from sentattn.rendering.charts import GREY, empty_figure, log_ticks, safe

if TYPE_CHECKING:
    import plotly.graph_objects as go

COSTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("training time in seconds", ("seconds", "train")),
    ("parameters", ("parameters", "total")),
    ("latency of one text in ms", ("latency_ms", "one")),
)
LABEL_GAP = 0.07
"""Of the height of a chart, between labels at the ends of curves."""
CURVES = (("accuracy", "val/accuracy", ""), ("log loss", "val/log_loss", "train/cross_entropy"))
"""Title and metric of the learning curves, and what a single run has of its training rows beside it."""


def leaderboard_chart(entries: Sequence[Entry]) -> list[Chart]:
    """The accuracy of each setting with its 95% interval."""
    shown = entries[: 3 * MAX_DRAWN]
    figure = empty_figure(90 + 32 * len(shown), top=8, xaxis_title="accuracy", showlegend=False)
    for rank, entry in enumerate(shown):
        estimate, ends = entry.metrics["accuracy"], interval(entry)
        text = "{} to {}".format(*map(percent, ends)) if ends else "too few seeds: no interval"
        figure.add_scatter(
            x=[estimate.value],
            y=[rank],
            mode="markers",
            marker={**marker(rank), "size": 10, "symbol": "circle" if ends else "circle-open"},
            error_x=bar([estimate.value], [ends]),
            hovertemplate=f"{safe(entry.setting.name)}<br>{percent(estimate.value)} ({text})<extra></extra>",
        )
    labels = [short(f"{rank + 1} {entry.setting.name}") for rank, entry in enumerate(shown)]
    figure.update_yaxes(tickvals=list(range(len(shown))), ticktext=labels, range=[len(shown) - 0.5, -0.5])
    figure.update_yaxes(automargin=True, zeroline=False)
    shown_values = [entry.metrics["accuracy"].value for entry in shown]
    limits = accuracy_range(shown_values, [interval(entry) for entry in shown])
    figure.update_xaxes(tickformat=".1~%", nticks=6, range=limits)
    return [Chart("", figure, None)]


def cost_charts(entries: Sequence[Entry]) -> list[Chart]:
    """Accuracy against each cost, with the Pareto front."""
    charts = []
    values = [entry.metrics["accuracy"].value for entry in entries]
    intervals = [interval(entry) for entry in entries]
    texts = ["{} to {}".format(*map(percent, one)) if one else "" for one in intervals]
    for title, keys in COSTS:
        costs = [entry.cost(*keys) for entry in entries]
        known = [i for i, cost in enumerate(costs) if math.isfinite(cost)]
        if len(known) < 2:
            continue
        front = pareto(costs, values)
        figure = empty_figure(340, top=12, xaxis_title=title, yaxis_title="accuracy", showlegend=False)
        step = {"color": GREY, "width": 1.5, "dash": "dot", "shape": "hv"}
        x, y = [costs[i] for i in front], [values[i] for i in front]
        figure.add_scatter(x=x, y=y, mode="lines", line=step, hoverinfo="skip")
        for i in known:
            text = texts[i] or "too few seeds: no interval"
            hover = f"{safe(entries[i].setting.name)}<br>{costs[i]:,.4g}<br>{percent(values[i])} ({text})"
            figure.add_scatter(
                x=[costs[i]],
                y=[values[i]],
                error_y=bar([values[i]], [intervals[i]]),
                mode="markers+text",
                text=[str(i + 1) * (i < MAX_DRAWN)],
                textposition=("middle right", "middle left")[i % 2],
                marker={**marker(i), "size": 11, "symbol": "circle" if i in front else "circle-open"},
                hovertemplate=f"{hover}<extra></extra>",
            )
        _set_cost_axis(figure, [costs[i] for i in known])
        shown = accuracy_range([values[i] for i in known], [intervals[i] for i in known])
        figure.update_yaxes(tickformat=".1~%", range=shown)
        rows = [
            [
                str(i + 1),
                entries[i].setting.name,
                f"{costs[i]:,.4g}",
                percent(values[i]),
                texts[i],
                "yes" * (i in front),
            ]
            for i in known
        ]
        heading = ["", "settings", title, "accuracy", "95% interval", "on the front"]
        charts.append(Chart(title, figure, Table(heading, rows)))
    return charts


def curve_charts(entries: Sequence[Entry]) -> list[Chart]:
    """Metrics of the validation rows by epoch, a line for each run."""
    runs = [(rank, run) for rank, entry in drawn(entries) for run in entry.setting.runs]
    curves = [(rank, run.seed, learning_curve(run.run.path)) for rank, run in runs]
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
                name = entries[rank].setting.name
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


def hop_chart(entries: Sequence[Entry]) -> list[Chart]:
    """The accuracy by the number of hops, where settings differ in it alone."""
    ranks = {id(entry.setting): rank for rank, entry in enumerate(entries)}
    groups = hop_groups([entry.setting for entry in entries])
    figure = empty_figure(320, top=12, xaxis_title="hops", yaxis_title="accuracy", showlegend=False)
    rows: list[list[str]] = []
    values: list[float] = []
    ends_of_values: list[tuple[float, float] | None] = []
    for number, group in enumerate(groups[:MAX_DRAWN]):
        of_group = [entries[ranks[id(one)]] for one in group]
        estimates = [entry.metrics["accuracy"] for entry in of_group]
        intervals = [interval(entry) for entry in of_group]
        figure.add_scatter(
            x=[hops(one) for one in group],
            y=[one.value for one in estimates],
            error_y=bar([one.value for one in estimates], intervals),
            mode="lines+markers",
            line=line(number),
            text=[safe(one.name) for one in group],
            hovertemplate="%{text}<br>%{y:.2%}<extra></extra>",
        )
        for one, estimate, ends in zip(group, estimates, intervals, strict=True):
            text = "{} to {}".format(*map(percent, ends)) if ends else ""
            rows.append([one.name, str(hops(one)), percent(estimate.value), text])
        values += [one.value for one in estimates]
        ends_of_values += intervals
    if not rows:
        return []
    figure.update_xaxes(tickvals=sorted({hops(one) for group in groups for one in group}))
    figure.update_yaxes(tickformat=".1~%", range=accuracy_range(values, ends_of_values))
    return [Chart("", figure, Table(["settings", "hops", "accuracy", "95% interval"], rows))]


def _set_cost_axis(figure: go.Figure, costs: Sequence[float]) -> None:
    """A log axis with few ticks, or a linear one where all costs are near each other."""
    low, high = min(costs), max(costs)
    if low <= 0 or high < 4 * low:
        figure.update_xaxes(tickformat="~s", nticks=5)
        return
    ticks = log_ticks(low, high)
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=[_cost(tick) for tick in ticks], tickangle=0)
    figure.update_xaxes(range=[math.log10(low) - 0.15, math.log10(high) + 0.15])


def _cost(value: float) -> str:
    return f"{value:g}" if value < 1000 else format_count(value)
