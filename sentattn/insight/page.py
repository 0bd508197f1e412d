"""Predictions as an HTML page of one file: no network, no framework, every text escaped."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from sentattn.insight.prediction import Prediction
from sentattn.insight.tokens import (
    Map,
    color_limit,
    head_names,
    limit_label,
    pair_summary,
    pieces,
    shades,
    summary,
    unknown_note,
    visible,
)

TEMPLATE = "page.html"
STEPS = 2**16 - 1
"""Steps of a packed weight: two bytes, as the page's script expects."""
CAPTION = "Row: the token that attends. Column: the token attended to. A row sums to 1. Point at a cell for its weight."


def page(predictions: Sequence[Prediction]) -> str:
    """Returns an HTML page that shows the mean attention to each text or, at a click, that of one hop.

    Words that are not in the vocabulary are underlined. Token-to-token weights are a square map, a head at a time.
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
            f'<p class="note">{escape(note)}</p>' if (note := unknown_note(prediction)) else "",
            f'<p class="top"><b>{escape(rows[0]["top"])}</b>'
            f'<span>weight 0<span class="scale">{rows[0]["scale"]}</span></span></p>',
            f'<p class="text" dir="auto">{_text(prediction)}</p>',
            f'<script type="application/json">{_json(rows)}</script>',
            _pairs(number, prediction.words, prediction.pairs) if prediction.pairs else "",
            "</article>",
        )
    )


def _rows(prediction: Prediction) -> list[dict[str, Any]]:
    """Returns the rows to choose from: the mean over the hops and, if there are several, each hop."""
    words = [visible(word) for word in prediction.words]
    hops = prediction.attention if len(prediction.attention) > 1 else []
    by_name = {"mean": prediction.mean_attention, **{f"hop {r}": row for r, row in enumerate(hops, start=1)}}
    return [
        {
            "name": name,
            "top": summary(words, row),
            "limit": _rounded(color_limit(row)),
            "scale": limit_label(color_limit(row), max(row, default=0.0)),
            "weights": [_rounded(weight) for weight in row],
        }
        for name, row in by_name.items()
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
    return f'<fieldset aria-label="row">{"".join(buttons)}</fieldset>'


def _text(prediction: Prediction) -> str:
    """Returns the text with each token on the color of its mean weight, as the page shows it first."""
    strength, unknown = shades(prediction.mean_attention), set(prediction.unknown)
    parts = []
    for text, token, unread in pieces(prediction.text, prediction.spans):
        if token is not None:
            attributes = ' class="unknown"' if token in unknown else ""
            parts.append(f'<span{attributes} style="--w:{strength[token]:.3f}">{escape(text)}</span>')
        else:
            parts.append(f"<i>{escape(text)}</i>" if unread else escape(text))
    return "".join(parts)


def _pairs(number: int, words: Sequence[str], maps: Sequence[Map]) -> str:
    """Returns the figure of the token-to-token weights; the page's script draws the map of the selected head."""
    names = head_names(len(maps))
    words = [visible(word) for word in words]
    heads = [{"top": pair_summary(words, [weights]), **packed(weights)} for weights in maps]
    return "\n".join(
        (
            "<figure>",
            "<h3>pairs</h3>",
            _switch(f"head-{number}", names) if len(names) > 1 else "",
            '<p class="top"><b></b><span>weight 0<span class="scale power"></span></span></p>',
            '<div class="map"><div class="keys"></div><div class="queries"></div>'
            '<div class="cells"><canvas role="img"></canvas><i></i></div></div>',
            f"<figcaption>{CAPTION}</figcaption>",
            f'<script type="application/json">{_json(heads)}</script>',
            "</figure>",
        )
    )


def packed(weights: Map) -> dict[str, Any]:
    """Returns a map small enough for a page: `limit`, the weight of the full color, and `weights`.

    The weights are steps of `limit / STEPS`, row by row, two bytes each (little-endian), in base64.
    """
    weights_LL = np.array(weights)
    limit = max(float(weights_LL.max()), min(1.0, 2 / len(weights_LL)))
    steps = np.rint(weights_LL * (STEPS / limit)).astype("<u2")
    return {"limit": limit, "weights": base64.b64encode(steps.tobytes()).decode()}


def _safe(name: str) -> str:
    return escape(visible(name))


def _json(value: object) -> str:
    """Returns JSON that cannot end the script element around it."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def _rounded(weight: float) -> float:
    return float(f"{weight:.3g}")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
