"""A text as columns of a heat map, filled into lines of one width."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from sentattn.insight.pieces import UNREAD, pieces
from sentattn.insight.prediction import Prediction


class Column(NamedTuple):
    """A column of the heat map.

    Attributes:
        text: What is written in it.
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
        width_of: Width of a column for a text.
        widest: Largest width of a column.
    """
    for piece in pieces(prediction.text, prediction.spans):
        if piece.token is not None or piece.unread:
            text = cut(piece.text if piece.token is not None else UNREAD.strip(), width_of, widest)
            yield Column(text, width_of(text), piece.token)


def cut(text: str, width_of: Callable[[str], float], widest: float) -> str:
    """Returns a text that is no wider than `widest`; what is wider ends in an ellipsis."""
    if width_of(text) <= widest:
        return text
    # A URL may be thousands of letters long; a line holds a few hundred at most.
    kept = text[:500]
    while kept and width_of(kept + "\u2026") > widest:
        kept = kept[:-1]
    return kept + "\u2026"


def lines(wanted: Iterable[Column], width: float) -> Iterator[list[Column]]:
    """Yields columns in lines of at most `width`."""
    line: list[Column] = []
    used = 0.0
    for column in wanted:
        if line and used + column.width > width:
            yield line
            line, used = [], 0.0
        line.append(column)
        used += column.width
    if line:
        yield line
