"""A page of predictions that stands alone: no network, no framework, every text escaped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Any

from sentattn.insight.pairs import Map, head_names, lead, packed
from sentattn.insight.pieces import pieces, visible
from sentattn.insight.prediction import Prediction
from sentattn.insight.shares import full_colour, shades, summary

TEMPLATE = "page.html"
CAPTION = (
    "Row: the token that looks. Column: the token looked at. A row sums to 1. Point at a cell for its words and weight."
)


def page(predictions: Sequence[Prediction]) -> str:
    """Returns an HTML page on which each text shows the mean attention or, at a click, one hop's.

    Token-to-token weights follow as a square map, one head at a time.
    """
    texts = "a text" if len(predictions) == 1 else f"{len(predictions):,} texts"
    template = Template(resources.files(__package__).joinpath(TEMPLATE).read_text(encoding="utf-8"))
    articles = "\n".join(_article(number, prediction) for number, prediction in enumerate(predictions))
    return template.substitute(title=f"Attention on {texts}", articles=articles)


def _article(number: int, prediction: Prediction) -> str:
    rows = _rows(prediction)
    share = prediction.probabilities[prediction.label]
    return "\n".join(
        (
            "<article>",
            f"<h2>{_safe(prediction.label)}<small>{_percent(share)}</small></h2>",
            _classes(prediction.probabilities),
            _switch(f"row-{number}", [row["name"] for row in rows]) if len(rows) > 1 else "",
            f'<p class="lead"><b>{escape(rows[0]["lead"])}</b>'
            f'<span>weight 0<span class="scale">{rows[0]["full"]}</span></span></p>',
            f'<p class="text" dir="auto">{_text(prediction)}</p>',
            f'<script type="application/json">{_json(rows)}</script>',
            _pairs(number, prediction.words, prediction.pairs) if prediction.pairs else "",
            "</article>",
        )
    )


def _rows(prediction: Prediction) -> list[dict[str, Any]]:
    """Returns what can be shown: the mean over the hops and, where there are several, each hop."""
    words = [visible(word) for word in prediction.words]
    hops = prediction.attention if len(prediction.attention) > 1 else []
    named = {"mean": prediction.mean_attention, **{f"hop {r}": row for r, row in enumerate(hops, start=1)}}
    return [
        {
            "name": name,
            "lead": summary(words, row),
            "full": _rounded(full_colour(row)),
            "weights": [_rounded(weight) for weight in row],
        }
        for name, row in named.items()
    ]


def _classes(probabilities: dict[str, float]) -> str:
    lines = [
        f'<dt>{_safe(name)}</dt><dd class="bar"><i style="width:{100 * share:.1f}%"></i></dd><dd>{_percent(share)}</dd>'
        for name, share in probabilities.items()
    ]
    return f'<dl class="classes">{"".join(lines)}</dl>'


def _switch(group: str, names: Sequence[str]) -> str:
    buttons = [
        f'<label><input type="radio" name="{group}" value="{row}"{" checked" if row == 0 else ""}>'
        f"<span>{name}</span></label>"
        for row, name in enumerate(names)
    ]
    return f'<fieldset aria-label="what is shown">{"".join(buttons)}</fieldset>'


def _text(prediction: Prediction) -> str:
    """Returns the text with each token on the colour of its mean weight, as it shows before any click."""
    strength = shades(prediction.mean_attention)
    return "".join(
        f'<span style="--w:{strength[piece.token]:.3f}">{escape(piece.text)}</span>'
        if piece.token is not None
        else f"<i>{escape(piece.text)}</i>"
        if piece.unread
        else escape(piece.text)
        for piece in pieces(prediction.text, prediction.spans)
    )


def _pairs(number: int, words: Sequence[str], maps: Sequence[Map]) -> str:
    """Returns the figure of the token-to-token weights; the page's script draws the map of the head chosen."""
    names = head_names(len(maps))
    words = [visible(word) for word in words]
    heads = [{"lead": lead(words, [weights]), **packed(weights)} for weights in maps]
    return "\n".join(
        (
            "<figure>",
            "<h3>pairs</h3>",
            _switch(f"head-{number}", names) if len(names) > 1 else "",
            '<p class="lead"><b></b><span>weight 0<span class="scale power"></span></span></p>',
            '<div class="map"><div class="looked-at"></div><div class="looking"></div>'
            '<div class="cells"><canvas role="img"></canvas><i></i></div></div>',
            f"<figcaption>{CAPTION}</figcaption>",
            f'<script type="application/json">{_json(heads)}</script>',
            "</figure>",
        )
    )


def _safe(name: str) -> str:
    return escape(visible(name))


def _json(value: object) -> str:
    """Returns JSON that cannot end the script element around it."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def _rounded(weight: float) -> float:
    return float(f"{weight:.3g}")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
