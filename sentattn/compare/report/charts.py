"""The charts of a report: each draws a list of rows by plotly express, and the same rows are its table.

A setting has the same colour in all of them.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from sentattn.compare.across import Overall
from sentattn.compare.report.summaries import (
    Curve,
    accuracy_on,
    learning_curve,
    pareto,
    reliability,
)
from sentattn.compare.runs import Setting
from sentattn.console import Table, format_count
from sentattn.metrics import Ints, class_values, confusion
from sentattn.rendering.html import PAGE_BLUE, PAGE_GREY, PAGE_ORANGE, layout, safe

if TYPE_CHECKING:
    import plotly.graph_objects as go

Row: TypeAlias = dict[str, Any]
"""A mark by the names of its columns; of a setting, `rank` and `settings` are its place and its name."""

COLOURS = (PAGE_BLUE, PAGE_ORANGE, "#2a9d6f", "#b5479b", "#9a7b1f", "#d1495b", "#6b7fd7", "#5b8a94")
MAX_DRAWN = len(COLOURS)
"""Settings that are drawn, the best of the leaderboard; the tables have all."""
MAX_SLICED = 4
"""Settings that are drawn by kind of text, side by side."""
NAME_WIDTH = 22
NARROWEST = 0.05
"""An axis of accuracies spans 5 points at least."""
COSTS = {
    "training time in seconds": "seconds.train",
    "parameters": "parameters.total",
    "latency of one text in ms": "latency_ms.one",
}
MAX_LOG_TICKS = 6
CURVES = (("accuracy", "val/accuracy", "train/accuracy"), ("log loss", "val/log_loss", "train/cross_entropy"))
"""Title and metric of the learning curves, and the metric of the training rows that a single run has too."""
ACCURACY, INTERVAL, PROBABILITY = "accuracy", "95% interval", "probability of the predicted class"
PERCENT = (ACCURACY, PROBABILITY)
"""Columns that are shown in percent."""
ABOVE, BELOW = "above", "below"
"""Columns that are drawn as bars, and not shown as numbers."""
BARS: Row = {"error_y": ABOVE, "error_y_minus": BELOW}
MAX_CLASSES = 12
"""Classes whose cells of a confusion matrix still hold text."""
SHADES = ["#eef3f9", "#5f9cce", "#0b3c6f"]

Slices: TypeAlias = tuple[str, Mapping[str, Ints], bool]
"""A kind of text, the numbers of the rows of each, and whether they are in an order."""


class Chart(NamedTuple):
    """A chart, and the rows that it draws unless a table next to it has them."""

    title: str
    figure: go.Figure
    table: Table | None


def key(settings: Sequence[Setting]) -> list[tuple[int, str, str]]:
    """Returns rank, name and colour of each setting that is drawn; they are the same in every chart."""
    return [(rank, setting.name, colour(rank)) for rank, setting in enumerate(settings[:MAX_DRAWN], start=1)]


def colour(rank: int) -> str:
    """Returns the colour of a setting by its place, from 1 on; grey for those beyond the last colour."""
    return COLOURS[rank - 1] if rank <= MAX_DRAWN else PAGE_GREY


def chart(
    kind: str,
    rows: Sequence[Row],
    title: str = "",
    *,
    height: int = 290,
    top: int = 12,
    most: int = MAX_DRAWN,
    metric: str = ACCURACY,
    **look: Any,
) -> Chart:
    """Draws rows as `plotly.express.KIND(**look)`, those of the first `most` settings; its table has all.

    The axis of the metric has a range of its own where it is drawn with intervals.
    """
    import plotly.express as px
    import pyarrow as pa

    drawn = [row for row in rows if row["rank"] <= most]
    texts = [{name: safe(v) if isinstance(v, str) else v for name, v in row.items()} for row in drawn]
    hidden = ("rank", "settings", ABOVE, BELOW)
    look = {
        "color": "settings",
        "color_discrete_map": {safe(row["settings"]): colour(row["rank"]) for row in drawn},
        "hover_name": "settings",
        "hover_data": {name: ":.2%" if name in PERCENT else name not in hidden for name in rows[0]},
        "render_mode": "svg",
    } | look
    express: Callable[..., go.Figure] = getattr(px, kind)
    figure = express(pa.Table.from_pylist(texts), **look).update_layout(layout(height, top), showlegend=False)
    figure.update_layout(legend_title=None)
    figure.update_traces(error_x_thickness=1.5, error_y_thickness=1.5, error_x_width=3, error_y_width=3)
    for name, update in ((look["x"], figure.update_xaxes), (look["y"], figure.update_yaxes)):
        if name in PERCENT:
            update(tickformat=".1~%" if name == ACCURACY else ".0%")
        if name == metric and ABOVE in rows[0]:
            update(range=value_range(drawn, metric))
    return Chart(title, figure, table(rows))


def table(rows: Sequence[Row]) -> Table:
    """Returns the numbers of rows as text."""

    def cell(name: str, value: object) -> str:
        if isinstance(value, float):
            return f"{100 * value:.2f}%" if name in PERCENT else f"{value:,.4g}"
        return f"{value:,}" if isinstance(value, int) else str(value)

    names = [name for name in rows[0] if name not in (ABOVE, BELOW)]
    return Table(names, [[cell(name, row[name]) for name in names] for row in rows])


def with_interval(value: float, interval: tuple[float, float] | None, metric: str = ACCURACY) -> Row:
    """Returns the columns of a metric: itself, its interval as text, empty where there is none, and its bars."""
    low, high = interval or (math.nan, math.nan)
    ends = f"{100 * low:.2f}% to {100 * high:.2f}%" if metric == ACCURACY else f"{low:.4f} to {high:.4f}"
    return {metric: value, INTERVAL: ends if interval else "", ABOVE: high - value, BELOW: value - low}


def value_range(rows: Sequence[Row], metric: str = ACCURACY) -> list[float]:
    """Returns the range of an axis that has all marks and intervals, and shows no small difference as a large one."""
    low = min(row[metric] - np.nan_to_num(row.get(BELOW, 0)) for row in rows)
    high = max(row[metric] + np.nan_to_num(row.get(ABOVE, 0)) for row in rows)
    pad = max(0.06 * (high - low), (NARROWEST - (high - low)) / 2)
    return [float(low - pad), float(high + pad)]


def _cut(text: str) -> str:
    """Returns a text that fits an axis, shortened if needed, which plotly shows as it is."""
    return safe(text if len(text) <= NAME_WIDTH else f"{text[: NAME_WIDTH - 1]}\u2026")


def _rows(settings: Sequence[Setting]) -> list[Row]:
    """Returns a row for each setting, with the metric that they are compared by."""
    return [
        {"rank": rank, "settings": setting.name}
        | with_interval(setting.metrics[setting.metric.name].value, setting.interval(), setting.metric.name)
        for rank, setting in enumerate(settings, start=1)
    ]


def leaderboard_chart(settings: Sequence[Setting]) -> list[Chart]:
    """The metric of each setting with its 95% interval."""
    shown, metric = settings[: 3 * MAX_DRAWN], settings[0].metric.name
    look = {"x": metric, "metric": metric, "y": "rank", "error_x": ABOVE, "error_x_minus": BELOW}
    lines = [textwrap.wrap(f"{rank} {setting.name}", NAME_WIDTH) for rank, setting in enumerate(shown, start=1)]
    height = 64 + 16 * len(shown) * max(2, *map(len, lines))
    _, figure, _ = chart("scatter", _rows(shown), height=height, top=8, most=len(shown), **look)
    labels = ["<br>".join(map(safe, of_setting)) for of_setting in lines]
    figure.update_yaxes(tickvals=list(range(1, len(shown) + 1)), ticktext=labels, range=[len(shown) + 0.5, 0.5])
    figure.update_yaxes(automargin=True, zeroline=False, title=None)
    return [Chart("", figure.update_xaxes(nticks=4).update_traces(marker_size=10), None)]


def forest_chart(overall: Overall) -> list[Chart]:
    """The difference of a pair on each data set and their mean, with the intervals of the table."""
    pairs, unit = {**overall.by_data, "mean": overall.mean}, overall.metric.scale
    title = f"difference of {overall.metric.name}{' in points' if unit > 1 else ''}"
    rows: list[Row] = []
    for place, pair in enumerate(pairs.values()):
        value, (low, high) = unit * pair.estimate.value, (unit * end for end in pair.intervals[0])
        rank = 1 if pair is overall.mean else 2
        rows.append({"rank": rank, "settings": str(rank), title: value, "place": place})
        rows[-1] |= {ABOVE: high - value, BELOW: value - low}
    look: Row = {"x": title, "y": "place", "error_x": ABOVE, "error_x_minus": BELOW}
    figure = chart("scatter", rows, height=90 + 34 * len(rows), **look).figure
    figure.add_vrect(x0=-overall.margin, x1=overall.margin, fillcolor=PAGE_GREY, opacity=0.2, line_width=0)
    figure.update_yaxes(tickvals=list(range(len(rows))), ticktext=list(map(_cut, pairs)), title=None, automargin=True)
    figure.update_yaxes(range=[len(rows) - 0.5, -0.5], zeroline=False).update_traces(marker_size=10)
    return [Chart("", figure.update_xaxes(zeroline=True, title=title), None)]


def cost_charts(settings: Sequence[Setting]) -> list[Chart]:
    """The metric against each cost, with the Pareto front."""
    charts, metric = [], settings[0].metric
    for title, cost_key in COSTS.items():
        rows = [row | {title: setting.cost(cost_key)} for row, setting in zip(_rows(settings), settings, strict=True)]
        rows = [row for row in rows if math.isfinite(row[title])]
        if len(rows) < 2:
            continue
        sign = -1 if metric.is_loss else 1
        front = pareto([row[title] for row in rows], [sign * row[metric.name] for row in rows])
        rows = [row | {"on the front": "yes" * (i in front)} for i, row in enumerate(rows)]
        symbols = {"symbol": "on the front", "symbol_map": {"yes": "circle", "": "circle-open"}}
        look = {"x": title, "y": metric.name, "metric": metric.name, "text": "rank", **symbols, **BARS}
        drawn = chart("scatter", rows, title, most=len(settings), **look)
        drawn.figure.update_traces(marker_size=11, textposition="middle right")
        x, y = ([rows[i][name] for i in front] for name in (title, metric.name))
        line = {"color": PAGE_GREY, "width": 1.5, "dash": "dot", "shape": "hv"}
        drawn.figure.add_scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip")
        drawn.figure.update_xaxes(exponentformat="SI", nticks=5)
        low, high = min(row[title] for row in rows), max(row[title] for row in rows)
        if 0 < 4 * low <= high:
            _log_axis(drawn.figure, low, high)
        charts.append(drawn)
    return charts


def _log_axis(figure: go.Figure, low: float, high: float) -> None:
    """Makes an axis logarithmic, with ticks of its own: those of plotly repeat their texts, as 5, 10, 2, 5, 100."""
    ticks = log_ticks(low, high)
    figure.update_xaxes(type="log", range=[math.log10(low) - 0.15, math.log10(high) + 0.15])
    figure.update_xaxes(tickvals=ticks, ticktext=list(map(format_count, ticks)), tickangle=0)


def log_ticks(low: float, high: float) -> list[float]:
    """Returns a few round numbers of a log range: powers of ten; of fewer than 3, also 2 and 5 times these."""
    tens = 10.0 ** np.arange(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    coarse, fine = (
        [float(tick) for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        for ticks in (tens, np.outer(tens, (1, 2, 5)).ravel())
    )
    if len(coarse) > 2:
        return coarse[:: math.ceil(len(coarse) / MAX_LOG_TICKS)]
    return fine if len(fine) > 1 else sorted({low, high})


def learning_charts(settings: Sequence[Setting]) -> list[Chart]:
    """Metrics of the validation rows by epoch, a line for each run; of a single run also those of training rows."""
    runs = [
        (rank, setting.name, str(run.seed) + (f", fold {fold}" if run.folds else ""), of_fold.path)
        for rank, setting in enumerate(settings[:MAX_DRAWN], start=1)
        for run in setting.runs
        for fold, of_fold in enumerate(run.folds or [run])
    ]
    curves = [(rank, name, seed, learning_curve(path)) for rank, name, seed, path in runs]
    is_single = len(runs) == 1
    charts = []
    for title, metric, trained in CURVES:
        metrics = {"validation": metric} | ({"training": trained} if is_single else {})
        rows: list[Row] = [
            {"rank": rank, "settings": name, "seed": seed, "rows": of, "epoch": line["epoch"], title: line[column]}
            for rank, name, seed, lines in curves
            for of, column in metrics.items()
            for line in lines
            if math.isfinite(line.get(column, math.nan))
        ]
        if not rows:
            continue
        look: Row = {"x": "epoch", "y": title, "line_group": "seed", "markers": True}
        if is_single:
            look |= {"color": "rows", "color_discrete_map": {"validation": colour(1), "training": PAGE_GREY}}
        drawn = chart("line", rows, title, height=280, **look)
        drawn.figure.update_traces(marker_size=5).update_layout(showlegend=is_single)
        drawn.figure.update_xaxes(dtick=max(1, round(max(row["epoch"] for row in rows) / 8)))
        if title == ACCURACY:
            drawn.figure.update_yaxes(range=value_range(rows))
        charts.append(drawn)
    return charts


def curve_chart(curves: Sequence[Curve]) -> list[Chart]:
    """The metric by the number of training rows, where settings differ in it alone."""
    title = "training rows"
    rows = [
        {"rank": rank, "settings": curve.name, title: x} | with_interval(*value, curve.metric)
        for rank, curve in enumerate(curves, start=1)
        for x, value in zip(curve.x, curve.values, strict=True)
    ]
    if not rows:
        return []
    metric = curves[0].metric
    drawn = chart("line", rows, height=310, top=36, metric=metric, x=title, y=metric, markers=True, **BARS)
    numbers = [x for curve in curves[:MAX_DRAWN] for x in curve.x]
    _log_axis(drawn.figure, min(numbers), max(numbers))
    return [drawn._replace(figure=drawn.figure.update_layout(showlegend=True))]


def confusion_charts(settings: Sequence[Setting], names: Sequence[str]) -> list[Chart]:
    """The confusion matrix of each setting: shares of each true class."""
    import plotly.express as px

    charts, classes = [], len(names)
    for rank, setting in enumerate(settings[:MAX_SLICED], start=1):
        counts_CC = np.mean([confusion(p_NC, setting.rows.labels_N) for p_NC in setting.probabilities], axis=0)
        shares_CC = counts_CC / np.maximum(1, counts_CC.sum(axis=1, keepdims=True))
        look = {"zmin": 0, "zmax": 1, "color_continuous_scale": SHADES, "aspect": "auto"}
        figure = px.imshow(shares_CC, text_auto=".1%" if classes <= MAX_CLASSES else False, **look)
        figure.update_layout(layout(200 + 22 * min(classes, MAX_CLASSES), top=12), coloraxis_showscale=False)
        figure.update_traces(hovertemplate="true %{y}, predicted %{x}: %{z:.1%}<extra></extra>", xgap=2, ygap=2)
        labels = [_cut(name) for name in names]
        ticks = {"tickvals": list(range(classes)), "ticktext": labels, "automargin": True, "showgrid": False}
        figure.update_xaxes(title="predicted", **ticks).update_yaxes(title="true", **ticks)
        columns = class_values(counts_CC)
        rows = [
            [name, *(f"{n:,.0f}" for n in counts_CC[i]), *(f"{values[i]:.4f}" for values in columns)]
            for i, name in enumerate(names)
        ]
        heading = ["true", *(f"as {name}" for name in names), "precision", "recall", "F1"]
        title = f"{rank} {setting.name}" if len(settings) > 1 else ""
        charts.append(Chart(title, figure, Table(heading, rows, note="Counts are means over seeds.")))
    return charts


def slice_charts(slices: Sequence[Slices], settings: Sequence[Setting]) -> list[Chart]:
    """The accuracy on each slice of several kinds with its 95% interval, all on one axis."""
    charts: list[Chart] = []
    for title, of_kind, is_ordered in slices:
        rows: list[Row] = []
        for (rank, setting), (name, rows_K) in product(enumerate(settings, start=1), of_kind.items()):
            estimate = accuracy_on(setting, rows_K)
            row = {"rank": rank, "settings": setting.name, title: name, "rows": len(rows_K)}
            rows.append(row | with_interval(estimate.value, estimate.interval()))
        if rows:
            look: Row = {"markers": True} if is_ordered else {}
            kind = "line" if is_ordered else "scatter"
            drawn = chart(kind, rows, title, most=MAX_SLICED, x=title, y=ACCURACY, **look, **BARS)
            labels = [_cut(name).replace(" to ", "<br>to ") for name in of_kind]
            ticks = {"tickvals": list(range(len(of_kind))), "ticktext": labels, "tickangle": 0, "automargin": True}
            ends = {"range": [-0.5, len(of_kind) - 0.5], "showgrid": False}
            drawn.figure.update_xaxes(type="category", title=None, **ticks, **ends).update_traces(marker_size=8)
            drawn.figure.update_layout(scattermode="group", scattergap=0.5)  # side by side: intervals can be read
            charts.append(drawn)
    lows, highs = zip(*(panel.figure.layout.yaxis.range for panel in charts), strict=True) if charts else ((), ())
    for panel in charts:
        panel.figure.update_yaxes(range=[min(lows), max(highs)])
    return charts


def reliability_chart(settings: Sequence[Setting]) -> list[Chart]:
    """Accuracy by the confidence of the predicted class, in bins of equal mass."""
    rows: list[Row] = [
        {"rank": rank, "settings": setting.name, PROBABILITY: float(confidence), ACCURACY: float(accuracy)}
        for rank, setting in enumerate(settings, start=1)
        for confidence, accuracy in zip(*reliability(setting), strict=True)
    ]
    if not rows:
        return []
    drawn = chart("line", rows, height=300, x=PROBABILITY, y=ACCURACY, markers=True)
    lowest = min(min(row[PROBABILITY], row[ACCURACY]) for row in rows if row["rank"] <= MAX_DRAWN)
    diagonal = {"color": PAGE_GREY, "width": 1.5, "dash": "dot"}
    drawn.figure.update_traces(marker_size=5)
    drawn.figure.add_scatter(x=[lowest, 1], y=[lowest, 1], mode="lines", line=diagonal, hoverinfo="skip")
    return [drawn]
