"""Files of vectors: found by name, opened in every format, read line by line, refused in one message."""

from __future__ import annotations

import gzip
import io
import os
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import assert_refused, fault_of, refused

from sentattn.data.cache import no_progress
from sentattn.data.readers.download import REGISTRY
from sentattn.data.word_vectors import MAX_LINE_BYTES, VECTOR_NAMES, VectorFile, width

GLOVE = b"the 0.1 0.2 -0.3\ncat 1 2 3e-2\n, 4 5 6\n"
WORD2VEC = b"3 3\nthe 0.1 0.2 -0.3 \ncat 1 2 3e-2 \n, 4 5 6 \n"
LINES = [("the", [b"0.1", b"0.2", b"-0.3"]), ("cat", [b"1", b"2", b"3e-2"]), (",", [b"4", b"5", b"6"])]


def vector_file(stream: Callable[[], io.BufferedIOBase]) -> VectorFile:
    """Returns a file whose content is a stream."""

    class InMemory(VectorFile):
        @contextmanager
        def open(self) -> Iterator[Any]:
            yield stream()

    return InMemory(Path("v.txt"))


def read(text: bytes, *wanted: str) -> list[tuple[str, list[bytes]]]:
    return list(vector_file(lambda: io.BytesIO(text)).lines(set(wanted), no_progress))


@pytest.mark.parametrize(("text", "numbers"), [(GLOVE, 3), (WORD2VEC, 3), (b"5 1 2 3 4\n", 4), (b". . . 1 2 3 4\n", 4)])
def test_the_width_is_read_from_the_first_lines(text: bytes, numbers: int, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(text)
    assert width(str(tmp_path / "v.txt")) == numbers


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
def test_variants_of_both_formats(text: bytes, written) -> None:
    assert read(written(text), "the", "cat", ",") == LINES
    assert read(written(text), "cat", "dog") == LINES[1:2]


def test_words_may_have_spaces_and_look_like_numbers() -> None:
    text = GLOVE + b". . . 7 8 9\nat name@domain.com 1 1 1\n3.5 2 2 2\n"
    assert read(text, "at name@domain.com", "3.5") == [("at name@domain.com", [b"1"] * 3), ("3.5", [b"2"] * 3)]


@pytest.mark.parametrize("start", [GLOVE, b"4 3\n" + GLOVE])
@pytest.mark.parametrize(
    "line",
    [
        b"dog 1 2",
        b"dog",
        b"dog 1  2",
        b"dog 0.1 2 3 4",
        b"dog 1 2x 3",
        b"dog 1 2 nan",
        b"dog -inf 2 3",
        b"d\xf6g 1 2",
        b"1 2",
    ],
)
def test_an_invalid_line_is_reported(start: bytes, line: bytes) -> None:
    place = f"v.txt, line {start.count(10) + 1}: "
    assert_refused(lambda: read(start + line + b"\n", "dog"), "data.vectors", "damaged", place)


@pytest.mark.parametrize("line", [b"d\xf6g 1 2 3", b" 1 2 3", b"\xff \xfe 1 2 3", b"\t1\t2\t3"])
@pytest.mark.parametrize("start", [GLOVE, b"4 3\n" + GLOVE])
def test_a_vector_without_a_readable_word_is_skipped(start: bytes, line: bytes) -> None:
    assert read(start + line + b"\n", "the", "cat", ",") == LINES


@pytest.mark.parametrize("word", [b"the", b"cat"])
def test_a_word_of_the_first_lines_may_be_unreadable(word: bytes) -> None:
    others = [line for line in LINES if line[0].encode() != word]
    assert read(GLOVE.replace(word, b"\xf6\xff"), "the", "cat", ",") == others


@pytest.mark.parametrize("line", [b"dog 1 2", b"dog 0.1 2 3 4"])
def test_lines_of_other_words_have_as_many_fields(line: bytes) -> None:
    assert fault_of(lambda: read(GLOVE + line + b"\n", "the")).message.startswith("v.txt, line 4: ")


@settings(max_examples=300)
@given(st.from_regex(r"[-+]?[0-9]{0,12}\.?[0-9]{0,3}([eE][-+]?[0-9]{0,3})?_?", fullmatch=True).filter(bool))
def test_numbers_of_float32(field: str) -> None:
    try:
        with np.errstate(over="ignore"):
            legal = bool(np.isfinite(np.float32(float(field)))) and "_" not in field
    except ValueError:
        legal = False
    text = GLOVE + f"dog 1 {field} 3\n".encode()
    if legal:
        assert read(text, "dog") == [("dog", [b"1", field.encode(), b"3"])]
    else:
        assert fault_of(lambda: read(text, "dog")).message.startswith("v.txt, line 4: ")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"the cat sat\n",
        b'{"stars": 4.0, "text": "' + b"so good " * 20 + b'"}\n',
        b"the 0.5\ncat 0.25\n",
        b"the 0.5 0.5\n",
        b"2 1\nthe 1\ncat 2\n",
        b"3 4\n" + GLOVE,
        b"3 3\n",
        b"2 3\n" + GLOVE,
        b"400000 3\n" + GLOVE,
        b"2 3\nthe \xcd\xcc\xcc\x3d\xcd\xcc\x4c\xbe\x9a\x99\x99\x3e",
        b"2 3\nthe \0\0\0\0\0\0\0\0\0\0\0\0\ncat ",
        b"\xba\x16O/\x0c\0\0\0",
        b"\x93NUMPY" + bytes(100),
        "the 0.1 0.2 0.3\n".encode("utf-16"),
        b"x" * (2 * MAX_LINE_BYTES),
    ],
)
def test_a_file_without_vectors_is_refused(text: bytes) -> None:
    assert refused(lambda: read(text, "the")) == [("data.vectors", "damaged")]


