"""Files of word vectors in GloVe or word2vec text format, plain, `.gz` or `.zip`, checked line by line.

Nothing heavy is imported here: the width of the vectors is part of checking the settings.
"""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from sentattn.errors import DataError, Fault, suggestion

if TYPE_CHECKING:
    from sentattn.data.cache import Progress

KEY = "data.vectors"
ARCHIVES = {
    "glove.6B": ("glove.6B.zip", (50, 100, 200, 300)),
    "glove.42B": ("glove.42B.300d.zip", (300,)),
    "glove.840B": ("glove.840B.300d.zip", (300,)),
    "glove.twitter.27B": ("glove.twitter.27B.zip", (25, 50, 100, 200)),
}
NAMES = {f"{series}.{width}d": (archive, width) for series, (archive, widths) in ARCHIVES.items() for width in widths}
"""Vectors that are downloaded by name: their archive and their width."""
GZIP, ZIP = (b"\x1f\x8b",), (b"PK\x03\x04", b"PK\x05\x06")
"""First bytes of such files."""
TEXT_ENDINGS = (".txt", ".vec")
BUFFER = 1 << 20
LONGEST_LINE = 1 << 20
"""Bytes; a file with a longer line is not text and must not be read into memory."""
LEAST_WIDTH = 3
"""`torchtext` takes lines with fewer numbers for a header."""
LARGEST = 3.4028234e38
"""Largest float32."""
USUAL_NUMBER = rb"-?+\d{1,9}+(?:\.\d++)?+(?:e(?:-\d++|\+?0?\d))?+"
"""A float32 in its usual notation, matched fast; other numbers are parsed one by one."""
PROGRESS_LINES = 10_000
MOST_SHOWN = 8
UNPACK_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
ZIP_ERRORS = (*UNPACK_ERRORS, RuntimeError)
"""`zipfile` raises RuntimeError for a password, and its subclass for an unknown method or version."""
NOT_TEXT = (
    "is not UTF-8 text; convert a binary word2vec file (.bin) with gensim: "
    "KeyedVectors.load_word2vec_format(FILE, binary=True).save_word2vec_format(OTHER_FILE)."
)


class Shape(NamedTuple):
    """The layout of a file of vectors.

    Attributes:
        width: Numbers per word.
        words: Number of words in the header (word2vec), or None without a header (GloVe).
    """

    width: int
    words: int | None


class Line(NamedTuple):
    """A word and its numbers as written in the file."""

    word: str
    numbers: list[bytes]


def width(vectors: str) -> int:
    """Returns the width of the vectors `data.vectors`, by its name or from the first lines of the file.

    Raises:
        DataError: If there is no such file, or it contains no vectors.
    """
    return NAMES[vectors][1] if vectors in NAMES else VectorFile.named(vectors).shape().width


