"""A figure for a paper, one column wide and legible in grey: tested pairs, accuracy against cost and against labels."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sentattn.compare.comparison import Comparison, Pair
from sentattn.compare.report.charts import accuracy_range, apart, bar, colour, ticks_at
from sentattn.compare.report.summaries import Curve, label_curves
from sentattn.config.schema import SEEDS
from sentattn.console import format_count
from sentattn.errors import Fault, RunError
from sentattn.prediction.prediction import visible
from sentattn.rendering import PICTURES, require_format
from sentattn.rendering.png import POINTS, families, to_bytes
from sentattn.run import replacing, writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, SIZE, LETTERS, DPI = 3.3, 7.0, 24, 300
"""Inches of a column, points of letters, letters of a line of a label, dots per inch of a PNG."""
LINE, AXIS, LOWEST = 1.25 * SIZE / POINTS, 0.6, 1.4
"""Heights in inches: of a line of text, of an axis with its title, and of curves at least."""
VERDICTS: dict[str, dict[str, Any]] = {
    "beats": {"marker": "o", "markerfacecolor": "black"},
    "beats within margin": {"marker": "o", "markerfacecolor": "black", "fillstyle": "left"},
    "equivalent": {"marker": "s", "markerfacecolor": "0.65"},
    "undecided": {"marker": "o", "markerfacecolor": "white"},
}
MARKERS, STYLES = "os^DvXP*", ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
POINT: dict[str, Any] = {"color": "black", "markerfacecoloralt": "white", "markersize": 4, "linewidth": 0.8}


def write_figure(comparison: Comparison, path: Path, panels: Sequence[str] = ()) -> None:
    """Writes the figure of a comparison as PDF, SVG or PNG, by the ending of the file.

    The panels are some of `pairs`, `cost` and `labels`; by default those for which there is something to draw, which
    takes settings with an interval.

    Raises:
        UserError: If the file cannot be written, or there is nothing to draw for a panel that is named, or for any.
    """
    require_format(path, "figure", PICTURES)
    with writing(path, "figure"), replacing(path) as temporary:
        temporary.touch()  # an unwritable folder is reported before the work
        temporary.write_bytes(to_bytes(partial(draw, comparison, panels), path.suffix.lower()[1:], DPI))


def draw(comparison: Comparison, panels: Sequence[str] = ()) -> Figure:
    """Draws the figure; the arguments and errors are those of `write_figure`."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    drawable = {name: (height, of_panel) for name, height, of_panel in _panels(comparison)}
    if missing := ", ".join(name for name in panels if name not in drawable) or ("" if drawable else "any panel"):
        message = (
            f"There is nothing to draw for {missing}: pairs are declared ones, cost takes two settings, labels "
            f"settings that differ in data.train_size alone, and each setting needs {SEEDS} seeds."
        )
        raise RunError(Fault("figure", "missing", message))
    heights, drawings = zip(*(drawable[name] for name in dict.fromkeys(panels or drawable)), strict=True)
    with mpl.rc_context({"font.family": families(), "font.size": SIZE, "axes.linewidth": 0.6}):
        figure = Figure((WIDTH, sum(heights)), layout="constrained", facecolor="white")
        parts = figure.subfigures(len(heights), squeeze=False, height_ratios=heights)[:, 0]
        for letter, part, draw_panel in zip("abc", parts, drawings, strict=False):
            axes = part.subplots()
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=SIZE, labelfontfamily=families())
            axes.set_title(f"({letter})" if len(heights) > 1 else "", loc="left", fontweight="bold")
            draw_panel(axes)
    return figure


def _panels(comparison: Comparison) -> Iterator[tuple[str, float, Callable[[Axes], None]]]:
    """Yields name, height in inches and drawing function of each panel for which there is something to draw."""
    if pairs := [pair for pair in comparison.tests if pair.declared]:
        labels = [textwrap.fill(visible(_pair_name(pair)), LETTERS) for pair in pairs]
        lines = np.array([label.count("\n") + 1.5 for label in labels])
        yield "pairs", LINE * (lines.sum() + 1.5) + AXIS, partial(_draw_pairs, pairs, labels, lines, comparison.margin)
    by_rows = [curve for curve in label_curves(comparison.leaderboard) if any(ends for _, ends in curve.accuracies)]
    by_time = [
        Curve(setting.name, [seconds], [(setting.metrics["accuracy"].value, interval)])
        for setting in comparison.leaderboard
        if (interval := setting.interval()) and math.isfinite(seconds := setting.cost("seconds.train"))
    ]
    by_time = by_time if len(by_time) > 1 else []
    for name, title, curves in (("cost", "training time (s)", by_time), ("labels", "training rows", by_rows)):
        if curves:
            labels = [textwrap.fill(visible(curve.name), LETTERS) for curve in curves]
            lines = np.array([label.count("\n") + 1 for label in labels])
            height = max(LOWEST, LINE * lines.sum())
            yield name, height + AXIS, partial(_draw_curves, curves, labels, LINE / height * lines, title)