def many(lines: int) -> VectorFile:
    text = b"".join(b"w%d " % i + b" ".join([b"0.25"] * 50) + b"\n" for i in range(lines))
    return vector_file(lambda: io.BytesIO(text))


def test_memory_does_not_grow_with_the_file() -> None:
    def peak(lines: int) -> int:
        file = many(lines)
        tracemalloc.start()
        found = list(file.lines({"w1", "w7"}, no_progress))
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert [line[0] for line in found] == ["w1", "w7"]
        return used

    assert peak(4_000) < peak(200) + 20_000


def test_progress_is_reported() -> None:
    calls: list[tuple[str, int, int | None]] = []
    assert not list(many(25_000).lines(set(), lambda *call: calls.append(call)))
    assert [number for _, number, _ in calls] == [10_000, 20_000]


@pytest.mark.parametrize(
    "first",
    [
        b"the 0.1 0.2 -0.3\nroute 66 0.4 0.5 0.6\n",
        b"route 66 0.4 0.5 0.6\nthe 0.1 0.2 -0.3\n",
        b"4 3\nthe 0.1 0.2 -0.3\nroute 66 0.4 0.5 0.6\n",
        b"4 3\nroute 66 0.4 0.5 0.6\nthe 0.1 0.2 -0.3\n",
    ],
)
def test_a_phrase_may_end_in_a_number(first: bytes) -> None:
    found = read(first + b"windows 95 0.7 0.8 0.9\ncat 0.1 0.2 0.3\n", "route 66", "windows 95", "cat")
    assert found == [
        ("route 66", [b"0.4", b"0.5", b"0.6"]),
        ("windows 95", [b"0.7", b"0.8", b"0.9"]),
        ("cat", [b"0.1", b"0.2", b"0.3"]),
    ]


def test_the_line_that_lacks_a_number_is_named() -> None:
    text = b"good nan 0.1 0.2 0.3\nbad 0.1 0.1 0.2 0.3\nfood 0.1 0.1 0.2 0.3\n"
    assert_refused(lambda: read(text, "good"), "data.vectors", "damaged", "line 1:")


TEXT = "the 0.1 0.2 0.3\ncat 1 2 3\n"


def words(vectors: str | Path) -> list[str]:
    wanted = {"the", "cat", "dog"}
    return [word for word, _ in VectorFile.named(str(vectors)).lines(wanted, no_progress)]


