"""Vectors as text: a word a line and its numbers behind it, as GloVe and word2vec write them; checked line by line."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Iterator
from itertools import takewhile
from typing import BinaryIO, NamedTuple

from sentattn.errors import DataError

LONGEST_LINE = 1 << 20
"""Bytes; what goes on longer without an end is no text, and is not to be read into memory."""
LEAST_WIDTH = 3
"""`torchtext` takes lines of fewer numbers for a header."""
LARGEST = 3.4028234e38
"""Of float32."""
USUAL_NUMBER = rb"-?+\d{1,9}+(?:\.\d++)?+(?:e(?:-\d++|\+?0?\d))?+"
"""A number of float32 as it is usually written: quick to recognise. All others are looked at by themselves."""
TELL_EVERY = 10_000
NOT_TEXT = (
    "is not text in UTF-8; a binary word2vec file (.bin) is made text by gensim: "
    "KeyedVectors.load_word2vec_format(FILE, binary=True).save_word2vec_format(OTHER_FILE)."
)


class Shape(NamedTuple):
    """What the beginning of a file says.

    Attributes:
        width: Numbers of a word.
        words: Number of words that the first line announces (word2vec), or None where it is a word already (GloVe).
    """

    width: int
    words: int | None


class Line(NamedTuple):
    """A word and its numbers as they are written."""

    word: str
    numbers: list[bytes]


def read_shape(stream: BinaryIO, where: str) -> Shape:
    """Reads the beginning of a file.

    Args:
        stream: The file, at its start.
        where: The file's name, for errors.

    Raises:
        DataError: If it holds no vectors.
    """
    first, second = _first_line(stream), stream.readline(LONGEST_LINE)
    if not first.strip():
        raise DataError(
            f"{where} {'begins with an empty line' if first else 'is empty'}; it must hold vectors as text."
        )
    fields = first.split()
    announces = len(fields) == 2 and all(field.isdigit() for field in fields)
    for line in (first, second if announces else b""):  # a binary file has a first line of text
        if len(line) == LONGEST_LINE and b"\0" not in line:
            raise DataError(f"{where} begins with a line without an end; vectors have a line for each word.")
        if b"\0" in line or not _is_utf8(line):
            raise DataError(f"{where} {NOT_TEXT}")
    width = int(fields[1]) if announces else _trailing_numbers(fields)
    if not width:
        raise DataError(f"{where}, line 1: {_shown(first)} is no word with numbers behind it, parted by spaces.")
    if width < LEAST_WIDTH:
        raise DataError(f"{where}, line 1: fewer than {LEAST_WIDTH} numbers a word ({width}) are hardly vectors.")
    if not announces:
        return Shape(width, None)
    found = _trailing_numbers(second.split())
    if found != width:
        raise DataError(
            f"{where}: its first line announces {width} numbers a word, but its second line has {found}; "
            "it is damaged, or no file of vectors."
        )
    return Shape(width, int(fields[0]))


def read_lines(
    stream: BinaryIO, where: str, shape: Shape, wanted: Collection[str], tell: Callable[[int], None]
) -> Iterator[Line]:
    """Yields the lines of the words that are wanted, in the file's order, holding one line at a time.

    Every line is checked, wanted or not. Words may hold spaces: the last numbers of a line are the vector.

    Args:
        stream: The file, at its start.
        where: The file's name, for errors.
        shape: What `read_shape` found.
        wanted: The words that are wanted.
        tell: Is told from time to time how many lines have been read.

    Raises:
        DataError: With the number of the line at fault.
    """
    usual = re.compile(rb"([^ ]*+) (%b(?: %b){%d})\s*+" % (USUAL_NUMBER, USUAL_NUMBER, shape.width - 1))
    number, words = 0, 0
    line = _first_line(stream)
    while line:
        number += 1
        if number % TELL_EVERY == 0:
            tell(number)
        if not line.isspace() and (number > 1 or shape.words is None):
            words += 1
            try:
                word, numbers = match.group(1, 2) if (match := usual.fullmatch(line)) else _parted(line, shape.width)
                text = word.decode()
            except UnicodeDecodeError as error:
                raise DataError(f"{where}, line {number:,}: the word {word!r} is not UTF-8.") from error
            except ValueError as error:
                raise DataError(f"{where}, line {number:,}: {error}.") from error
            if text in wanted:
                yield Line(text, numbers.split())
        line = stream.readline(LONGEST_LINE)
    if shape.words not in (None, words):
        raise DataError(
            f"{where}: its first line announces {shape.words:,} words, but it holds {words:,}; it may be cut off."
        )


def _parted(line: bytes, width: int) -> tuple[bytes, bytes]:
    """Parts a line at white space into a word, which may hold some, and its numbers.

    Raises:
        ValueError: With what is wrong with the line.
    """
    fields = line.split()
    found = _trailing_numbers(fields)
    if found < width < len(fields):
        broken = next(field for field in reversed(fields) if not _is_number(field))
        raise ValueError(f"{_shown(broken)} is no finite number")
    if found != width:
        raise ValueError(f"it has {len(fields) - 1 if found < width else found} numbers instead of {width}")
    return b" ".join(fields[:-width]), b" ".join(fields[-width:])


def _trailing_numbers(fields: list[bytes]) -> int:
    """Returns how many numbers a line ends with; its first field is a word, whatever it looks like."""
    return len(list(takewhile(_is_number, reversed(fields[1:]))))


def _is_number(field: bytes) -> bool:
    try:
        return abs(float(field)) <= LARGEST and b"_" not in field  # NaN is not either
    except ValueError:
        return False


def _first_line(stream: BinaryIO) -> bytes:
    return stream.readline(LONGEST_LINE).removeprefix(codecs.BOM_UTF8)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(text: bytes) -> str:
    shown = text.decode(errors="replace").strip()
    return repr(shown if len(shown) <= 40 else f"{shown[:40]}...")
