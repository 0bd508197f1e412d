"""The charts of a report, each with the numbers behind it as a table; a setting has the same colour in all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from sentattn.compare.insight import Insight
from sentattn.compare.insight_table import CURVES as FAITHFULNESS
from sentattn.compare.insight_table import RANKINGS, rounded
from sentattn.compare.report.summaries import (
    Slice,
    accuracy,
    class_values,
    confusion,
    hop_groups,
    hops,
    learning_curve,
    pareto,
    reliability,
)
from sentattn.compare.settings import Setting
from sentattn.config.types import Json
from sentattn.console import format_count
from sentattn.insight import faithfulness
from sentattn.rendering.html import BLUE, GREY, ORANGE, empty_figure, log_ticks, safe

if TYPE_CHECKING:
    import plotly.graph_objects as go

Interval: TypeAlias = tuple[float, float]

COLOURS = (BLUE, ORANGE, "#2a9d6f", "#b5479b", "#9a7b1f", "#d1495b", "#6b7fd7", "#5b8a94")
MAX_DRAWN = len(COLOURS)
"""Settings that are drawn, the best of the leaderboard; the tables have all."""
NAME_WIDTH = 22
NARROWEST = 0.05
"""An axis of accuracies spans 5 points at least."""
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
MAX_CLASSES = 12
"""Classes whose cells of a confusion matrix still hold text."""
SHADES = [[0.0, "#eef3f9"], [0.5, "#5f9cce"], [1.0, "#0b3c6f"]]


class Table(NamedTuple):
    """A table of a page, with a note below it; cells are plain text."""

    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


class Chart(NamedTuple):
    """A chart, and the numbers that it draws unless a table next to it has them."""

    title: str
    figure: go.Figure
    table: Table | None


def key(settings: Sequence[Setting]) -> list[tuple[int, str, str]]:
    """Returns rank, name and colour of each setting that is drawn; they are the same in every chart."""
    return [(rank + 1, setting.name, COLOURS[rank]) for rank, setting in enumerate(settings[:MAX_DRAWN])]


def marker(rank: int) -> Json:
    """Returns the marker of a setting, grey for those beyond the last colour."""
    return {"color": COLOURS[rank] if rank < MAX_DRAWN else GREY, "line": {"width": 1.5}}


def line(rank: int, kind: str = "validation") -> Json:
    """Returns the line of a setting; that of its training rows is grey."""
    return {"color": COLOURS[rank] if kind == "validation" else GREY, "width": 2}


def bar(values: Sequence[float], intervals: Sequence[Interval | None]) -> Json:
    """Returns the error bars of marks; those without an interval have none."""
    ends = [interval or (value, value) for value, interval in zip(values, intervals, strict=True)]
    return {
        "array": [high - value for value, (_, high) in zip(values, ends, strict=True)],
        "arrayminus": [value - low for value, (low, _) in zip(values, ends, strict=True)],
        "thickness": 1.5,
        "width": 3,
    }


def accuracy_range(values: Sequence[float], intervals: Sequence[Interval | None]) -> list[float]:
    """Returns the range of an axis that has all marks and intervals, and shows no small difference as a large one."""
    ends = [*values, *(end for interval in intervals if interval for end in interval)]
    low, high = min(ends), max(ends)
    missing = max(0.0, NARROWEST - (high - low)) / 2
    pad = max(0.06 * (high - low), missing)
    return [low - pad, high + pad]


def apart(values: Sequence[float], gap: float) -> list[float]:
    """Returns positions in the order of the values and at least a gap apart, with the least sum of squared shifts."""
    order = sorted(range(len(values)), key=values.__getitem__)
    blocks: list[list[float]] = []  # labels that touch: summed positions of the first label, and their number
    for rank, index in enumerate(order):
        blocks.append([values[index] - rank * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1] = [blocks[-1][0] + total, blocks[-1][1] + count]
    starts = [total / count for total, count in blocks for _ in range(int(count))]
    positions = {index: start + rank * gap for rank, (index, start) in enumerate(zip(order, starts, strict=True))}
    return [positions[index] for index in range(len(values))]


def percent(value: float) -> str:
    """Returns a share in percent."""
    return f"{100 * value:.2f}%"


def percents(interval: Interval | None, missing: str = "") -> str:
    """Returns an interval in percent; the other text where there is none."""
    return "{} to {}".format(*map(percent, interval)) if interval else missing


def _cut(text: str) -> str:
    """Returns a text that fits an axis, shortened if needed, which plotly shows as it is."""
    return safe(text if len(text) <= NAME_WIDTH else f"{text[: NAME_WIDTH - 1]}\u2026")


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
    lines = [f"{rank + 1} {setting.name}".split("; ", 1) for rank, setting in enumerate(shown)]
    labels = ["<br>".join(map(_cut, of_setting)) for of_setting in lines]
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
        cells = [(f"{costs[i]:,.4g}", percent(values[i]), percents(intervals[i]), "yes" * (i in front)) for i in known]
        rows = [[str(i + 1), settings[i].name, *of_setting] for i, of_setting in zip(known, cells, strict=True)]
        heading = ["", "settings", title, "accuracy", "95% interval", "on the front"]
        charts.append(Chart(title, figure, Table(heading, rows)))
    return charts


def learning_charts(settings: Sequence[Setting]) -> list[Chart]:
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
    """Writes the rank of each setting next to the ends of its curves, at their mean, apart from other ranks."""
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


def confusion_charts(settings: Sequence[Setting], names: Sequence[str]) -> list[Chart]:
    """The confusion matrix of each setting: shares of each true class."""
    charts, classes = [], len(names)
    for rank, setting in enumerate(settings[:MAX_DRAWN]):
        counts_CC = confusion(setting)
        shares_CC = counts_CC / np.maximum(1, counts_CC.sum(axis=1, keepdims=True))
        figure = empty_figure(230 + 22 * min(classes, MAX_CLASSES), top=12)
        figure.add_heatmap(
            z=shares_CC,
            x=list(range(classes)),
            y=list(range(classes)),
            zmin=0,
            zmax=1,
            colorscale=SHADES,
            showscale=False,
            xgap=2,
            ygap=2,
            customdata=counts_CC,
            texttemplate="%{z:.1%}" if classes <= MAX_CLASSES else None,
            hovertemplate="true %{y}, predicted %{x}<br>%{z:.1%} (%{customdata:,.0f} rows)<extra></extra>",
        )
        labels = [_cut(name) for name in names]
        ticks = {"tickvals": list(range(classes)), "ticktext": labels, "automargin": True, "showgrid": False}
        figure.update_xaxes(title="predicted", **ticks)
        figure.update_yaxes(title="true", autorange="reversed", **ticks)
        precision, recall, scores = class_values(counts_CC)
        rows = [
            [name, *(f"{n:,.0f}" for n in counts_CC[i]), *(f"{v[i]:.4f}" for v in (precision, recall, scores))]
            for i, name in enumerate(names)
        ]
        heading = ["true", *(f"as {name}" for name in names), "precision", "recall", "F1"]
        title = f"{rank + 1} {setting.name}" if len(settings) > 1 else ""
        charts.append(Chart(title, figure, Table(heading, rows, note="Counts are means over seeds.")))
    return charts


def class_table(setting: Setting, names: Sequence[str]) -> Table:
    """Precision, recall and F1 of each class."""
    counts_CC = confusion(setting)
    columns = class_values(counts_CC)
    rows = [
        [name, f"{counts_CC[i].sum():,.0f}", *(f"{values[i]:.4f}" for values in columns)]
        for i, name in enumerate(names)
    ]
    return Table(["class", "rows", "precision", "recall", "F1"], rows)


def slice_chart(title: str, slices: Sequence[Slice], settings: Sequence[Setting], *, is_ordered: bool) -> list[Chart]:
    """The accuracy on each slice with its 95% interval; no chart without slices."""
    if not slices:
        return []
    figure = empty_figure(330, top=12, yaxis_title="accuracy", showlegend=False)
    rows = []
    for rank, setting in enumerate(settings):
        estimates = [accuracy(setting, part.chosen_K) for part in slices]
        means, intervals = [estimate.value for estimate in estimates], [estimate.interval() for estimate in estimates]
        for part, mean, interval in zip(slices, means, intervals, strict=True):
            rows.append([setting.name, part.name, f"{len(part.chosen_K):,}", percent(mean), percents(interval)])
        if rank >= MAX_DRAWN:
            continue
        count = min(len(settings), MAX_DRAWN)
        shift = 0.5 * ((rank + 0.5) / count - 0.5)  # next to each other, so that intervals can be read
        figure.add_scatter(
            x=[number + shift for number in range(len(slices))],
            y=means,
            error_y=bar(means, intervals),
            mode="lines+markers" if is_ordered else "markers",
            line={**line(rank), "width": 1.5},
            marker={**marker(rank), "size": 8},
            hovertemplate=[
                f"{safe(setting.name)}, {safe(part.name)}<br>{percent(mean)} ({percents(interval)})<extra></extra>"
                for part, mean, interval in zip(slices, means, intervals, strict=True)
            ],
        )
    labels = [_cut(part.name).replace(" to ", "<br>to ") for part in slices]
    if len(slices) < 4:  # with more labels there is no room on a phone
        labels = [f"{label}<br>{len(part.chosen_K):,} rows" for label, part in zip(labels, slices, strict=True)]
    figure.update_xaxes(tickvals=list(range(len(slices))), ticktext=labels, range=[-0.5, len(slices) - 0.5])
    figure.update_xaxes(showgrid=False, zeroline=False, automargin=True, tickangle=0)
    figure.update_yaxes(tickformat=".1~%")
    return [Chart(title, figure, Table(["settings", title, "rows", "accuracy", "95% interval"], rows))]


def reliability_chart(settings: Sequence[Setting]) -> list[Chart]:
    """Accuracy by the confidence of the predicted class, in bins of equal mass."""
    figure = empty_figure(380, top=12, xaxis_title="probability of the predicted class", showlegend=False)
    figure.update_yaxes(title="accuracy", tickformat=".1~%")
    figure.update_xaxes(tickformat=".0%")
    rows, lowest = [], 1.0
    for rank, setting in enumerate(settings):
        confidence_B, accuracy_B = reliability(setting)
        rows += [[setting.name, percent(x), percent(y)] for x, y in zip(confidence_B, accuracy_B, strict=True)]
        if rank < MAX_DRAWN:
            lowest = min(lowest, *confidence_B, *accuracy_B)
            hover = f"{safe(setting.name)}<br>probability %{{x:.1%}}<br>accuracy %{{y:.1%}}<extra></extra>"
            figure.add_scatter(x=confidence_B, y=accuracy_B, mode="lines+markers", line=line(rank))
            figure.data[-1].update(marker={"size": 5}, hovertemplate=hover)
    diagonal = {"color": GREY, "width": 1.5, "dash": "dot"}
    figure.add_scatter(x=[lowest, 1], y=[lowest, 1], mode="lines", line=diagonal, hoverinfo="skip")
    return [Chart("", figure, Table(["settings", "probability", "accuracy"], rows))]


def faithfulness_charts(insights: Sequence[Insight], settings: Sequence[Setting]) -> list[Chart]:
    """Comprehensiveness and sufficiency by the share of the tokens, deleted ones, less those of random tokens.

    A line for each attention that ranks tokens; the table has the other rankings too.
    """
    ranks = {setting.key: rank for rank, setting in enumerate(settings)}
    charts = []
    curves = {column.name: column for column in FAITHFULNESS.columns}
    for kind in faithfulness.KINDS:
        figure = empty_figure(320, top=12, xaxis_title="share of the tokens", yaxis_title=kind, showlegend=False)
        rows = []
        for insight in insights:
            for ranking in RANKINGS:
                names = [f"{kind}_deleted_{ranking}_{faithfulness.percent(share)}" for share in faithfulness.SHARES]
                estimates = [curves[name].estimate(insight) for name in names]
                if np.isnan([estimate.value for estimate in estimates]).all():
                    continue
                rows.append(
                    [insight.name, ranking.replace("_", " "), *(rounded(estimate, 3) for estimate in estimates)]
                )
                halves = [estimate.half_width() for estimate in estimates]
                if ranking == "attention" and (rank := ranks[insight.setting.key]) < MAX_DRAWN:
                    figure.add_scatter(
                        x=list(faithfulness.SHARES),
                        y=[estimate.value for estimate in estimates],
                        error_y={"array": np.nan_to_num(halves).tolist(), "thickness": 1.5, "width": 3},
                        mode="lines+markers+text",
                        text=[""] * (len(faithfulness.SHARES) - 1) + [str(rank + 1)],
                        textposition="middle right",
                        line=line(rank),
                        hovertemplate=f"{safe(insight.name)}<br>%{{x:.0%}}: %{{y:.3f}}<extra></extra>",
                    )
        if rows:
            figure.update_xaxes(tickformat=".0%", tickvals=list(faithfulness.SHARES[1:]))
            heading = ["settings", "ranking", *(f"{faithfulness.percent(share)}%" for share in faithfulness.SHARES)]
            charts.append(Chart(kind, figure, Table(heading, rows)))
    return charts
