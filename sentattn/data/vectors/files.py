"""Files of vectors: what `data.vectors` names, opened whether plain, `.gz` or `.zip`. Nothing heavy is imported."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, BinaryIO

from sentattn.data.vectors.text import Line, Shape, read_lines, read_shape
from sentattn.errors import DataError, suggestion

if TYPE_CHECKING:
    from sentattn.data.building import Progress

ARCHIVES = {
    "glove.6B": ("glove.6B.zip", (50, 100, 200, 300)),
    "glove.42B": ("glove.42B.300d.zip", (300,)),
    "glove.840B": ("glove.840B.300d.zip", (300,)),
    "glove.twitter.27B": ("glove.twitter.27B.zip", (25, 50, 100, 200)),
}
NAMES = {f"{series}.{width}d": (archive, width) for series, (archive, widths) in ARCHIVES.items() for width in widths}
"""Vectors that are downloaded by name: the archive they are in, and their width."""
GZIP, ZIP = (b"\x1f\x8b",), (b"PK\x03\x04", b"PK\x05\x06")
"""What such files begin with."""
TEXT_ENDINGS = (".txt", ".vec")
BUFFER = 1 << 20
MOST_SHOWN = 8
DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
"""What unpacking raises."""
UNKNOWN = (*DAMAGE, RuntimeError)
"""What opening a zip raises besides: for a password, and for a method or version that is not known."""


def width(vectors: str) -> int:
    """Returns the width of the vectors that `data.vectors` names, from the name or from the file's first lines.

    Raises:
        DataError: If there is no such file, or it holds no vectors.
    """
    return NAMES[vectors][1] if vectors in NAMES else VectorFile.named(vectors).shape().width


@dataclass(frozen=True)
class VectorFile:
    """A file of vectors.

    Attributes:
        path: Where it is.
        member: Which file it is in a zip, or None.
    """

    path: Path
    member: str | None = None

    @classmethod
    def named(cls, vectors: str) -> VectorFile:
        """Finds a local file; that in a zip may be named as if the zip were a folder.

        Raises:
            DataError: If there is none.
        """
        path = Path(vectors).expanduser()
        if path.is_file():
            return cls(path, _only_member(path) if _begins(path, ZIP) else None)
        for parent in path.parents:
            if parent.is_file() and _begins(parent, ZIP):
                return cls(parent, _member(parent, path.relative_to(parent).as_posix()))
        if path.is_dir():
            raise DataError(f"data.vectors={vectors} is a folder; name a file in it.{_files(path)}")
        close = _neighbour(path) or suggestion(vectors, NAMES) or f" The names are {', '.join(NAMES)}."
        raise DataError(f"data.vectors={vectors}: there is no such file, and no vectors have this name.{close}")

    def __str__(self) -> str:
        return str(self.path / self.member if self.member else self.path)

    @property
    def identity(self) -> tuple[str, str | None, int, int]:
        """What another file does not share: its name, its member, its size and the time of its last change."""
        stat = self.path.stat()
        return self.path.name, self.member, stat.st_size, stat.st_mtime_ns

    def shape(self) -> Shape:
        """Reads the beginning.

        Raises:
            DataError: If it cannot be read or holds no vectors.
        """
        with self._open() as stream:
            return read_shape(stream, str(self))

    def lines(self, wanted: Collection[str], progress: Progress) -> Iterator[Line]:
        """Yields the lines of the words that are wanted; see `read_lines`.

        Raises:
            DataError: If it cannot be read to its end, or a line is at fault.
        """
        shape = self.shape()
        with self._open() as stream:
            yield from read_lines(
                stream, str(self), shape, wanted, lambda number: progress("Reading vectors", number, shape.words)
            )

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        """Opens the text; nothing is unpacked on disk. What is raised inside is taken for the file's fault."""
        try:
            if self.member is not None:
                with _zip(self.path) as archive, _opened(archive, self.member, self.path) as member:
                    yield io.BufferedReader(member, BUFFER)  # type: ignore[type-var]
            elif _begins(self.path, GZIP):
                with gzip.open(self.path) as unpacked:
                    yield io.BufferedReader(unpacked, BUFFER)
            else:
                with self.path.open("rb", BUFFER) as plain:
                    yield plain
        except BrokenPipeError:  # of whoever is told how far the reading is
            raise
        except DAMAGE as error:
            raise _unreadable(self.path, error) from error


def _zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except UNKNOWN as error:
        raise _unreadable(path, error) from error


def _opened(archive: zipfile.ZipFile, member: str, path: Path) -> IO[bytes]:
    try:
        return archive.open(member)
    except UNKNOWN as error:
        raise _unreadable(path, error) from error


def _only_member(path: Path) -> str:
    """Returns the one file of a zip, or its one text, or that which is named like the zip."""
    with _zip(path) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
    files = [name for name in names if not name.startswith("__MACOSX/")]
    texts = [name for name in files if name.endswith(TEXT_ENDINGS)]
    alike = [name for name in texts if PurePosixPath(name).stem == path.stem]
    for found in (files, texts, alike):
        if len(found) == 1:
            return found[0]
    if not files:
        raise DataError(f"data.vectors={path} holds no file.")
    raise DataError(
        f"data.vectors={path} holds several files ({', '.join((texts or files)[:MOST_SHOWN])}): name one, such as "
        f"data.vectors={path / (texts or files)[0]}."
    )


def _member(path: Path, name: str) -> str:
    with _zip(path) as archive:
        names = archive.namelist()
    if name not in names:
        raise DataError(f"{path} has no {name}.{suggestion(name, names)} It holds {', '.join(names[:MOST_SHOWN])}.")
    return name


def _begins(path: Path, starts: tuple[bytes, ...]) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4).startswith(starts)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0].rstrip(".")
    return DataError(f"data.vectors={path} cannot be read to its end ({reason}); it may be damaged.")


def _files(folder: Path) -> str:
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    return f" It has {', '.join(names[:MOST_SHOWN])}." if names else ""


def _neighbour(path: Path) -> str:
    return suggestion(path.name, os.listdir(path.parent)) if path.parent.is_dir() else ""
