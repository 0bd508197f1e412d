"""How the figures of the report look: labels, ticks and colours. No text of theirs is markup for plotly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from sentattn.config.types import as_typed
from sentattn.insight.prediction import visible
from sentattn.sweep.search_space import Dimension

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from sentattn.sweep.records import Record
    from sentattn.sweep.report.analysis import Importances

MAX_LOG_TICKS = 6
BLUE, ORANGE, GREY, RED = "#2a6fb0", "#e67300", "#8a8d93", "#c0392b"
SCALE = ["#cfdceb", "#9fc1de", "#5f9cce", "#2a6fb0", "#0b3c6f"]
"""Colours from low to high; the lowest is still visible on white."""


def safe(text: object) -> str:
    """Returns text as HTML that shows it as it is, for pages and for plotly."""
    return escape(visible(str(text)))


def shown(value: object) -> str:
    """Returns a value of a setting as people read it."""
    return f"{value:.6g}" if isinstance(value, float) else as_typed(value)


def short_names(keys: Iterable[str]) -> list[str]:
    """Returns the last part of each key, or the whole key where two of them end alike."""
    lasts = {key: key.replace("/", ".").rpartition(".")[2] for key in keys}
    parts = list(lasts.values())
    return [last if parts.count(last) == 1 else key for key, last in lasts.items()]


def with_labels(dimension: Dimension) -> Dimension:
    """Returns a dimension whose choices are text that is safe to show."""
    if not isinstance(dimension.distribution, CategoricalDistribution):
        return dimension
    return replace(dimension, distribution=CategoricalDistribution([_label(v) for v in dimension.distribution.choices]))


def with_labels_of(space: Mapping[str, Dimension], record: Record) -> Record:
    """Returns a trial with the same text in place of its choices."""
    choices = {key for key, dimension in space.items() if isinstance(dimension.distribution, CategoricalDistribution)}
    values = {key: _label(value) if key in choices else value for key, value in record.values.items()}
    return replace(record, values=values)


def _label(value: object) -> str:
    return safe(as_typed(value))


def set_axis(axis: Any, dimension: Dimension) -> None:
    """Gives an axis its range and its ticks; the point 0 of a log range reads 0."""
    distribution = dimension.distribution
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        return
    if not distribution.log:
        axis.tickformat = "d" if isinstance(distribution, IntDistribution) else None
        return
    low = dimension.floor if dimension.zero else distribution.low
    ticks = {value: f"{value:.6g}" for value in log_ticks(low, distribution.high)}
    start: Any = low
    if dimension.zero:
        start = dimension.drawn(0)
        ticks = {start: "0", **ticks}
    first, last = math.log10(start), math.log10(distribution.high)
    room = 0.05 * (last - first)
    axis.update(tickvals=list(ticks), ticktext=list(ticks.values()), range=[first - room, last + room])


def log_ticks(low: float, high: float) -> list[float]:
    """Returns a few round numbers of a log range: powers of ten, or 1, 2 and 5 of each where those are fewer than 3."""
    powers = [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    tens = [value for value in powers if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
    if len(tens) > MAX_LOG_TICKS:
        return tens[:: -(-len(tens) // MAX_LOG_TICKS)]
    if len(tens) > 2:
        return tens
    fine = [factor * value for value in powers for factor in (1, 2, 5)]
    return [value for value in fine if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)] or [low, high]


def tick(text: str, dimension: Dimension, *, partial: bool) -> str:
    """Returns a tick of the parallel coordinates as people read it.

    Args:
        text: Optuna's tick: None for "not set", the drawn value for the point 0 of a log range.
        dimension: The setting.
        partial: Whether some trials did not set it.
    """
    if partial and text in ("None", "None (value)"):
        return "not set" if text == "None" else "None"
    if not dimension.zero:
        return text
    if text == f"{dimension.drawn(0):.3g}":
        return "0"
    return text if float(text) >= dimension.floor * 0.99 else ""


def darker(colour: str) -> str:
    """Returns a darker `rgb(...)` of Optuna's scale, whose lightest are invisible on white."""
    import plotly.colors

    return "rgb({:.0f},{:.0f},{:.0f})".format(*(0.82 * part for part in plotly.colors.unlabel_rgb(colour)))


def wrapped(name: str) -> str:
    """Returns a name that breaks after dots and slashes where it is long."""
    return name if len(name) < 16 else name.replace(".", ".<br>").replace("/", "/<br>").replace("_", "_<br>")


def styled(figure: go.Figure, height: int, top: int = 36) -> go.Figure:
    """Gives a figure the layout that all share, with room for a legend at the top, and returns it."""
    figure.update_layout(
        template="plotly_white",
        title=None,
        height=height,
        font={"family": "system-ui, sans-serif", "size": 12, "color": "#1b1b1b"},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        hoverlabel={"align": "left", "bgcolor": "#1b1b1b", "font": {"color": "white"}},
        margin={"l": 70, "r": 20, "t": top, "b": 52},
    )
    return figure


def importance_bars(measured: Importances) -> go.Figure:
    """Returns grouped bars: the two measures of each setting."""
    import plotly.graph_objects as go

    largest = {key: max(share, (measured.fanova or {}).get(key, 0)) for key, share in measured.ped_anova.items()}
    keys = sorted(largest, key=largest.__getitem__, reverse=True)
    figure = go.Figure()
    for name, shares, colour in (("PED-ANOVA", measured.ped_anova, BLUE), ("fANOVA", measured.fanova, ORANGE)):
        if shares is not None:
            figure.add_bar(
                x=[shares.get(key, 0) for key in keys],
                y=[safe(key) for key in keys],
                orientation="h",
                name=name,
                text=[f"{shares[key]:.2f}" if key in shares else "conditional: not measured" for key in keys],
                textposition="outside",
                cliponaxis=False,
                marker={"color": colour},
                hovertemplate=f"%{{y}}: %{{text}}<extra>{name}</extra>",
            )
    figure.update_yaxes(autorange="reversed", ticksuffix="  ", automargin=True)
    figure.update_xaxes(title_text="share of importance", range=[0, 1.08])
    return styled(figure, 110 + 42 * len(keys))
