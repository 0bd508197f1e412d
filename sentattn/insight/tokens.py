"""The tokens of a prediction prepared for display: pieces of the text, lines of columns, colors and summaries."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from sentattn.insight.prediction import Prediction

UNREAD = " ... "
"""Shown for a stretch of the text that the model did not read."""
TIE = 1e-6
"""Weights with a smaller relative difference tie."""
QUANTILE = 0.98
MAX_WORDS = 10
"""Most unknown words in a note."""
Map: TypeAlias = Sequence[Sequence[float]]
"""L rows of L weights: row t has the weights that token t gives to each token."""

_LINE_BREAK = re.compile(r"\s*(?:<br\s*/?>\s*)+|\r\n?|[\u2028\u2029\x85]", re.IGNORECASE)
_WORD = re.compile(r"\w")
# They change the writing direction of all text that follows, also of the rest of the terminal's line.
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Piece(NamedTuple):
    """A stretch of a text.

    Attributes:
        text: The characters to show.
        token: Index of the token, or None between tokens.
        unread: Whether it replaces words that the model did not read.
    """

    text: str
    token: int | None = None
    unread: bool = False


def pieces(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[Piece]:
    """Yields a text piece by piece; joined they are the text, as far as the model read it.

    HTML line breaks become line breaks; control characters become visible signs.

    Args:
        text: The text as it was typed.
        spans: Start and end of each token, in order.
    """
    end = 0
    for token, (start, stop) in enumerate(spans):
        if start > end:
            yield _between(text[end:start])
        if stop > start:
            yield Piece(visible(text[start:stop]), token)
        end = max(end, stop)
    if end < len(text):
        yield _between(text[end:])


def _between(text: str) -> Piece:
    text = _LINE_BREAK.sub(lambda match: "\n" * min(2, max(1, match[0].lower().count("<br"))), text)
    return Piece(UNREAD, unread=True) if _WORD.search(text) else Piece(visible(text))


def visible(text: str) -> str:
    """Returns a text whose control characters, which a terminal or a browser would obey, are visible signs."""
    return text if text.isprintable() else "".join(map(_visible_sign, text))


def _visible_sign(character: str) -> str:
    if character in "\n\t" or character.isprintable():
        return character
    if character < " ":
        return chr(0x2400 + ord(character))
    if character == "\x7f":
        return "\u2421"
    is_unsafe = character in _DIRECTIONS or unicodedata.category(character) in ("Cc", "Cs")
    return "\ufffd" if is_unsafe else character


class Column(NamedTuple):
    """A column of the heat map.

    Attributes:
        text: The word in it.
        width: Its width.
        token: Index of its token; None for a stretch that was not read.
    """

    text: str
    width: float
    token: int | None


def columns(prediction: Prediction, width_of: Callable[[str], float], *, widest: float) -> Iterator[Column]:
    """Yields the columns of a text; words wider than `widest` are cut.

    Args:
        prediction: The text and its tokens.
        width_of: Returns the width of a column for a text.
        widest: Largest width of a column.
    """
    for piece in pieces(prediction.text, prediction.spans):
        if piece.token is not None or piece.unread:
            text = cut(piece.text if piece.token is not None else UNREAD.strip(), width_of, widest)
            yield Column(text, width_of(text), piece.token)


def cut(text: str, width_of: Callable[[str], float], widest: float) -> str:
    """Returns a text that is no wider than `widest`; a wider one is cut and ends in an ellipsis."""
    if width_of(text) <= widest:
        return text
    # A URL may have thousands of letters; a line holds a few hundred at most.
    start = text[:500]
    while start and width_of(start + "\u2026") > widest:
        start = start[:-1]
    return start + "\u2026"


def lines(items: Iterable[Column], width: float) -> Iterator[list[Column]]:
    """Yields columns in lines of at most `width`."""
    line: list[Column] = []
    used = 0.0
    for column in items:
        if line and used + column.width > width:
            yield line
            line, used = [], 0.0
        line.append(column)
        used += column.width
    if line:
        yield line


def color_limit(weights: Sequence[float]) -> float:
    """Returns the weight from which on the color is full: the row's 98 % quantile, but at least twice an even share.

    So an outlier does not turn the rest of a long row white, an even row stays pale, and in a row of fewer than 50
    weights the limit is the largest.
    """
    ranked = sorted(weights, reverse=True)
    quantile = ranked[len(ranked) // round(1 / (1 - QUANTILE))] if ranked else 0.0
    return max(quantile, min(1.0, 2 / max(1, len(ranked))))


def shades(weights: Sequence[float]) -> list[float]:
    """Returns the strength of each token's color, 0 to 1."""
    limit = color_limit(weights)
    return [min(1.0, weight / limit) for weight in weights]


def limit_label(limit: float, largest: float) -> str:
    """Returns the text at the end of a color scale; where larger weights share its last color, it says so."""
    if largest <= limit:
        return f"{limit:.3g}"
    return f"{limit:.3g} or more ({100 * QUANTILE:.0f} % quantile; largest {largest:.3g})"


def summary(words: Sequence[str], weights: Sequence[float], count: int = 3) -> str:
    """Returns the words with the largest weights of a row in one line, or how many words tie.

    Words that tie with the first one left out are left out too: only their order in the text would rank them.
    """
    order = sorted(range(len(weights)), key=lambda i: -weights[i])
    left_out = weights[order[count]] if len(order) > count else 0.0
    if top := [i for i in order[:count] if weights[i] > left_out * (1 + TIE)]:
        return " \u00b7 ".join(f"{words[i]} {weights[i]:.3f}" for i in top)
    largest = max(weights, default=0.0)
    return f"{sum(weight >= largest * (1 - TIE) for weight in weights)} words tie at {largest:.3f}"


def head_names(count: int) -> list[str]:
    """Returns the names of the maps of pairs; a single one has none."""
    return [f"head {head}" for head in range(1, count + 1)] if count > 1 else [""]


def pair_summary(words: Sequence[str], maps: Sequence[Map], count: int = 3) -> str:
    """Returns the pairs of different tokens with the largest weights in one line, `query -> key` with the weight.

    Pairs that tie with the first one left out are left out too. With several heads, each pair has its head.
    """
    weights_HLL = np.array(maps)
    weights_HLL[:, range(len(words)), range(len(words))] = -1
    flat = weights_HLL.ravel()
    largest = np.argpartition(-flat, min(count, len(flat) - 1))[: count + 1]
    order = largest[np.argsort(-flat[largest], kind="stable")]
    left_out = flat[order[count]] if len(order) > count else 0.0
    names = head_names(len(maps))
    top = []
    for index in order[:count]:
        if flat[index] > max(0.0, left_out * (1 + TIE)):
            head, query, key = np.unravel_index(index, weights_HLL.shape)
            pair = f"{words[query]} \u2192 {words[key]} {flat[index]:.3f}"
            top.append(f"{pair} ({names[head]})" if names[head] else pair)
    return " \u00b7 ".join(top) or "no pair of words stands out"


def unknown_note(prediction: Prediction) -> str:
    """Returns how many tokens are not in the model's vocabulary and which; an empty string if all are."""
    if not prediction.unknown:
        return ""
    words = list(dict.fromkeys(visible(prediction.words[token]) for token in prediction.unknown))
    more = f" and {len(words) - MAX_WORDS} more" if len(words) > MAX_WORDS else ""
    count, total = len(prediction.unknown), len(prediction.tokens)
    verb = "is" if count == 1 else "are"
    return f"{count} of {total} tokens {verb} not in the model's vocabulary: {', '.join(words[:MAX_WORDS])}{more}"
