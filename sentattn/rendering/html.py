"""Predictions as an HTML page of one file: no network, no framework, every text escaped."""

from __future__ import annotations

import base64
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sentattn.prediction.prediction import (
    QUANTILE,
    Map,
    Piece,
    Prediction,
    clipped,
    color_limit,
    cut_note,
    head_names,
    notes,
    pair_summary,
    pieces,
    shades,
    summary,
    visible,
)

if TYPE_CHECKING:
    from jinja2 import Environment

STEPS = 2**16 - 1
"""Steps of a packed weight: two bytes, as the page's script expects."""


def page(predictions: Sequence[Prediction]) -> str:
    """Returns an HTML page that shows the mean attention to each text or, at a click, that of one hop.

    Words that are not in the vocabulary are underlined. Token-to-token weights are a square map, a head at a time.
    """
    texts = "a text" if len(predictions) == 1 else f"{len(predictions):,} texts"
    articles = list(map(article, predictions))
    return render("sentattn.rendering", "page.html", title=f"Attention on {texts}", articles=articles)


def render(package: str, name: str, **values: Any) -> str:
    """Returns a template of a package with its values; texts are escaped, and control characters are visible signs.

    A template may extend or include the templates of this package.
    """
    return str(_environment(package).get_template(name).render(values))


@functools.cache
def _environment(package: str) -> Environment:
    """Returns the templates of a package, which are compiled once."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader
    from markupsafe import Markup

    def show(value: Any) -> Any:
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    loader = ChoiceLoader([PackageLoader(name, "") for name in (package, "sentattn.rendering")])
    environment = Environment(loader=loader, autoescape=True, finalize=show, trim_blocks=True, lstrip_blocks=True)
    environment.filters["percent"] = lambda share: f"{100 * share:.1f} %"
    return environment


def article(prediction: Prediction, *, is_uniform: bool = False) -> dict[str, Any]:
    """Returns the variables of `article.html` for a prediction.

    Args:
        prediction: The prediction.
        is_uniform: Whether every token has the same weight by construction; then no token is shaded.
    """
    words = [clipped(word) for word in prediction.tokens]
    cut = cut_note(prediction)
    return {
        "label": prediction.name,
        "share": prediction.share,
        "classes": prediction.probabilities,
        "cut": cut,
        "notes": notes(prediction)[bool(cut) :],
        "is_uniform": is_uniform,
        "pieces": shaded_pieces(prediction, is_shaded=not is_uniform),
        "rows": [
            {
                "name": name,
                "top": f"uniform by construction: 1/{len(row)} each" if is_uniform else summary(words, row),
                "limit": _rounded(color_limit(row)),
                "scale": limit_label(color_limit(row), max(row, default=0.0)),
                "weights": [_rounded(weight) for weight in row],
            }
            for name, row in prediction.rows.items()
        ],
        "heads": [{"top": pair_summary(words, [head]), **packed(head)} for head in prediction.pairs or ()],
        "head_names": head_names(len(prediction.pairs or ())),
    }


def shaded_pieces(prediction: Prediction, *, is_shaded: bool = True) -> list[tuple[Piece, float | None, bool]]:
    """Returns a text piece by piece: of a token the strength of its mean attention, and whether it is unknown."""
    strength, unknown = shades(prediction.mean_attention), set(prediction.unknown)
    shaded: list[tuple[Piece, float | None, bool]] = []
    for piece in pieces(prediction.text, prediction.spans):
        if piece.token is None:
            shaded.append((piece, None, False))
        else:
            shade = strength[piece.token] if is_shaded else 0.0
            word = prediction.text[slice(*prediction.spans[piece.token])]
            shaded.append((piece._replace(text=clipped(word)), shade, piece.token in unknown))
    return shaded


def limit_label(limit: float, largest: float) -> str:
    """Returns the label at the end of a color scale, with a note where larger weights share its last color."""
    if largest <= limit:
        return f"{limit:.3g}"
    return f"{limit:.3g} or more ({100 * QUANTILE:.0f} % quantile; largest {largest:.3g})"


def packed(weights: Map) -> dict[str, Any]:
    """Returns a map small enough for a page: `limit`, the weight of the full color, and `weights`.

    The weights are steps of `limit / STEPS`, row by row, two bytes each (little-endian), in base64.
    """
    weights_LL = np.array(weights)
    limit = max(float(weights_LL.max()), min(1.0, 2 / len(weights_LL)))
    steps = np.rint(weights_LL * (STEPS / limit)).astype("<u2")
    return {"limit": limit, "weights": base64.b64encode(steps.tobytes()).decode()}


def _rounded(weight: float) -> float:
    return float(f"{weight:.3g}")