def zipped(path: Path, members: dict[str, str], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_named_vectors_are_in_archives_that_can_be_downloaded() -> None:
    assert {archive for archive, _ in VECTOR_NAMES.values()} <= set(REGISTRY)
    assert (width("glove.6B.300d"), width("glove.twitter.27B.25d")) == (300, 25)


def test_the_text_in_a_zip_is_found(tmp_path: Path) -> None:
    one = zipped(tmp_path / "one.zip", {"README.md": "Vectors.", "inner/v.txt": TEXT, "__MACOSX/inner/._v.txt": "x"})
    assert VectorFile.named(str(one)).member == "inner/v.txt"
    both = {"glove.6B.50d.txt": TEXT, "glove.6B.100d.txt": "dog 1 2 3 4"}
    several = zipped(tmp_path / "glove.6B.zip", both)
    assert words(several / "glove.6B.100d.txt") == ["dog"]
    assert_refused(lambda: words(several), "data.vectors", "not_found", "glove.6B.50d.txt")
    assert_refused(lambda: words(several / "glove.6B.10d.txt"), "data.vectors", "not_found", "Did you mean 'glove.6B.")
    assert_refused(lambda: words(zipped(tmp_path / "none.zip", {})), "data.vectors", "not_found", "none.zip")


def test_a_missing_file_suggests_the_closest_name(tmp_path: Path) -> None:
    (tmp_path / "reviews.vec").write_text(TEXT)
    for vectors, fragment in (
        (str(tmp_path / "review.vec"), "'reviews.vec'?"),
        ("glove6B.300d", "'glove.6B.300d'?"),
        ("fasttext", "glove.twitter.27B.200d"),
        (str(tmp_path), "the name of known vectors"),
    ):
        assert_refused(partial(width, vectors), "data.vectors", "not_found", fragment)


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    text = "".join(f"w{i} 0.{i} 0.{i * 7} 0.{i * 11}\n" for i in range(3000))
    whole = zipped(tmp_path / "v.zip", {"v.txt": text}).read_bytes()
    lzma = zipped(tmp_path / "lzma.zip", {"v.txt": text}, zipfile.ZIP_LZMA).read_bytes()
    for name, content in (
        ("v.txt.gz", gzip.compress(text.encode())[:-2000]),
        ("cut.zip", whole[:-200]),
        ("changed.zip", whole[:5000] + bytes(50) + whole[5050:]),
        ("lzma.zip", lzma[:100] + b"\xff" * 500 + lzma[600:]),
    ):
        (tmp_path / name).write_bytes(content)
        assert_refused(partial(words, tmp_path / name), "data.vectors", "damaged", name)


@pytest.mark.parametrize(("place", "value", "reason"), [(8, 1, "encrypted"), (10, 99, "compression")])
def test_an_archive_that_cannot_be_opened_is_refused(tmp_path: Path, place: int, value: int, reason: str) -> None:
    """Byte 8 of the central directory holds flags, byte 10 the method; the header at the start has both two earlier."""
    path = zipped(tmp_path / "v.zip", {"v.txt": TEXT})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + place] = value
    content[place - 2] = value
    path.write_bytes(content)
    assert_refused(lambda: words(path), "data.vectors", "damaged", str(path), reason)


@pytest.mark.parametrize("place", [0, -1])
def test_identity_depends_on_both_ends_of_a_file(place: int, tmp_path: Path) -> None:
    rows = [f"w{i:05} 1 2 3\n" for i in range(20_000)]
    others = [*rows]
    others[place] = others[place].replace("1 2 3", "9 9 9")
    files = [tmp_path / folder / "v.txt" for folder in ("a", "b")]
    for file, lines in zip(files, (rows, others), strict=True):
        file.parent.mkdir()
        file.write_text("".join(lines))
        os.utime(file, ns=(5, 5))
    one, other = (VectorFile.named(str(file)).identity for file in files)
    assert VectorFile(files[0], "a.txt").identity[1] != VectorFile(files[0], "b.txt").identity[1]
    assert one[:4] == other[:4]
    assert one != other