def _pair_name(pair: Pair) -> str:
    """Returns the names of both settings; values that both have stand once, at the end."""
    (first, _, values), (second, _, others) = (one.name.partition("; ") for one in (pair.first, pair.second))
    if values != others:
        return f"{pair.first.name} \u2212 {pair.second.name}"
    return "; ".join(filter(None, [f"{first} \u2212 {second}", values]))


def _draw_pairs(pairs: Sequence[Pair], labels: Sequence[str], lines: Any, margin: float, axes: Axes) -> None:
    """Draws the difference of each pair with the interval of its verdict, as it is printed, and the margin."""
    axes.axvspan(-margin, margin, color="0.9", linewidth=0)
    axes.axvline(0, color="black", linewidth=0.6)
    places, drawn = np.cumsum(lines) - lines / 2, {}
    for pair, y in zip(pairs, places, strict=True):
        ends = 100 * np.array(pair.intervals[pair.verdict == "equivalent"])
        axes.plot(ends, [y, y], color="black", linewidth=0.8, marker="|", markersize=3)
        verdict = pair.verdict.replace("better", "beats").replace("worse", "beats")
        [drawn[verdict]] = axes.plot(100 * pair.estimate.value, y, linestyle="none", **POINT | VERDICTS[verdict])
    axes.set(xlabel="difference of accuracy (points)", ylim=(lines.sum(), 0))
    axes.set_yticks(places, labels, parse_math=False, linespacing=1)
    axes.tick_params(axis="y", length=0)
    shown = {verdict: drawn[verdict] for verdict in VERDICTS if verdict in drawn}
    spaces = {"handletextpad": 0.1, "columnspacing": 0.8, "borderpad": 0}
    axes.figure.legend(shown.values(), shown, loc="outside lower right", ncols=4, frameon=False, **spaces)


def _draw_curves(curves: Sequence[Curve], labels: Sequence[str], gaps: Any, title: str, axes: Axes) -> None:
    """Draws accuracies with their intervals, and labels at the right, which are lines apart from each other.

    Curves are shifted a little, so that their intervals can be read.
    """
    low, high = accuracy_range([accuracy for curve in curves for accuracy in curve.accuracies])
    last = [(curve.accuracies[-1][0] - low) / (high - low) for curve in curves]
    for n, (curve, label, y) in enumerate(zip(curves, labels, apart(last, gaps, 0, 1), strict=True)):
        look = {"marker": MARKERS[n % len(MARKERS)], "linestyle": STYLES[n % len(STYLES)], "color": colour(n)}
        x = np.array(curve.x) * (1.05 ** (n - (len(curves) - 1) / 2) if len(curve.x) > 1 else 1)
        ends = bar(curve.accuracies)
        errors = 100 * np.maximum(0, [ends["arrayminus"], ends["array"]])
        axes.errorbar(x, [100 * value for value, _ in curve.accuracies], errors, capsize=1.5, **POINT | look)
        line = {"arrowstyle": "-", "linewidth": 0.4, "color": "0.6", "shrinkA": 1, "shrinkB": 3, "relpos": (0, 0.5)}
        text: dict[str, Any] = {"va": "center_baseline", "linespacing": 1, "parse_math": False, "arrowprops": line}
        end = (x[-1], 100 * curve.accuracies[-1][0])
        axes.annotate(label, end, (1.04, y), textcoords="axes fraction", **text)
    axes.set(xlabel=title, ylabel="accuracy (%)", ylim=(100 * low, 100 * high), xscale="log")
    axes.set_xticks(ticks := ticks_at(x for curve in curves for x in curve.x), list(map(format_count, ticks)))
    axes.minorticks_off()
