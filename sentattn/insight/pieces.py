"""A text cut into its tokens and what stands between them, safe to show."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

UNREAD = " ... "
"""Stands for a stretch of the text that the model did not read."""

_LINE_BREAK = re.compile(r"\s*(?:<br\s*/?>\s*)+|\r\n?|[\u2028\u2029\x85]", re.IGNORECASE)
_WORD = re.compile(r"\w")
# They turn the writing direction of all that follows, the rest of the terminal's line included.
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Piece(NamedTuple):
    """A stretch of a text.

    Attributes:
        text: What to show.
        token: Index of the token, or None between tokens.
        unread: Whether it stands for words that the model did not read.
    """

    text: str
    token: int | None = None
    unread: bool = False


def pieces(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[Piece]:
    """Yields a text piece by piece: put together they are the text, as far as the model read it.

    HTML line breaks become line breaks; control characters become visible signs.

    Args:
        text: The text as it was given.
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
    broken = _LINE_BREAK.sub(_newlines, text)
    return Piece(UNREAD, unread=True) if _WORD.search(broken) else Piece(visible(broken))


def _newlines(match: re.Match[str]) -> str:
    return "\n" * min(2, max(1, match[0].lower().count("<br")))


def visible(text: str) -> str:
    """Returns a text without characters that steer a terminal or a browser: each becomes one visible sign."""
    return text if text.isprintable() else "".join(map(_visible_sign, text))


def _visible_sign(sign: str) -> str:
    if sign in "\n\t" or sign.isprintable():
        return sign
    if sign < " ":
        return chr(0x2400 + ord(sign))
    if sign == "\x7f":
        return "\u2421"
    return "\ufffd" if sign in _DIRECTIONS or unicodedata.category(sign) in ("Cc", "Cs") else sign
