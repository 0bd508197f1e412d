"""A figure for a paper, one column wide and legible in grey: tested pairs, a metric against cost and against labels."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sentattn.compare.across import Overall
from sentattn.compare.comparison import Comparison, Pair
from sentattn.compare.metric import Metric
from sentattn.compare.report.charts import ABOVE, BELOW, colour, log_ticks, value_range, with_interval
from sentattn.compare.report.summaries import TRAIN_SIZE, Curve, curves
from sentattn.config.groups import get_path
from sentattn.console import format_count
from sentattn.errors import Fault, RunError, visible
from sentattn.rendering.png import POINTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

WIDTH, SIZE, DPI = 3.3, 7.0, 300
"""Inches of a column, points of letters, dots per inch of a PNG."""
PANELS = ("pairs", "cost", "rows")
LINE, CURVES = 1.25 * SIZE / POINTS, 1.8
"""Heights in inches: of a line of text, and of a panel of curves without its legend."""
VERDICTS: dict[str, dict[str, Any]] = {
    "beats": {"marker": "o", "markerfacecolor": "black"},
    "beats within margin": {"marker": "o", "markerfacecolor": "black", "fillstyle": "left"},
    "equivalent": {"marker": "s", "markerfacecolor": "0.65"},
    "undecided": {"marker": "o", "markerfacecolor": "white"},
}
MARKERS, STYLES = "os^DvXP*", ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
Panel: TypeAlias = "tuple[float, Callable[[Axes], None]]"
"""Its height in inches, and what draws it."""
POINT: dict[str, Any] = {"color": "black", "markerfacecoloralt": "white", "markersize": 4, "linewidth": 0.8}


def panel_faults(names: Iterable[str]) -> list[Fault]:
    """Returns an error if there is no panel of a name."""
    wrong = [name for name in names if name not in PANELS]
    message = f"panels must be some of {', '.join(PANELS)}, got {', '.join(wrong)}."
    return [Fault("panels", "unknown", message)] if wrong else []


def draw(comparison: Comparison, kinds: Collection[str] = PANELS) -> Figure:
    """Draws a panel each of the declared pairs, the metric against cost and against labels, where runs have them.

    `kinds` are those of `PANELS` that are drawn.

    Raises:
        RunError: If there is none.
    """
    metric = comparison.metric
    panels: list[Panel] = []
    if pairs := [pair for pair in comparison.tests if pair.declared and "pairs" in kinds]:
        labels, lines = _labels(pairs)
        panels.append((LINE * (lines + 6), partial(_draw_pairs, pairs, labels, metric, comparison.margin)))
    timed = [(each, seconds) for each in comparison.leaderboard if (seconds := each.cost("seconds.train")) > 0]
    sizes = {get_path(setting.settings, TRAIN_SIZE) for setting, _ in timed}
    times = [
        Curve(setting.name, metric.name, [seconds], [(setting.metrics[metric.name].value, setting.interval())])
        for setting, seconds in timed
        if len(sizes) == 1 or get_path(setting.settings, TRAIN_SIZE) is None
    ]
    by_rows = curves(comparison.leaderboard)
    for kind, title, drawn in (("cost", "training time (s)", times), ("rows", "training rows", by_rows)):
        if kind in kinds and sum(len(curve.x) for curve in drawn) > 1:
            labels = [textwrap.fill(visible(curve.name), 48) for curve in drawn]
            lines = sum(label.count("\n") + 1 for label in labels)
            panels.append((CURVES + LINE * lines, partial(_draw_curves, drawn, labels, title, metric)))
    if not panels:
        message = "There is nothing to draw: a figure takes a declared pair with three seeds each, or two settings."
        raise RunError(Fault("figure", "missing", message))
    titles = [f"({letter})" for letter in "abc"] if len(panels) > 1 else [""]
    return _figure(panels, titles[: len(panels)], fontweight="bold")


def draw_overall(overall: Sequence[Overall]) -> Figure:
    """Draws the mean difference of each pair over the data sets, with its interval, and the difference on each."""
    labels, lines = _labels([each.mean for each in overall])
    return _figure([(LINE * (lines + len(overall[0].by_data) / 3 + 7), partial(_draw_overall, overall, labels))], [""])


def _labels(pairs: Sequence[Pair]) -> tuple[list[str], float]:
    """Returns the labels of pairs, and the lines of text that their rows take."""
    labels = [textwrap.fill(visible(f"{pair.first.name} \u2212 {pair.second.name}"), 24) for pair in pairs]
    return labels, len(pairs) * (1.5 + max(label.count("\n") for label in labels))


def _figure(panels: Sequence[Panel], titles: Sequence[str], **look: Any) -> Figure:
    """Draws panels with titles below each other."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    heights = [height for height, _ in panels]
    with mpl.rc_context({"font.size": SIZE, "axes.linewidth": 0.6}):
        figure = Figure((WIDTH, sum(heights)), layout="constrained", facecolor="white")
        parts = figure.subfigures(len(panels), squeeze=False, height_ratios=heights)[:, 0]
        for part, title, (_, draw_panel) in zip(parts, titles, panels, strict=True):
            axes = part.subplots()
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=SIZE)
            axes.set_title(title, loc="left", parse_math=False, **look)
            draw_panel(axes)
    return figure