@dataclass(frozen=True)
class VectorFile:
    """A file of vectors.

    Attributes:
        path: The file, which may be a zip.
        member: The member of the zip, or None.
    """

    path: Path
    member: str | None = None

    @classmethod
    def named(cls, vectors: str) -> VectorFile:
        """Finds a local file; a member of a zip may be addressed as if the zip were a folder.

        Raises:
            DataError: If there is none.
        """
        path = Path(vectors).expanduser()
        if path.is_file():
            return cls(path, _only_member(path) if _starts_with(path, ZIP) else None)
        for parent in path.parents:
            if parent.is_file() and _starts_with(parent, ZIP):
                return cls(parent, _member(parent, path.relative_to(parent).as_posix()))
        if path.is_dir():
            names = sorted(entry.name for entry in os.scandir(path) if entry.is_file())
            listing = f" It contains {', '.join(names[:MOST_SHOWN])}." if names else ""
            raise _error("not_found", f"data.vectors={vectors} is a folder; name a file in it.{listing}")
        close = suggestion(path.name, os.listdir(path.parent)) if path.parent.is_dir() else ""
        close = close or suggestion(vectors, NAMES) or f" The names are {', '.join(NAMES)}."
        raise _error("not_found", f"data.vectors={vectors} is neither a file nor the name of known vectors.{close}")

    def __str__(self) -> str:
        return str(self.path / self.member if self.member else self.path)

    @property
    def identity(self) -> tuple[str, str | None, int, int]:
        """File name, member, size in bytes and modification time in nanoseconds."""
        stat = self.path.stat()
        return self.path.name, self.member, stat.st_size, stat.st_mtime_ns

    def shape(self) -> Shape:
        """Reads the first lines.

        Raises:
            DataError: If they cannot be read or are no vectors.
        """
        with self._open() as stream:
            return read_shape(stream, str(self))

    def lines(self, wanted: Collection[str], progress: Progress) -> Iterator[Line]:
        """Yields the lines of the wanted words; see `read_lines`.

        Raises:
            DataError: If the file cannot be read to its end, or a line is invalid.
        """
        shape = self.shape()
        with self._open() as stream:
            yield from read_lines(stream, str(self), shape, wanted, progress)

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        """Opens the text without unpacking it on disk; an unpacking error in the block becomes a DataError."""
        try:
            if self.member is not None:
                with _zip(self.path) as archive:
                    try:
                        member = archive.open(self.member)
                    except ZIP_ERRORS as error:
                        raise _unreadable(self.path, error) from error
                    with member:
                        yield io.BufferedReader(member, BUFFER)  # type: ignore[type-var]
            elif _starts_with(self.path, GZIP):
                with gzip.open(self.path) as unpacked:
                    yield io.BufferedReader(unpacked, BUFFER)
            else:
                with self.path.open("rb", BUFFER) as plain:
                    yield plain
        except BrokenPipeError:  # of the progress callback
            raise
        except UNPACK_ERRORS as error:
            raise _unreadable(self.path, error) from error


def read_shape(stream: BinaryIO, name: str) -> Shape:
    """Reads the first lines of a file.

    Args:
        stream: The file, at its start.
        name: The name of the file, for messages.

    Raises:
        DataError: If they are no vectors.
    """
    first, second = _first_line(stream), stream.readline(LONGEST_LINE)
    if not first.strip():
        problem = "starts with an empty line" if first else "is empty"
        raise _error("damaged", f"{name} {problem}; it must contain vectors as text.")
    fields = first.split()
    has_header = len(fields) == 2 and all(field.isdigit() for field in fields)
    for line in (first, second if has_header else b""):  # a binary file has a first line of text
        if len(line) == LONGEST_LINE and b"\0" not in line:
            raise _error("damaged", f"{name} starts with a line without an end; vectors have one line per word.")
        if b"\0" in line or not _is_utf8(line):
            raise _error("unsupported", f"{name} {NOT_TEXT}")
    width = int(fields[1]) if has_header else _trailing_numbers(fields)
    if not width:
        raise _error(
            "damaged", f"{name}, line 1: {_shown(first)} is not a word followed by numbers, separated by spaces."
        )
    if width < LEAST_WIDTH:
        raise _error(
            "damaged", f"{name}, line 1: {width} numbers per word are too few; vectors have at least {LEAST_WIDTH}."
        )
    if not has_header:
        return Shape(width, None)
    actual = _trailing_numbers(second.split())
    if actual != width:
        raise _error(
            "damaged",
            f"{name}: the header says {width} numbers per word, but line 2 has {actual}; the file is damaged or not a "
            "file of vectors.",
        )
    return Shape(width, int(fields[0]))


