"""Charts of settings: accuracy, cost, learning curves and hops, each with the numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sentattn.compare.leaderboard import Entry
from sentattn.compare.report.style import (
    MAX_DRAWN,
    Chart,
    Table,
    drawn,
    line,
    marker,
    percent,
    short,
)
from sentattn.compare.report.summaries import hop_groups, hops, learning_curve, pareto
from sentattn.console import format_count
from sentattn.insight.charts import GREY, empty_figure, log_ticks, safe

if TYPE_CHECKING:
    import plotly.graph_objects as go

COSTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("training time in seconds", ("seconds", "train")),
    ("parameters", ("parameters", "total")),
    ("latency of one text in ms", ("latency_ms", "one")),
)
CURVES = (("accuracy", "val/accuracy", ""), ("log loss", "val/log_loss", "train/cross_entropy"))
"""Title and metric of the learning curves, and what a single run has of its training rows beside it."""


def leaderboard_chart(entries: Sequence[Entry]) -> list[Chart]:
    """The accuracy of each setting with its 95% interval."""
    shown = entries[: 3 * MAX_DRAWN]
    figure = empty_figure(90 + 32 * len(shown), top=8, xaxis_title="accuracy", showlegend=False)
    for rank, entry in enumerate(shown):
        estimate, has_interval = entry.metrics["accuracy"], entry.setting.has_seeds
        half = estimate.half_width() if has_interval else 0.0
        low, high = estimate.value - half, estimate.value + half
        text = f"{percent(low)} to {percent(high)}" if has_interval else "one seed: no interval"
        figure.add_scatter(
            x=[estimate.value],
            y=[rank],
            mode="markers",
            marker={**marker(rank), "size": 10, "symbol": "circle" if has_interval else "circle-open"},
            error_x={"array": [half], "visible": has_interval, "thickness": 2, "width": 4},
            hovertemplate=f"{safe(entry.setting.name)}<br>{percent(estimate.value)} ({text})<extra></extra>",
        )
    labels = [short(f"{rank + 1} {entry.setting.name}") for rank, entry in enumerate(shown)]
    figure.update_yaxes(tickvals=list(range(len(shown))), ticktext=labels, range=[len(shown) - 0.5, -0.5])
    figure.update_yaxes(automargin=True, zeroline=False)
    figure.update_xaxes(tickformat=".1~%", nticks=6)
    return [Chart("", figure, None)]


def cost_charts(entries: Sequence[Entry]) -> list[Chart]:
    """Accuracy against each cost, with the Pareto front."""
    charts = []
    values = [entry.metrics["accuracy"].value for entry in entries]
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
            hover = f"{safe(entries[i].setting.name)}<br>{costs[i]:,.4g}<br>{percent(values[i])}"
            figure.add_scatter(
                x=[costs[i]],
                y=[values[i]],
                mode="markers+text",
                text=[str(i + 1) * (i < MAX_DRAWN)],
                textposition="top center",
                marker={**marker(i), "size": 11, "symbol": "circle" if i in front else "circle-open"},
                hovertemplate=f"{hover}<extra></extra>",
            )
        _set_cost_axis(figure, [costs[i] for i in known])
        figure.update_yaxes(tickformat=".1~%")
        rows = [
            [f"{i + 1}", entries[i].setting.name, f"{costs[i]:,.4g}", percent(values[i]), "yes" * (i in front)]
            for i in known
        ]
        charts.append(Chart(title, figure, Table(["", "settings", title, "accuracy", "on the front"], rows)))
    return charts


def curve_charts(entries: Sequence[Entry]) -> list[Chart]:
    """Metrics of the validation rows by epoch, a line for each run."""
    runs = [(rank, run) for rank, entry in drawn(entries) for run in entry.setting.runs]
    curves = [(rank, run.seed, learning_curve(run.run.path)) for rank, run in runs]
    charts = []
    for title, metric, trained in CURVES:
        figure = empty_figure(320, top=12, xaxis_title="epoch", yaxis_title=title, showlegend=len(runs) == 1)
        rows = []
        metrics = {"validation": metric} | ({"training": trained} if trained and len(runs) == 1 else {})
        for rank, seed, epochs in curves:
            for kind, key in metrics.items():
                points = [(row["epoch"], row[key]) for row in epochs if math.isfinite(row.get(key, math.nan))]
                if not points:
                    continue
                x, y = zip(*points, strict=True)
                name = entries[rank].setting.name
                label = [""] * (len(x) - 1) + [str(rank + 1) * (len(runs) > 1)]
                hover = f"{safe(name)}, seed {seed}, {kind}<br>epoch %{{x}}: %{{y:.4f}}<extra></extra>"
                figure.add_scatter(
                    x=x, y=y, name=kind, mode="lines+markers+text", text=label, textposition="middle right"
                )
                figure.data[-1].update(line=line(rank, kind), marker={"size": 5}, hovertemplate=hover)
                rows += [[name, str(seed), kind, f"{epoch}", f"{value:.4f}"] for epoch, value in points]
        if rows:
            last = max(int(row["epoch"]) for _, _, epochs in curves for row in epochs)
            figure.update_xaxes(dtick=max(1, round(last / 8)))
            figure.update_yaxes(tickformat=".1~%" if title == "accuracy" else None)
            charts.append(Chart(title, figure, Table(["settings", "seed", "rows", "epoch", title], rows)))
    return charts


def hop_chart(entries: Sequence[Entry]) -> list[Chart]:
    """The accuracy by the number of hops, where settings differ in it alone."""
    ranks = {id(entry.setting): rank for rank, entry in enumerate(entries)}
    groups = hop_groups([entry.setting for entry in entries])
    figure = empty_figure(320, top=12, xaxis_title="hops", yaxis_title="accuracy", showlegend=False)
    rows = []
    for number, group in enumerate(groups[:MAX_DRAWN]):
        of_group = [entries[ranks[id(one)]] for one in group]
        estimates = [entry.metrics["accuracy"] for entry in of_group]
        halves = [one.half_width() if e.setting.has_seeds else 0.0 for e, one in zip(of_group, estimates, strict=True)]
        figure.add_scatter(
            x=[hops(one) for one in group],
            y=[one.value for one in estimates],
            error_y={"array": halves, "thickness": 1.5, "width": 3},
            mode="lines+markers",
            line=line(number),
            text=[safe(one.name) for one in group],
            hovertemplate="%{text}<br>%{y:.2%}<extra></extra>",
        )
        for one, estimate, half in zip(group, estimates, halves, strict=True):
            rows.append([one.name, str(hops(one)), percent(estimate.value), f"± {100 * half:.2f}" if half else ""])
    figure.update_xaxes(tickvals=sorted({hops(one) for group in groups for one in group}))
    figure.update_yaxes(tickformat=".1~%")
    return [Chart("", figure, Table(["settings", "hops", "accuracy", "95% interval"], rows))] if rows else []


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