def _draw_overall(overall: Sequence[Overall], labels: Sequence[str], axes: Axes) -> None:
    metric, drawn = overall[0].metric, {}
    _draw_pairs([each.mean for each in overall], labels, metric, overall[0].margin, axes)
    for n, name in enumerate(dict.fromkeys(name for each in overall for name in each.by_data)):
        places = [y for y, each in enumerate(overall) if name in each.by_data]
        values = [metric.scale * overall[y].by_data[name].estimate.value for y in places]
        marker = MARKERS[1 + n % (len(MARKERS) - 1)]  # the first is that of the mean
        [drawn[visible(name)]] = axes.plot(values, places, marker, color="0.5", markersize=2.5, zorder=1)
    _legend(drawn, axes, "outside upper right")


def _draw_pairs(pairs: Sequence[Pair], labels: Sequence[str], metric: Metric, margin: float, axes: Axes) -> None:
    """Draws the difference of each pair with the interval of its verdict, as it is printed, and the margin."""
    axes.axvspan(-margin, margin, color="0.9", linewidth=0)
    axes.axvline(0, color="black", linewidth=0.6)
    drawn = {}
    for y, pair in enumerate(pairs):
        ends = metric.scale * np.array(pair.intervals[pair.verdict == "equivalent"])
        axes.plot(ends, [y, y], color="black", linewidth=0.8, marker="|", markersize=3)
        verdict = pair.verdict.replace("better", "beats").replace("worse", "beats")
        [drawn[verdict]] = axes.plot(
            metric.scale * pair.estimate.value, y, linestyle="none", **POINT | VERDICTS[verdict]
        )
    axes.set(
        xlabel=f"difference of {metric.name}{' (points)' if metric.scale > 1 else ''}", ylim=(len(pairs) - 0.5, -0.5)
    )
    axes.set_yticks(range(len(pairs)), labels, parse_math=False, linespacing=1)
    axes.tick_params(axis="y", length=0)
    shown = {verdict: drawn[verdict] for verdict in VERDICTS if verdict in drawn}
    _legend(shown, axes, "outside lower right")


def _legend(drawn: Mapping[str, Line2D], axes: Axes, place: Any) -> None:
    spaces = {"handletextpad": 0.1, "columnspacing": 0.8, "borderpad": 0}
    legend = axes.figure.legend(list(drawn.values()), list(drawn), loc=place, ncols=4, frameon=False, **spaces)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _draw_curves(curves: Sequence[Curve], labels: Sequence[str], title: str, metric: Metric, axes: Axes) -> None:
    """Draws values with their intervals, and a legend below."""
    scale = metric.scale
    drawn = [[with_interval(*value, metric.name) for value in curve.values] for curve in curves]
    for n, (curve, rows, label) in enumerate(zip(curves, drawn, labels, strict=True)):
        look = {"marker": MARKERS[n % len(MARKERS)], "linestyle": STYLES[n % len(STYLES)], "color": colour(n + 1)}
        errors = scale * np.maximum(0, [[row[side] for row in rows] for side in (BELOW, ABOVE)])
        values = [scale * row[metric.name] for row in rows]
        axes.errorbar(curve.x, values, errors, capsize=1.5, label=label, **POINT | look)
    low, high = value_range([row for rows in drawn for row in rows], metric.name)
    unit = " (%)" if scale > 1 else ""
    axes.set(xlabel=f"{title}, log scale", ylabel=metric.name + unit, ylim=(scale * low, scale * high), xscale="log")
    x = [x for curve in curves for x in curve.x]
    axes.set_xticks(ticks := log_ticks(min(x), max(x)), list(map(format_count, ticks)))
    axes.minorticks_off()
    for text in axes.figure.legend(loc="outside lower left", frameon=False, borderpad=0, labelspacing=0.2).get_texts():
        text.set_parse_math(False)