def read_lines(
    stream: BinaryIO, name: str, shape: Shape, wanted: Collection[str], progress: Progress
) -> Iterator[Line]:
    """Yields the lines of the wanted words in file order, with one line in memory at a time.

    Every line is checked. Words may contain spaces: the last numbers of a line are the vector.

    Args:
        stream: The file, at its start.
        name: The name of the file, for messages.
        shape: The result of `read_shape`.
        wanted: The wanted words.
        progress: Called from time to time with the number of lines read.

    Raises:
        DataError: With the number of the invalid line.
    """
    usual = re.compile(rb"([^ ]*+) (%b(?: %b){%d})\s*+" % (USUAL_NUMBER, USUAL_NUMBER, shape.width - 1))
    number, words = 0, 0
    line = _first_line(stream)
    while line:
        number += 1
        if number % PROGRESS_LINES == 0:
            progress("Reading vectors", number, shape.words)
        if not line.isspace() and (number > 1 or shape.words is None):
            words += 1
            try:
                word, numbers = match.group(1, 2) if (match := usual.fullmatch(line)) else _split(line, shape.width)
                text = word.decode()
            except UnicodeDecodeError as error:
                raise _error("damaged", f"{name}, line {number:,}: the word {word!r} is not UTF-8.") from error
            except ValueError as error:
                raise _error("damaged", f"{name}, line {number:,}: {error}.") from error
            if text in wanted:
                yield Line(text, numbers.split())
        line = stream.readline(LONGEST_LINE)
    if shape.words not in (None, words):
        raise _error(
            "damaged",
            f"{name}: the header says {shape.words:,} words, but there are {words:,}; the file may be cut off.",
        )


def _split(line: bytes, width: int) -> tuple[bytes, bytes]:
    """Splits a line at white space into a word, which may contain some, and its numbers.

    Raises:
        ValueError: With what is wrong with the line.
    """
    fields = line.split()
    numbers = _trailing_numbers(fields)
    if numbers < width < len(fields):
        invalid = next(field for field in reversed(fields) if not _is_number(field))
        raise ValueError(f"{_shown(invalid)} is not a finite number")
    if numbers != width:
        raise ValueError(f"it has {len(fields) - 1 if numbers < width else numbers} numbers instead of {width}")
    return b" ".join(fields[:-width]), b" ".join(fields[-width:])


def _trailing_numbers(fields: list[bytes]) -> int:
    """Returns the number of numbers at the end of a line; the first field is always a word."""
    return len(list(takewhile(_is_number, reversed(fields[1:]))))


def _is_number(field: bytes) -> bool:
    try:
        return abs(float(field)) <= LARGEST and b"_" not in field  # False for NaN
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


def _zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except ZIP_ERRORS as error:
        raise _unreadable(path, error) from error


def _only_member(path: Path) -> str:
    """Returns the only file of a zip, or its only text, or the text named like the zip."""
    with _zip(path) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
    files = [name for name in names if not name.startswith("__MACOSX/")]
    texts = [name for name in files if name.endswith(TEXT_ENDINGS)]
    same_name = [name for name in texts if PurePosixPath(name).stem == path.stem]
    for candidates in (files, texts, same_name):
        if len(candidates) == 1:
            return candidates[0]
    if not files:
        raise _error("missing", f"data.vectors={path} contains no file.")
    raise _error(
        "conflict",
        f"data.vectors={path} contains several files ({', '.join((texts or files)[:MOST_SHOWN])}): name one, such as "
        f"data.vectors={path / (texts or files)[0]}.",
    )


def _member(path: Path, name: str) -> str:
    with _zip(path) as archive:
        names = archive.namelist()
    if name not in names:
        close = suggestion(name, names)
        raise _error("not_found", f"{path} has no {name}.{close} It contains {', '.join(names[:MOST_SHOWN])}.")
    return name


def _starts_with(path: Path, starts: tuple[bytes, ...]) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4).startswith(starts)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0].rstrip(".")
    return _error("unreadable", f"data.vectors={path} cannot be read to its end ({reason}); it may be damaged.")


def _error(kind: str, message: str) -> DataError:
    return DataError(Fault(KEY, kind, message))
