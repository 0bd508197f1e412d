"""Charts in pages: the look that all of them share, and plotly's script. No text of theirs is markup for plotly."""

from __future__ import annotations

import math
from html import escape
from itertools import compress
from typing import TYPE_CHECKING, Any

from sentattn.prediction.prediction import visible

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from markupsafe import Markup

BLUE, ORANGE, GREY = "#2a6fb0", "#e67300", "#8a8d93"
LAYOUT: dict[str, Any] = {
    "template": "plotly_white",
    "title": None,
    "font": {"family": "system-ui, sans-serif", "size": 12, "color": "#1b1b1b"},
    "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    "hoverlabel": {"align": "left", "bgcolor": "#1b1b1b", "font": {"color": "white"}},
}
MAX_LOG_TICKS = 6
CONFIG = {"displaylogo": False, "responsive": True, "displayModeBar": False}


def layout(height: int, top: int = 36) -> dict[str, Any]:
    """The layout that all figures share, with room for a legend at the top."""
    return {**LAYOUT, "height": height, "margin": {"l": 70, "r": 20, "t": top, "b": 52}}


def empty_figure(height: int, top: int = 36, **others: Any) -> go.Figure:
    """Returns a figure without data in that layout."""
    import plotly.graph_objects as go

    return go.Figure().update_layout(layout(height, top), **others)


def safe(text: str) -> str:
    """Returns text as HTML that shows it as it is."""
    return escape(visible(text))


def log_ticks(low: float, high: float) -> list[float]:
    """Returns a few round numbers of a log range: powers of ten; of fewer than 3, also 2 and 5 times these."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [factor * 10.0**exponent for exponent in exponents for factor in (1, 2, 5)]
    within = [low * (1 - 1e-9) <= tick <= high * (1 + 1e-9) for tick in fine]
    tens = list(compress(fine[::3], within[::3]))
    if len(tens) > 2:
        return tens[:: -(-len(tens) // MAX_LOG_TICKS)]
    return list(compress(fine, within)) or [low, high]


def draw(figure: go.Figure, div: str) -> Markup:
    """Returns a figure, all of whose texts are safe, as the element `div` of a page that has plotly's script."""
    from markupsafe import Markup

    html = figure.to_html(full_html=False, include_plotlyjs=False, config=CONFIG, div_id=div)
    return Markup(html)  # noqa: S704 - all texts of the figures are safe


def plotly_script() -> Markup:
    """Returns plotly's script, so that a page needs no network."""
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs())  # noqa: S704 - plotly's own script
