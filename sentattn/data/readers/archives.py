"""Files as streams, plain, compressed or in a zip; tar archives, file by file or unpacked in the cache."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast

from sentattn.data.cache import Progress, cached, sample
from sentattn.errors import DataError, Fault, suggestion

DAMAGE = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, UnicodeError, OSError)
ZIP, GZIP = (b"PK\x03\x04", b"PK\x05\x06"), b"\x1f\x8b"


def neighbour(path: Path) -> str:
    """Returns ` Did you mean 'x'?` with the closest file name in the folder of a path, or an empty string."""
    return suggestion(path.name, os.listdir(path.parent)) if path.parent.is_dir() else ""


def existing(path: Path, key: str, hint: str = "") -> Path:
    """Returns the path of a file or folder, `~` expanded.

    Raises:
        DataError: If it does not exist; the message has the closest file name.
    """
    path = path.expanduser()
    if not path.exists():
        setting = f"{key}={path}" if key else str(path)
        place = "" if path.is_absolute() else f" in {Path.cwd()}, where relative paths begin"
        message = f"{setting}: there is no such file or folder{place}.{neighbour(path)} {hint}".rstrip()
        raise DataError(Fault(key, "not_found", message))
    return path


@contextmanager
def reading(path: Path, key: str, hint: str = "") -> Iterator[None]:
    """Replaces the exceptions of a damaged or missing file by a DataError, whose message ends with a hint.

    Raises:
        DataError: Of kind `unreadable` or `damaged`.
    """
    try:
        yield
    except BrokenPipeError:  # of the standard output
        raise
    except DAMAGE as error:
        kind = "unreadable" if getattr(error, "errno", None) else "damaged"
        reason = (getattr(error, "strerror", None) or str(error) or "it ends too early").splitlines()[0].rstrip(".:")
        raise DataError(Fault(key, kind, f"{path} cannot be read to its end ({reason}). {hint}".rstrip())) from error


def container(path: Path) -> Literal["plain", "gzip", "tar", "zip"]:
    """Returns the format of a file by its content, not its name."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic.startswith(ZIP):
        return "zip"
    if tarfile.is_tarfile(path):
        return "tar"
    return "gzip" if magic.startswith(GZIP) else "plain"


def _open_zstd(path: Path) -> io.BufferedReader:
    from pyarrow import input_stream

    return io.BufferedReader(input_stream(str(path), compression="zstd"))


COMPRESSIONS: dict[str, Callable[[Path], Any]]
COMPRESSIONS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zst": _open_zstd}
"""Opens a compressed file, by the ending of its name."""


class File(NamedTuple):
    """A file, or a member of a zip."""

    path: Path
    member: str = ""

    def __str__(self) -> str:
        return str(self.path / self.member)

    @contextmanager
    def open(self, key: str, hint: str = "") -> Iterator[io.BufferedReader]:
        """Opens it, decompressed.

        Raises:
            DataError: If it is damaged.
        """
        path, member = self
        with reading(path, key, hint):
            match container(path):
                case "zip":
                    with zipfile.ZipFile(path) as archive:
                        try:
                            zipped = archive.open(member)
                        except RuntimeError as error:  # encrypted, or a method of compression that is not known
                            raise zipfile.BadZipFile(str(error)) from error
                        with zipped:
                            yield io.BufferedReader(cast(io.RawIOBase, zipped))
                case "gzip":
                    with gzip.open(path) as unpacked:
                        yield io.BufferedReader(cast(io.RawIOBase, unpacked))
                case _:
                    with path.open("rb") as plain:
                        yield plain


def tar_files(path: Path, key: str, hint: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Yields names and streams of the files of a tar archive, in order, and reads the archive to its end.

    Raises:
        DataError: If a member is a link or a device, or its name points outside the archive; kind `unsafe`.
    """
    with tarfile.open(path) as archive:
        for member in archive:
            is_outside = member.name.startswith("/") or ".." in member.name.split("/")
            if is_outside or not (member.isfile() or member.isdir()):
                message = f"{path} must hold plain files only, got the member {member.name!r}. {hint}"
                raise DataError(Fault(key, "unsafe", message))
            file = archive.extractfile(member)
            if file is not None:
                yield member.name, file
        _read_to_end(archive)


def unpacked(archive: Path, cache: Path, key: str, hint: str, progress: Progress) -> Path:
    """Returns a folder of the cache with the content of a tar archive, which is unpacked first, once.

    Raises:
        DataError: If the archive is damaged, or a name in it points outside.
    """
    with reading(archive, key, hint):
        size, time, ends = sample(archive)
    folder = cache / f"unpacked-{hashlib.sha256(f'{size} {time}'.encode() + ends).hexdigest()[:16]}"

    def write(fresh: Path) -> None:
        progress(f"Unpacking {archive.name}", 0, None)
        with reading(archive, key, hint), tarfile.open(archive) as opened:
            opened.extractall(fresh, filter="data")
            _read_to_end(opened)

    return cached(folder, lambda: folder if folder.is_dir() else None, write, progress)


def _read_to_end(archive: tarfile.TarFile) -> None:
    """Reads what follows the last member: only the end of a compressed file proves that it is complete."""
    while archive.fileobj is not None and archive.fileobj.read(1 << 20):
        pass
