"""Charts of predictions: confusion, accuracy by slice, reliability, each with the numbers behind it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sentattn.compare.report.slices import Slice, accuracy
from sentattn.compare.report.style import MAX_DRAWN, Chart, Table, bar, cut, line, marker, percent, percents
from sentattn.compare.report.summaries import class_values, confusion, reliability
from sentattn.compare.runs import Setting
from sentattn.rendering.html import GREY, empty_figure, safe

MAX_CLASSES = 12
"""Classes whose cells of a confusion matrix still hold text."""
SHADES = [[0.0, "#eef3f9"], [0.5, "#5f9cce"], [1.0, "#0b3c6f"]]


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
        labels = [safe(cut(name)) for name in names]
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
    labels = [safe(cut(part.name)).replace(" to ", "<br>to ") for part in slices]
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
