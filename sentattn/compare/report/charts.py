"""The charts of a report, each with the numbers behind it as a table; a setting has the same colour in all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from sentattn.compare.report.summaries import (
    Curve,
    accuracy_on,
    class_values,
    confusion,
    learning_curve,
    pareto,
    reliability,
)
from sentattn.compare.runs import Setting
from sentattn.config.types import Json
from sentattn.console import Table, format_count
from sentattn.metrics import Floats, Ints
from sentattn.rendering.html import BLUE, GREY, ORANGE, empty_figure, safe

if TYPE_CHECKING:
    import plotly.graph_objects as go

Interval: TypeAlias = tuple[float, float]
Accuracy: TypeAlias = tuple[float, Interval | None]
"""An accuracy with its 95% interval, where there are seeds enough."""

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
MAX_LOG_TICKS = 6
LABEL_GAP = 0.07
"""Of the height of a chart, between labels at the ends of curves."""
CURVES = (("accuracy", "val/accuracy", ""), ("log loss", "val/log_loss", "train/cross_entropy"))
"""Title and metric of the learning curves, and the metric of the training rows that a single run has too."""
NO_INTERVAL = "too few seeds: no interval"
MAX_CLASSES = 12
"""Classes whose cells of a confusion matrix still hold text."""
SHADES = [[0.0, "#eef3f9"], [0.5, "#5f9cce"], [1.0, "#0b3c6f"]]


class Chart(NamedTuple):
    """A chart, and the numbers that it draws unless a table next to it has them."""

    title: str
    figure: go.Figure
    table: Table | None


def key(settings: Sequence[Setting]) -> list[tuple[int, str, str]]:
    """Returns rank, name and colour of each setting that is drawn; they are the same in every chart."""
    return [(rank + 1, setting.name, colour(rank)) for rank, setting in enumerate(settings[:MAX_DRAWN])]


def colour(rank: int) -> str:
    """Returns the colour of a setting, grey for those beyond the last one."""
    return COLOURS[rank] if rank < MAX_DRAWN else GREY


def add_marks(figure: go.Figure, rank: int, title: str, hover: str, *, size: int = 6, **others: Any) -> None:
    """Adds marks in the colour of a setting, by default on a line; `hover` is shown below the title."""
    marks = {
        "mode": "lines+markers",
        "line": {"color": colour(rank), "width": 2},
        "marker": {"color": colour(rank), "size": size, "line": {"color": colour(rank), "width": 1.5}},
        "hovertemplate": f"{safe(title)}<br>{hover}<extra></extra>",
    }
    figure.add_scatter(**marks | others)


def add_accuracies(
    figure: go.Figure,
    rank: int,
    title: str,
    places: Sequence[tuple[str, float]],
    accuracies: Sequence[Accuracy],
    **others: Any,
) -> None:
    """Adds marks of accuracies with their intervals at places that have names."""
    texts = [(name, *in_percent(accuracy)) for (name, _), accuracy in zip(places, accuracies, strict=True)]
    shown = [f"{safe(name)}: {value} ({ends or NO_INTERVAL})" for name, value, ends in texts]
    look = {"x": [place for _, place in places], "y": [value for value, _ in accuracies], "error_y": bar(accuracies)}
    add_marks(figure, rank, title, "%{customdata}", **look | {"customdata": shown} | others)


def bar(accuracies: Sequence[Accuracy]) -> Json:
    """Returns the error bars of marks; those without an interval have none."""
    ends = [(value, *(interval or (value, value))) for value, interval in accuracies]
    above, below = [high - value for value, _, high in ends], [value - low for value, low, _ in ends]
    return {"array": above, "arrayminus": below, "thickness": 1.5, "width": 3}


def accuracy_range(accuracies: Sequence[Accuracy]) -> list[float]:
    """Returns the range of an axis that has all marks and intervals, and shows no small difference as a large one."""
    ends = [end for value, interval in accuracies for end in (value, *(interval or ()))]
    low, high = min(ends), max(ends)
    pad = max(0.06 * (high - low), (NARROWEST - (high - low)) / 2)
    return [low - pad, high + pad]


def percent(value: float) -> str:
    """Returns a share in percent."""
    return f"{100 * value:.2f}%"


def in_percent(accuracy: Accuracy) -> tuple[str, str]:
    """Returns an accuracy and its interval in percent; an empty text where there is no interval."""
    value, interval = accuracy
    return percent(value), "{} to {}".format(*map(percent, interval)) if interval else ""


def _cut(text: str) -> str:
    """Returns a text that fits an axis, shortened if needed, which plotly shows as it is."""
    return safe(text if len(text) <= NAME_WIDTH else f"{text[: NAME_WIDTH - 1]}\u2026")


def _accuracies(settings: Sequence[Setting]) -> list[Accuracy]:
    """Returns the accuracy of each setting, and its 95% interval."""
    return [(setting.metrics["accuracy"].value, setting.interval("accuracy")) for setting in settings]


def leaderboard_chart(settings: Sequence[Setting]) -> list[Chart]:
    """The accuracy of each setting with its 95% interval."""
    shown = settings[: 3 * MAX_DRAWN]
    figure = empty_figure(90 + 32 * len(shown), top=8, xaxis_title="accuracy", showlegend=False)
    accuracies = _accuracies(shown)
    for rank, (setting, accuracy) in enumerate(zip(shown, accuracies, strict=True)):
        value, ends = in_percent(accuracy)
        look = {"mode": "markers", "marker_symbol": "circle" if ends else "circle-open", "error_x": bar([accuracy])}
        hover = f"{value} ({ends or NO_INTERVAL})"
        add_marks(figure, rank, setting.name, hover, size=10, x=[accuracy[0]], y=[rank], **look)
    lines = [f"{rank + 1} {setting.name}".split("; ", 1) for rank, setting in enumerate(shown)]
    labels = ["<br>".join(map(_cut, of_setting)) for of_setting in lines]
    figure.update_yaxes(tickvals=list(range(len(shown))), ticktext=labels, range=[len(shown) - 0.5, -0.5])
    figure.update_yaxes(automargin=True, zeroline=False)
    figure.update_xaxes(tickformat=".1~%", nticks=6, range=accuracy_range(accuracies))
    return [Chart("", figure, None)]


def cost_charts(settings: Sequence[Setting]) -> list[Chart]:
    """Accuracy against each cost, with the Pareto front."""
    charts = []
    accuracies = _accuracies(settings)
    values = [value for value, _ in accuracies]
    for title, cost_key in COSTS.items():
        costs = [setting.cost(cost_key) for setting in settings]
        known = [i for i, cost in enumerate(costs) if math.isfinite(cost)]
        if len(known) < 2:
            continue
        front = pareto(costs, values)
        figure = empty_figure(340, top=12, xaxis_title=title, yaxis_title="accuracy", showlegend=False)
        step = {"color": GREY, "width": 1.5, "dash": "dot", "shape": "hv"}
        x, y = [costs[i] for i in front], [values[i] for i in front]
        figure.add_scatter(x=x, y=y, mode="lines", line=step, hoverinfo="skip")
        rows = []
        for i in known:
            name, cost = settings[i].name, f"{costs[i]:,.4g}"
            look: Json = {"mode": "markers+text", "marker_symbol": "circle" if i in front else "circle-open"}
            look |= {"text": [str(i + 1) * (i < MAX_DRAWN)], "textposition": f"middle {('right', 'left')[i % 2]}"}
            add_accuracies(figure, i, name, [(cost, costs[i])], [accuracies[i]], size=11, **look)
            rows.append([str(i + 1), name, cost, *in_percent(accuracies[i]), "yes" * (i in front)])
        low, high = min(costs[i] for i in known), max(costs[i] for i in known)
        figure.update_xaxes(exponentformat="SI", nticks=5)
        if 0 < 4 * low <= high:
            ticks = log_ticks(low, high)  # plotly's own repeat their texts: 5, 10, 2, 5, 100
            figure.update_xaxes(type="log", range=[math.log10(low) - 0.15, math.log10(high) + 0.15])
            figure.update_xaxes(tickvals=ticks, ticktext=list(map(format_count, ticks)), tickangle=0)
        figure.update_yaxes(tickformat=".1~%", range=accuracy_range([accuracies[i] for i in known]))
        heading = ["", "settings", title, "accuracy", "95% interval", "on the front"]
        charts.append(Chart(title, figure, Table(heading, rows)))
    return charts


def log_ticks(low: float, high: float) -> list[float]:
    """Returns a few round numbers of a log range: powers of ten; of fewer than 3, also 2 and 5 times these."""
    tens = 10.0 ** np.arange(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    coarse, fine = (
        [float(tick) for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        for ticks in (tens, np.outer(tens, (1, 2, 5)).ravel())
    )
    return coarse[:: math.ceil(len(coarse) / MAX_LOG_TICKS)] if len(coarse) > 2 else fine or [low, high]


def learning_charts(settings: Sequence[Setting]) -> list[Chart]:
    """Metrics of the validation rows by epoch, a line for each run."""
    runs = [(rank, run) for rank, setting in enumerate(settings[:MAX_DRAWN]) for run in setting.runs]
    curves = [(rank, run.seed, learning_curve(run.path)) for rank, run in runs]
    charts = []
    for title, metric, trained in CURVES:
        figure = empty_figure(320, top=12, xaxis_title="epoch", yaxis_title=title, showlegend=len(runs) == 1)
        rows: list[list[str]] = []
        ends: dict[int, list[float]] = {}
        metrics = {"validation": metric} | ({"training": trained} if trained and len(runs) == 1 else {})
        for rank, seed, epochs in curves:
            for kind, name in metrics.items():
                points = [(row["epoch"], row[name]) for row in epochs if math.isfinite(row.get(name, math.nan))]
                if not points:
                    continue
                x, y = zip(*points, strict=True)
                setting, place = settings[rank], rank if kind == "validation" else MAX_DRAWN
                hover = f"seed {seed}, {kind}<br>epoch %{{x}}: %{{y:.4f}}"
                add_marks(figure, place, setting.name, hover, size=5, x=x, y=y, name=kind)
                ends.setdefault(rank, []).append(y[-1])
                rows += [[setting.name, str(seed), kind, f"{epoch}", f"{value:.4f}"] for epoch, value in points]
        if rows:
            last = max(int(row["epoch"]) for _, _, epochs in curves for row in epochs)
            figure.update_xaxes(dtick=max(1, round(last / 8)))
            figure.update_yaxes(tickformat=".1~%" if title == "accuracy" else None)
            if len(runs) > 1:
                _label_ends(figure, ends)
            charts.append(Chart(title, figure, Table(["settings", "seed", "rows", "epoch", title], rows)))
    return charts


def _label_ends(figure: go.Figure, ends: Mapping[int, Sequence[float]]) -> None:
    """Writes the rank of each setting next to the ends of its curves, at their mean, apart from other ranks."""
    drawn = np.concatenate([trace.y for trace in figure.data])
    places = apart([np.mean(values) for values in ends.values()], LABEL_GAP * (np.ptp(drawn) or 1))
    for rank, y in zip(ends, places, strict=True):
        font = {"color": colour(rank), "size": 13}
        figure.add_annotation(x=1, xref="x domain", y=y, text=str(rank + 1), showarrow=False, xanchor="left", font=font)


def apart(values: ArrayLike, gap: float) -> Floats:
    """Returns positions in the order of the values and at least a gap apart, with the least sum of squared shifts."""
    from scipy.optimize import isotonic_regression

    order = np.argsort(values, kind="stable")
    steps = gap * np.arange(len(order))
    positions = np.empty(len(order))
    positions[order] = isotonic_regression(np.asarray(values)[order] - steps).x + steps
    return positions


def curve_chart(curves: Sequence[Curve], title: str, *, is_log: bool = False) -> list[Chart]:
    """The accuracy by a number, where settings differ in it alone."""
    if not curves:
        return []
    drawn, rows = curves[:MAX_DRAWN], []
    figure = empty_figure(340, xaxis_title=title, yaxis_title="accuracy", showlegend=True)
    for number, curve in enumerate(curves):
        points = zip(curve.x, curve.accuracies, strict=True)
        rows += [[curve.name, f"{x:,}", *in_percent(accuracy)] for x, accuracy in points]
        if number < MAX_DRAWN:
            places = [(f"{x:,} {title}", x) for x in curve.x]
            add_accuracies(figure, number, curve.name, places, curve.accuracies, name=_cut(curve.name))
    numbers = sorted({x for curve in drawn for x in curve.x})
    ticks = log_ticks(numbers[0], numbers[-1]) if is_log else numbers
    figure.update_xaxes(type="log" if is_log else None, tickvals=ticks, ticktext=list(map(format_count, ticks)))
    figure.update_yaxes(tickformat=".1~%", range=accuracy_range([a for curve in drawn for a in curve.accuracies]))
    return [Chart("", figure, Table(["settings", title, "accuracy", "95% interval"], rows))]


def confusion_charts(settings: Sequence[Setting], names: Sequence[str]) -> list[Chart]:
    """The confusion matrix of each setting: shares of each true class."""
    charts, classes, places = [], len(names), list(range(len(names)))
    look = {"zmin": 0, "zmax": 1, "colorscale": SHADES, "showscale": False, "xgap": 2, "ygap": 2}
    for rank, setting in enumerate(settings[:MAX_DRAWN]):
        counts_CC = confusion(setting)
        shares_CC = counts_CC / np.maximum(1, counts_CC.sum(axis=1, keepdims=True))
        figure = empty_figure(230 + 22 * min(classes, MAX_CLASSES), top=12)
        figure.add_heatmap(
            z=shares_CC,
            x=places,
            y=places,
            customdata=counts_CC,
            texttemplate="%{z:.1%}" if classes <= MAX_CLASSES else None,
            hovertemplate="true %{y}, predicted %{x}<br>%{z:.1%} (%{customdata:,.0f} rows)<extra></extra>",
            **look,
        )
        labels = [_cut(name) for name in names]
        ticks = {"tickvals": places, "ticktext": labels, "automargin": True, "showgrid": False}
        figure.update_xaxes(title="predicted", **ticks)
        figure.update_yaxes(title="true", autorange="reversed", **ticks)
        columns = class_values(counts_CC)
        rows = [
            [name, *(f"{n:,.0f}" for n in counts_CC[i]), *(f"{values[i]:.4f}" for values in columns)]
            for i, name in enumerate(names)
        ]
        heading = ["true", *(f"as {name}" for name in names), "precision", "recall", "F1"]
        title = f"{rank + 1} {setting.name}" if len(settings) > 1 else ""
        charts.append(Chart(title, figure, Table(heading, rows, note="Counts are means over seeds.")))
    return charts


def slice_chart(
    title: str, slices: Mapping[str, Ints], settings: Sequence[Setting], *, is_ordered: bool
) -> list[Chart]:
    """The accuracy on each slice with its 95% interval; no chart without slices."""
    if not slices:
        return []
    figure = empty_figure(330, top=12, yaxis_title="accuracy", showlegend=False)
    rows = []
    for rank, setting in enumerate(settings):
        estimates = [accuracy_on(setting, rows_K) for rows_K in slices.values()]
        accuracies = [(estimate.value, estimate.interval()) for estimate in estimates]
        for (name, rows_K), accuracy in zip(slices.items(), accuracies, strict=True):
            rows.append([setting.name, name, f"{len(rows_K):,}", *in_percent(accuracy)])
        if rank < MAX_DRAWN:  # next to each other, so that intervals can be read
            shift = 0.5 * ((rank + 0.5) / min(len(settings), MAX_DRAWN) - 0.5)
            places = [(name, number + shift) for number, name in enumerate(slices)]
            mode = "lines+markers" if is_ordered else "markers"
            add_accuracies(figure, rank, setting.name, places, accuracies, size=8, mode=mode)
    labels = [_cut(name).replace(" to ", "<br>to ") for name in slices]
    if len(slices) < 4:  # with more labels there is no room on a phone
        labels = [f"{label}<br>{len(rows_K):,} rows" for label, rows_K in zip(labels, slices.values(), strict=True)]
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
            hover = "probability %{x:.1%}<br>accuracy %{y:.1%}"
            add_marks(figure, rank, setting.name, hover, size=5, x=confidence_B, y=accuracy_B)
    diagonal = {"color": GREY, "width": 1.5, "dash": "dot"}
    figure.add_scatter(x=[lowest, 1], y=[lowest, 1], mode="lines", line=diagonal, hoverinfo="skip")
    return [Chart("", figure, Table(["settings", "probability", "accuracy"], rows))]
