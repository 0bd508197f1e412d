"""Files as streams, plain or compressed; tar archives, unpacked in the cache."""

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
from typing import Any

from sentattn.data.cache import Progress, cached, sample
from sentattn.errors import DataError, Fault, suggestion

DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, UnicodeError, OSError),
    RuntimeError,  # of an archive that is encrypted, or of an unknown version
)


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


def _open_zstd(path: Path, mode: str) -> io.BufferedReader:
    from pyarrow import input_stream

    return io.BufferedReader(input_stream(str(path), compression="zstd"))


COMPRESSIONS: dict[str, Callable[[Path, str], Any]]
COMPRESSIONS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zst": _open_zstd}
"""Opens a compressed file to read, by the ending of its name."""


def open_file(path: Path) -> Any:
    """Opens a file as bytes, decompressed if its name ends as in `COMPRESSIONS`."""
    return COMPRESSIONS.get(path.suffix.lower(), Path.open)(path, "rb")


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
            read_to_end(opened)

    return cached(folder, lambda: folder if folder.is_dir() else None, write, progress)


def read_to_end(archive: tarfile.TarFile) -> None:
    """Reads what follows the last member: only the end of a compressed file proves that it is complete."""
    while archive.fileobj is not None and archive.fileobj.read(1 << 20):
        pass
