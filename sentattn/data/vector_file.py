"""Files of word vectors: GloVe or word2vec text, plain, `.gz` or `.zip`, read line by line, and torchtext's caches.

Imports no torch, because the width of the vectors is checked with the settings. torchtext is not imported either.
"""

from __future__ import annotations

import codecs
import hashlib
import pickle
import re
import reprlib
import zipfile
from collections.abc import Collection, Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

from sentattn.config.schema import TRAIN
from sentattn.data.cache import Progress, sample
from sentattn.data.readers.archives import File, container, neighbour, reading
from sentattn.errors import DataError, Fault, suggestion

if TYPE_CHECKING:
    from torch import Tensor

KEY = "data.vectors"
ARCHIVES = {
    "glove.6B": ("glove.6B.zip", (50, 100, 200, 300)),
    "glove.42B": ("glove.42B.300d.zip", (300,)),
    "glove.840B": ("glove.840B.300d.zip", (300,)),
    "glove.twitter.27B": ("glove.twitter.27B.zip", (25, 50, 100, 200)),
}
VECTOR_NAMES = {
    f"{series}.{width}d": (archive, width) for series, (archive, widths) in ARCHIVES.items() for width in widths
}
"""Archive and width of the vectors that can be downloaded by name."""
TORCHTEXT, TORCHTEXT_FOLDER = "torchtext:", Path(".vector_cache")
"""The prefix of names of vectors that torchtext has cached, and their folder in the working folder."""
TORCHTEXT_FILES = {
    r"glove\.(42B|6B|840B|twitter\.27B)\.(\d+d)": r"glove.\1.\2.txt.pt",
    r"fasttext\.(\w+)\.300d": r"wiki.\1.vec.pt",
    r"charngram\.100d": "charNgram.txt.pt",
}
"""torchtext's names of vectors, as patterns, and the file of each."""
TEXT_ENDINGS = (".txt", ".vec")
MAX_LINE_BYTES = 1 << 20
"""A file with a longer line is no text."""
MIN_WIDTH = 3
"""A line with fewer numbers may be a header."""
MAX_FLOAT32 = 3.4028234e38
PROGRESS_LINES = 10_000
MOST_SHOWN = 8
WORD2VEC = (
    "convert a binary word2vec file (.bin) with gensim: KeyedVectors.load_word2vec_format(FILE, binary=True)"
    ".save_word2vec_format(OTHER_FILE)"
)
BINARIES = {
    b"\xba\x16\x4f\x2f": "it is a model of fastText: take its .vec file, or convert it with gensim: "
    "load_facebook_vectors(FILE).save_word2vec_format(OTHER_FILE)",
    b"\x93NUMPY": "it is an array, which has no words: write a word and its numbers on each line",
}
"""What to do with other files of vectors, by their first bytes."""
Line: TypeAlias = tuple[str, list[bytes]]
"""A word and its numbers as written in the file."""


def width(vectors: str) -> int:
    """Returns the width of the vectors that `data.vectors` names, from their name or the first lines of the file.

    Raises:
        DataError: If there is no such file, or it contains no vectors.
    """
    if path := torchtext_file(vectors):
        return read_torchtext(path)[1].shape[1]
    return VECTOR_NAMES[vectors][1] if vectors in VECTOR_NAMES else VectorFile.named(vectors).shape()[0]


