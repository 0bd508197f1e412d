"""Lines of vectors: what is taken for one, and which line is at fault."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentattn.data.vectors.text import LONGEST_LINE, Line, Shape, read_lines, read_shape
from sentattn.errors import DataError

GLOVE = b"the 0.1 0.2 -0.3\ncat 1 2 3e-2\n, 4 5 6\n"
WORD2VEC = b"3 3\nthe 0.1 0.2 -0.3 \ncat 1 2 3e-2 \n, 4 5 6 \n"
LINES = [
    Line("the", [b"0.1", b"0.2", b"-0.3"]),
    Line("cat", [b"1", b"2", b"3e-2"]),
    Line(",", [b"4", b"5", b"6"]),
]


def read(text: bytes, *wanted: str) -> list[Line]:
    shape = read_shape(io.BytesIO(text), "v.txt")
    return list(read_lines(io.BytesIO(text), "v.txt", shape, set(wanted), lambda number: None))


def test_the_beginning_tells_the_format() -> None:
    assert read_shape(io.BytesIO(GLOVE), "v.txt") == Shape(width=3, words=None)
    assert read_shape(io.BytesIO(WORD2VEC), "v.txt") == Shape(width=3, words=3)
    assert read_shape(io.BytesIO(b"5 1 2 3 4\n"), "v.txt") == Shape(width=4, words=None)
    assert read_shape(io.BytesIO(b". . . 1 2 3 4\n"), "v.txt") == Shape(width=4, words=None)


@pytest.mark.parametrize("text", [GLOVE, WORD2VEC])
@pytest.mark.parametrize(
    "written",
    [
        lambda text: text,
        lambda text: text.rstrip(),
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text + b"\n\n",
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.replace(b" ", b"\t"),
        lambda text: text.replace(b"cat ", b"cat  "),
    ],
)
def test_both_formats_however_they_are_written(text: bytes, written) -> None:
    assert read(written(text), "the", "cat", ",") == LINES
    assert read(written(text), "cat", "dog") == LINES[1:2]


def test_words_may_hold_spaces_and_look_like_numbers() -> None:
    text = GLOVE + b". . . 7 8 9\nat name@domain.com 1 1 1\n3.5 2 2 2\n"
    assert read(text, "at name@domain.com", "3.5") == [
        Line("at name@domain.com", [b"1"] * 3),
        Line("3.5", [b"2"] * 3),
    ]


@pytest.mark.parametrize("start", [GLOVE, b"4 3\n" + GLOVE])
@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"dog 1 2", "it has 2 numbers instead of 3"),
        (b"dog", "it has 0 numbers instead of 3"),
        (b"dog 1  2", "it has 2 numbers instead of 3"),
        (b"dog 1 2 3 4", "it has 4 numbers instead of 3"),
        (b"dog 1 2x 3", "'2x' is no finite number"),
        (b"dog 1 2 nan", "'nan' is no finite number"),
        (b"dog -inf 2 3", "'-inf' is no finite number"),
        (b"dog 1 2_0 3", "'2_0' is no finite number"),
        (b"dog 1 1.2.3 3", r"'1\.2\.3' is no finite number"),
        (b"dog 1 1e39 3", "'1e39' is no finite number"),
        (b"d\xf6g 1 2 3", r"the word b'd\\xf6g' is not UTF-8"),
    ],
)
def test_the_line_at_fault_is_named(start: bytes, line: bytes, told: str) -> None:
    number = start.count(b"\n") + 1
    with pytest.raises(DataError, match=rf"^v\.txt, line {number}: {told}\.$"):
        read(start + line + b"\n", "dog")


@pytest.mark.parametrize("line", [b"dog 1 2", b"dog 1 2 3 4", b"dog 1 2x 3", b"dog 1 1e39 3", b"d\xf6g 1 2 3"])
def test_lines_of_other_words_are_checked_too(line: bytes) -> None:
    with pytest.raises(DataError, match=r"v\.txt, line 4: "):
        read(GLOVE + line + b"\n", "the")


@settings(max_examples=300)
@given(st.from_regex(r"[-+]?[0-9]{0,12}\.?[0-9]{0,3}([eE][-+]?[0-9]{0,3})?_?", fullmatch=True).filter(bool))
def test_what_is_a_number_of_float32(field: str) -> None:
    try:
        with np.errstate(over="ignore"):
            legal = bool(np.isfinite(np.float32(float(field)))) and "_" not in field
    except ValueError:
        legal = False
    text = GLOVE + f"dog 1 {field} 3\n".encode()
    if legal:
        assert read(text, "dog") == [Line("dog", [b"1", field.encode(), b"3"])]
    else:
        with pytest.raises(DataError, match=r"line 4: .* is no finite number"):
            read(text, "the")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "v.txt is empty; it must hold vectors as text."),
        (b"\n" + GLOVE, "v.txt begins with an empty line"),
        (b"the cat sat\n", "v.txt, line 1: 'the cat sat' is no word with numbers"),
        (b'{"stars": 4.0, "text": "' + b"so good " * 20 + b'"}\n', "is no word with numbers"),
        (b"the 0.5\ncat 0.25\n", "v.txt, line 1: fewer than 3 numbers a word (1)"),
        (b"the 0.5 0.5\n", "fewer than 3 numbers a word (2)"),
        (b"2 1\nthe 1\ncat 2\n", "fewer than 3 numbers a word (1)"),
        (b"3 4\n" + GLOVE, "its first line announces 4 numbers a word, but its second line has 3"),
        (b"3 3\n", "its first line announces 3 numbers a word, but its second line has 0"),
        (b"2 3\n" + GLOVE, "its first line announces 2 words, but it holds 3"),
        (b"400000 3\n" + GLOVE, "its first line announces 400,000 words, but it holds 3; it may be cut off."),
        (b"2 3\nthe \xcd\xcc\xcc\x3d\xcd\xcc\x4c\xbe\x9a\x99\x99\x3e", "word2vec file (.bin) is made text by gensim"),
        (b"2 3\nthe \0\0\0\0\0\0\0\0\0\0\0\0\ncat ", "word2vec file (.bin) is made text by gensim"),
        (b"\xba\x16O/\x0c\0\0\0", "is not text in UTF-8"),
        ("the 0.1 0.2 0.3\n".encode("utf-16"), "is not text in UTF-8"),
        (b"x" * (2 * LONGEST_LINE), "v.txt begins with a line without an end"),
    ],
)
def test_what_is_no_file_of_vectors(text: bytes, told: str) -> None:
    with pytest.raises(DataError) as caught:
        read(text, "the")
    (sentence,) = caught.value.messages
    assert told in sentence


class Endless(io.RawIOBase):
    """So many lines of vectors, none of which is held."""

    def __init__(self, lines: int) -> None:
        self._lines: Iterator[bytes] = (b"w%d " % i + b" ".join([b"0.25"] * 50) + b"\n" for i in range(lines))
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:
        self._rest = self._rest or next(self._lines, b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def test_memory_does_not_grow_with_the_file() -> None:
    def peak(lines: int) -> int:
        stream = io.BufferedReader(Endless(lines))
        tracemalloc.start()
        found = list(read_lines(stream, "v.txt", Shape(50, None), {"w1", "w7"}, lambda number: None))
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert [line.word for line in found] == ["w1", "w7"]
        return used

    assert peak(20_000) < peak(200) + 20_000


def test_how_far_it_is_is_told() -> None:
    told: list[int] = []
    stream = io.BufferedReader(Endless(25_000))
    assert not list(read_lines(stream, "v.txt", Shape(50, None), set(), told.append))
    assert told == [10_000, 20_000]
