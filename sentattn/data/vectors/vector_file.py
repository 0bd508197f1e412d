"""Files of word vectors in GloVe or word2vec text format, plain, `.gz` or `.zip`, read line by line.

Imports no torch, because the width of the vectors is checked with the settings.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import zipfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

from sentattn.config.schema import TRAIN
from sentattn.data.cache import Progress, sample
from sentattn.data.readers.archives import container, neighbour, open_file, reading
from sentattn.data.vectors import torchtext_cache
from sentattn.errors import DataError, Fault, suggestion

KEY = "data.vectors"
ARCHIVES = {
    "glove.6B": ("glove.6B.zip", (50, 100, 200, 300)),
    "glove.42B": ("glove.42B.300d.zip", (300,)),
    "glove.840B": ("glove.840B.300d.zip", (300,)),
    "glove.twitter.27B": ("glove.twitter.27B.zip", (25, 50, 100, 200)),
}
NAMES = {f"{series}.{width}d": (archive, width) for series, (archive, widths) in ARCHIVES.items() for width in widths}
"""Archive and width of the vectors that can be downloaded by name."""
TEXT_ENDINGS = (".txt", ".vec")
MAX_LINE_BYTES = 1 << 20
"""A file with a longer line is no text."""
MIN_WIDTH = 3
"""A line with fewer numbers may be a header."""
MAX_FLOAT32 = 3.4028234e38
PROGRESS_LINES = 10_000
MOST_SHOWN = 8
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
    """Returns the width of the vectors that `data.vectors` names, from their name or the first lines of the file.

    Raises:
        DataError: If there is no such file, or it contains no vectors.
    """
    if path := torchtext_cache.cache_file(vectors):
        return torchtext_cache.read_cache(path)[1].shape[1]
    return NAMES[vectors][1] if vectors in NAMES else VectorFile.named(vectors).shape().width


@dataclass(frozen=True)
class VectorFile:
    """A file of vectors, or the member of a zip."""

    path: Path
    member: str = ""

    @classmethod
    def named(cls, vectors: str) -> VectorFile:
        """Finds a local file; the path of a member of a zip begins with the path of the zip.

        Raises:
            DataError: If there is no such file.
        """
        path = Path(vectors).expanduser()
        file = next((place for place in (path, *path.parents) if place.is_file()), None)
        if file is not None:
            with reading(file, KEY):
                if container(file) == "zip":
                    return cls(file, _member(file, path.relative_to(file).as_posix()))
            if file == path:
                return cls(path)
        if path.is_dir():
            names = sorted(entry.name for entry in os.scandir(path) if entry.is_file())
            message = f"data.vectors={vectors} is a folder; name a file in it, such as {_listed(names)}."
            raise DataError(Fault(KEY, "not_found", message))
        close = neighbour(path) or suggestion(vectors, [TRAIN, *NAMES]) or f" The names are {', '.join(NAMES)}."
        message = f"data.vectors={vectors} is neither {TRAIN}, a file nor the name of known vectors.{close}"
        raise DataError(Fault(KEY, "not_found", message))

    def __str__(self) -> str:
        return str(self.path / self.member)

    @property
    def identity(self) -> tuple[str, str | None, int, int, str]:
        """File name, member, size in bytes, modification time in nanoseconds, and a hash of both ends."""
        with reading(self.path, KEY):
            size, time, ends = sample(self.path)
        return self.path.name, self.member or None, size, time, hashlib.sha256(ends).hexdigest()

    def shape(self) -> Shape:
        """Reads the first lines, as `read_shape` does."""
        with open_file(self.path, self.member, KEY) as stream:
            return read_shape(stream, str(self))

    def lines(self, wanted: Collection[str], progress: Progress) -> Iterator[Line]:
        """Yields the lines of the wanted words, as `read_lines` does."""
        shape = self.shape()
        with open_file(self.path, self.member, KEY) as stream:
            yield from read_lines(stream, str(self), shape, wanted, progress)


def _member(archive: Path, name: str) -> str:
    """Returns the member `name` of a zip, or for "." its only file, only text, or text with the name of the zip."""
    with zipfile.ZipFile(archive) as opened:
        names = [info.filename for info in opened.infolist() if not info.is_dir()]
    files = [member for member in names if not member.startswith("__MACOSX/")]
    texts = [member for member in files if member.endswith(TEXT_ENDINGS)]
    namesakes = [member for member in texts if PurePosixPath(member).stem == archive.stem]
    for candidates in (files, texts, namesakes) if name == "." else ([name] if name in names else [],):
        if len(candidates) == 1:
            return candidates[0]
    message = (
        f"data.vectors={archive / name} is no single file; name a file in the archive, such as data.vectors="
        f"{archive / (texts or files or ['FILE'])[0]}.{suggestion(name, files)} It contains {_listed(texts or files)}."
    )
    raise DataError(Fault(KEY, "not_found", message))


def _listed(names: list[str]) -> str:
    return ", ".join(names[:MOST_SHOWN]) or "no file"


def read_shape(stream: BinaryIO, name: str) -> Shape:
    """Reads the layout of a file from its first lines; messages call it `name`.

    Raises:
        DataError: If they are no vectors.
    """
    first, second = (stream.readline(MAX_LINE_BYTES).removeprefix(codecs.BOM_UTF8) for _ in range(2))
    if any(b"\0" in line or (_has_bad_word(line) and _trailing_numbers(line.split()) < 1) for line in (first, second)):
        raise DataError(Fault(KEY, "unsupported", f"{name} {NOT_TEXT}"))
    fields = first.split()
    is_header = len(fields) == 2 and all(field.isdigit() for field in fields)
    shape = Shape(int(fields[1]), int(fields[0])) if is_header else Shape(_trailing_numbers(fields), None)
    if shape.width < MIN_WIDTH or (is_header and _trailing_numbers(second.split()) != shape.width):
        message = (
            f"{name} must begin with a word and at least {MIN_WIDTH} numbers, separated by spaces, optionally after a "
            f"line WORDS NUMBERS with the number of words and the width, got {_shown(first + second)}."
        )
        raise DataError(Fault(KEY, "damaged", message))
    return shape


def _has_bad_word(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return True
    return False


def read_lines(
    stream: BinaryIO, name: str, shape: Shape, wanted: Collection[str], progress: Progress
) -> Iterator[Line]:
    """Yields the lines of the wanted words in file order, with one line in memory at a time.

    Words may contain spaces: the vector is the last numbers of a line. Lines of other words are checked for their
    number of fields only. If a word is empty or not UTF-8, an empty `Line` is yielded.

    Raises:
        DataError: With the number of the invalid line.
    """
    words = 0
    for number, line in enumerate(iter(partial(stream.readline, MAX_LINE_BYTES), b""), start=1):
        if number % PROGRESS_LINES == 0:
            progress("Reading vectors", number, shape.words)
        fields = line.removeprefix(codecs.BOM_UTF8).split()
        if not fields or (number == 1 and shape.words is not None):
            continue
        words += 1
        try:
            word = b" ".join(fields[: -shape.width]).decode()
        except UnicodeDecodeError:
            word = ""
        is_wanted = word in wanted
        has_space = len(fields) != shape.width + 1  # in the word, which is rare
        if word:
            is_vector = not (has_space or is_wanted) or _trailing_numbers(fields) == shape.width
        else:
            is_vector = len(fields) >= shape.width and all(map(_is_number, fields[-shape.width :]))
        if not is_vector:
            message = f"{name}, line {number:,}: must be a word and {shape.width} finite numbers, got {_shown(line)}."
            raise DataError(Fault(KEY, "damaged", message))
        if not word:
            yield Line("", [])
        elif is_wanted:
            yield Line(word, fields[-shape.width :])
    if shape.words not in (None, words):
        message = f"{name} must hold {shape.words:,} words by its header, got {words:,}; it may be truncated."
        raise DataError(Fault(KEY, "damaged", message))


def _trailing_numbers(fields: list[bytes]) -> int:
    """Returns how many fields at the end of a line are numbers; the first field is the word."""
    return len(list(takewhile(_is_number, reversed(fields[1:]))))


def _is_number(field: bytes) -> bool:
    try:
        return abs(float(field)) <= MAX_FLOAT32 and b"_" not in field  # False for NaN
    except ValueError:
        return False


def _shown(text: bytes) -> str:
    line = text.decode(errors="replace").strip()
    return repr(line if len(line) <= 40 else f"{line[:40]}...")
