"""HTML pages of one file, without network and framework, with every text escaped: predictions, and plotly's charts."""

from __future__ import annotations

import base64
import functools
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from sentattn.console import plural
from sentattn.errors import visible
from sentattn.prediction.prediction import (
    NGRAMS,
    Map,
    Piece,
    Prediction,
    clipped,
    color_limit,
    cut_note,
    head_names,
    limit_text,
    notes,
    pair_summary,
    summary,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from jinja2 import Environment

PAGE_BLUE, PAGE_ORANGE, PAGE_GREY = "#2a6fb0", "#e67300", "#8a8d93"
LAYOUT: dict[str, object] = {
    "template": "plotly_white",
    "title": None,
    "font": {"family": "system-ui, sans-serif", "size": 12, "color": "#1b1b1b"},
    "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    "hoverlabel": {"align": "left", "bgcolor": "#1b1b1b", "font": {"color": "white"}},
}
CONFIG = {"displaylogo": False, "responsive": True, "displayModeBar": False}
STEPS = 2**16 - 1
"""Steps of a packed weight: two bytes, as the page's script expects."""


def page(predictions: Sequence[Prediction]) -> str:
    """Returns an HTML page that shows the mean attention to each text, at a click that of a hop, and maps of pairs."""
    title = f"Attention on {plural(len(predictions), 'text')}"
    return render("sentattn.rendering", "page.html", title=title, articles=list(map(article, predictions)))


def render(package: str, name: str, **values: object) -> str:
    """Returns a template of a package, which may extend those here, with escaped values without control characters."""
    return str(_environment(package).get_template(name).render(values))


@functools.cache
def _environment(package: str) -> Environment:
    """Returns the templates of a package, which are compiled once."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader

    def show(value: object) -> object:
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    loader = ChoiceLoader([PackageLoader(name, "") for name in (package, "sentattn.rendering")])
    environment = Environment(loader=loader, autoescape=True, finalize=show, trim_blocks=True, lstrip_blocks=True)
    environment.filters["percent"] = lambda share: f"{100 * share:.1f} %"
    return environment


def article(prediction: Prediction, more_rows: Sequence[dict[str, object]] = ()) -> dict[str, object]:
    """Returns the variables of `article.html` for a prediction; weights that tie shade nothing."""
    prediction = prediction.in_words()
    words = [clipped(word) for word in prediction.tokens]
    cut = cut_note(prediction)
    return {
        "label": prediction.name,
        "share": prediction.share,
        "classes": prediction.probabilities,
        "cut": cut,
        "notes": notes(prediction)[bool(cut) :],
        "pieces": shaded_pieces(prediction),
        "rows": [
            *(
                {
                    "name": name,
                    "top": summary(words, row)
                    if name == NGRAMS or not prediction.is_even
                    else "all tokens have the same weight",
                    "limit": _rounded(color_limit(row)) if any(prediction.shades(row)) else None,
                    "low": "weight 0",
                    "scale": limit_text(color_limit(row), max(row, default=0.0)),
                    "weights": [_rounded(weight) for weight in row],
                }
                for name, row in prediction.rows.items()
            ),
            *more_rows,
        ],
        "heads": [{"top": pair_summary(words, [head]), **packed(head)} for head in prediction.pairs or ()],
        "head_names": head_names(len(prediction.pairs or ())),
    }


def gradient_row(prediction: Prediction, change: float, error: float) -> dict[str, object]:
    """Returns the row of integrated gradients, whose colors show what speaks for the label and what against it.

    Args:
        prediction: Its only row of weights has what each word adds to the logit of the label.
        change: Of the logit, that they explain.
        error: Their sum's.
    """
    [values], words = prediction.attention, [clipped(word) for word in prediction.tokens]
    order = sorted(range(len(values)), key=lambda i: -abs(values[i]))[:3]
    limit = max(map(abs, values), default=0.0)
    top = " \u00b7 ".join(f"{words[i]} {values[i]:+.3f}" for i in order)
    return {
        "name": "integrated gradients",
        "top": f"{top}; all words {change:+.2f} in the logit of {prediction.name}, with an error of {abs(error):.2g}",
        "limit": _rounded(limit) or 1.0,
        "low": f"{-limit:.3g}",
        "scale": f"+{limit:.3g}",
        "weights": [_rounded(value) for value in values],
    }


def shaded_pieces(prediction: Prediction) -> list[Piece]:
    """Returns a text piece by piece, its words shaded by their mean attention."""
    pieces = prediction.in_words().shaded(prediction.in_words().mean_attention)
    return [piece if piece.token is None else piece._replace(text=clipped(piece.text)) for piece in pieces]


def packed(weights: Map) -> dict[str, object]:
    """Returns `limit`, the weight of the full color, and `weights` in steps of `limit / STEPS`, `<u2` in base64."""
    weights_LL = np.array(weights)
    limit = max(float(weights_LL.max()), min(1.0, 2 / len(weights_LL)))
    steps = np.rint(weights_LL * (STEPS / limit)).astype("<u2")
    return {"limit": limit, "weights": base64.b64encode(steps.tobytes()).decode()}


def layout(height: int, top: int = 36) -> dict[str, object]:
    """The layout that all figures share, with room for a legend at the top."""
    return {**LAYOUT, "height": height, "margin": {"l": 70, "r": 20, "t": top, "b": 52}}


def safe(text: str) -> str:
    """Returns text as HTML that shows it as it is."""
    return escape(visible(text))


def draw(figure: go.Figure, div: str) -> Markup:
    """Returns a figure, all of whose texts are safe, as the element `div` of a page that has plotly's script."""
    html = figure.to_html(full_html=False, include_plotlyjs=False, config=CONFIG, div_id=div)
    return Markup(html)  # noqa: S704 - all texts of the figures are safe


def plotly_script() -> Markup:
    """Returns plotly's script, so that a page needs no network."""
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs())  # noqa: S704 - plotly's own script


def _rounded(weight: float) -> float:
    return float(f"{weight:.3g}")
