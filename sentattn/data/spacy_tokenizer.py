"""spaCy's English tokenizer, which the Gluon tutorial uses: text to word spans."""

from __future__ import annotations

import functools
import re
from importlib import metadata
from typing import TYPE_CHECKING

from sentattn.errors import Fault, SettingError

if TYPE_CHECKING:
    from spacy.tokenizer import Tokenizer

Span = tuple[int, int]

LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def spans(text: str) -> list[Span]:
    """Returns the start and end of each word of a text, in characters.

    HTML line breaks count as white space, and spaCy's white space tokens are dropped.

    Raises:
        SettingError: If spaCy is not installed.
    """
    blanked = LINE_BREAK.sub(lambda match: " " * len(match[0]), text)
    words = (token for token in english()(blanked) if not token.is_space)
    return [(token.idx, token.idx + len(token)) for token in words]


def version() -> str:
    """Returns the version of spaCy, whose rules change with it.

    Raises:
        SettingError: If spaCy is not installed.
    """
    try:
        return metadata.version("spacy")
    except metadata.PackageNotFoundError as error:
        message = 'data.tokenizer=spacy needs spaCy: type pip install "sentattn[spacy]", or use data.tokenizer=words.'
        raise SettingError(Fault("data.tokenizer", "package", message)) from error


@functools.cache
def english() -> Tokenizer:
    """Returns spaCy's rules for English; they need no trained model.

    Raises:
        SettingError: If spaCy is not installed.
    """
    version()
    import spacy

    return spacy.blank("en").tokenizer


def joined(text: str, words: list[Span]) -> str:
    """Returns the words at some spans of a text, one a line."""
    return "\n".join(text[start:end] for start, end in words)