class VectorFile(File):
    """A file of vectors, or the member of a zip."""

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
        close = (
            neighbour(path)
            or suggestion(vectors, [TRAIN, *VECTOR_NAMES])
            or f" The names are {', '.join(VECTOR_NAMES)}."
        )
        message = f"data.vectors={vectors} is neither {TRAIN}, a file nor the name of known vectors.{close}"
        raise DataError(Fault(KEY, "not_found", message))

    @property
    def identity(self) -> tuple[str, str | None, int, int, str]:
        """File name, member, size in bytes, modification time in nanoseconds, and a hash of both ends."""
        with reading(self.path, KEY):
            size, time, ends = sample(self.path)
        return self.path.name, self.member or None, size, time, hashlib.sha256(ends).hexdigest()

    def shape(self) -> tuple[int, int | None]:
        """Returns the numbers per word, and the number of words in the header (word2vec), or None without one (GloVe).

        Raises:
            DataError: If the first lines are no vectors.
        """
        with self.open(KEY) as stream:
            first, second = (stream.readline(MAX_LINE_BYTES).removeprefix(codecs.BOM_UTF8) for _ in range(2))
        for line in (first, second):
            is_text = "\ufffd" not in line.decode(errors="replace") or _trailing_numbers(line.split()) > 0
            if b"\0" in line or not is_text:
                advice = next((advice for magic, advice in BINARIES.items() if first.startswith(magic)), WORD2VEC)
                raise DataError(Fault(KEY, "unsupported", f"{self} is not UTF-8 text; {advice}."))
        fields = first.split()
        is_header = len(fields) == 2 and all(field.isdigit() for field in fields)
        width = int(fields[1]) if is_header else self._width_of(fields, second.split())
        if width < MIN_WIDTH or (is_header and not _ends_in(second.split(), width)):
            got = reprlib.repr((first + second).decode(errors="replace"))
            message = (
                f"{self} must begin with a word and at least {MIN_WIDTH} numbers, separated by spaces, optionally "
                f"after a line WORDS NUMBERS with the number of words and the width, got {got}."
            )
            raise DataError(Fault(KEY, "damaged", message))
        return width, int(fields[0]) if is_header else None

    def _width_of(self, first: list[bytes], second: list[bytes]) -> int:
        """Returns the width of the first two vectors, of whose words one may end in a number.

        Raises:
            DataError: If one of them has fewer numbers.
        """
        lines = {1: first} | ({2: second} if second else {})
        counts = {number: _trailing_numbers(fields) for number, fields in lines.items()}
        width, most = min(counts.values()), max(counts, key=counts.__getitem__)
        if not _ends_in(lines[most], width):
            least = min(counts, key=counts.__getitem__)
            got = reprlib.repr(b" ".join(lines[least]).decode(errors="replace"))
            message = f"{self}, line {least}: must be a word and {counts[most]} finite numbers, got {got}."
            raise DataError(Fault(KEY, "damaged", message))
        return width

    def lines(self, wanted: Collection[str], progress: Progress) -> Iterator[Line]:
        """Yields the lines of the wanted words in file order, with one line in memory at a time.

        Words may contain spaces, and end in a number such as `windows 95`: the vector is the last numbers of a line.
        Lines of other words are checked for their number of fields only. If a word is empty or not UTF-8, an empty word
        is yielded.

        Raises:
            DataError: With the number of the invalid line.
        """
        width, in_header = self.shape()
        words = 0
        with self.open(KEY) as stream:
            for number, line in enumerate(iter(partial(stream.readline, MAX_LINE_BYTES), b""), start=1):
                if number % PROGRESS_LINES == 0:
                    progress("Reading vectors", number, in_header)
                fields = line.removeprefix(codecs.BOM_UTF8).split()
                if not fields or (number == 1 and in_header is not None):
                    continue
                words += 1
                try:
                    word = b" ".join(fields[:-width]).decode()
                except UnicodeDecodeError:
                    word = ""
                is_wanted = word in wanted
                has_space = len(fields) != width + 1  # in the word, which is rare
                if word:
                    is_vector = not (has_space or is_wanted) or _ends_in(fields, width)
                else:
                    is_vector = len(fields) >= width and all(map(_is_number, fields[-width:]))
                if not is_vector:
                    got = reprlib.repr(line.decode(errors="replace").strip())
                    message = f"{self}, line {number:,}: must be a word and {width} finite numbers, got {got}."
                    raise DataError(Fault(KEY, "damaged", message))
                if not word:
                    yield "", []
                elif is_wanted:
                    yield word, fields[-width:]
        if in_header not in (None, words):
            message = f"{self} must hold {in_header:,} words by its header, got {words:,}; it may be truncated."
            raise DataError(Fault(KEY, "damaged", message))


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
    listed = ", ".join((texts or files)[:MOST_SHOWN]) or "no file"
    message = f"data.vectors={archive / name} must name one file in the archive, which contains {listed}."
    raise DataError(Fault(KEY, "not_found", message + suggestion(name, files)))


def _trailing_numbers(fields: list[bytes]) -> int:
    """Returns how many fields at the end of a line are numbers; the first field is the word."""
    return len(list(takewhile(_is_number, reversed(fields[1:]))))


def _ends_in(fields: list[bytes], width: int) -> bool:
    """Whether a line ends in `width` numbers; others before them are whole numbers of a phrase, as in `windows 95`."""
    numbers = _trailing_numbers(fields)
    return numbers >= width and all(field.isdigit() for field in fields[len(fields) - numbers : len(fields) - width])


def _is_number(field: bytes) -> bool:
    try:
        return abs(float(field)) <= MAX_FLOAT32 and b"_" not in field  # False for NaN
    except ValueError:
        return False


def torchtext_file(vectors: str) -> Path | None:
    """Returns torchtext's file for `torchtext:NAME` or a path that ends in `.pt`; None for other vectors.

    Raises:
        DataError: If the file is missing, or torchtext has no vectors of this name.
    """
    name, path = vectors.removeprefix(TORCHTEXT), Path(vectors).expanduser()
    if name != vectors:
        pattern = next((pattern for pattern in TORCHTEXT_FILES if re.fullmatch(pattern, name)), None)
        if pattern is None:
            message = f"{KEY}={vectors} must name vectors of torchtext, such as glove.6B.100d or fasttext.en.300d."
            raise DataError(Fault(KEY, "unknown", message))
        path = TORCHTEXT_FOLDER / re.sub(pattern, TORCHTEXT_FILES[pattern], name)
    elif path.suffix != ".pt":
        return None
    if not path.is_file():
        message = f"{KEY}={vectors} needs the file {path}, which does not exist; sentattn does not download it."
        raise DataError(Fault(KEY, "not_found", message))
    return path


def read_torchtext(path: Path) -> tuple[list[str], Tensor]:
    """Reads a file in which torchtext has cached vectors, without running code in it.

    Returns:
        The words, and vectors_FE, one row per word, float32.

    Raises:
        DataError: If the file holds something else.
    """
    import torch

    try:
        words, _, vectors_FE, width = torch.load(path, map_location="cpu", weights_only=True, mmap=None)
        if vectors_FE.shape != (len(words), width) or not all(isinstance(word, str) for word in words):
            raise ValueError("its words and vectors do not fit")
        if not vectors_FE.isfinite().all():
            raise ValueError("it holds NaN or infinite numbers")
    except (OSError, RuntimeError, ValueError, TypeError, AttributeError, EOFError, pickle.UnpicklingError) as error:
        reason = str(error).partition("\n")[0]
        message = f"{path} must hold vectors cached by torchtext (words, their rows, a matrix, its width): {reason}"
        raise DataError(Fault(KEY, "damaged", message)) from error
    return words, vectors_FE.float()
