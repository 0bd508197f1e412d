"""The cache folder of corpora, vectors and downloads: one process writes an entry and moves it into place."""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias, TypeVar

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from sentattn.errors import DataError, Fault

T = TypeVar("T")
Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Called with the stage, the number of items done, and their total (None: unknown)."""
SAMPLE_BYTES = 1 << 16
"""Bytes at each end of a file by which `sample` identifies it."""
LOCK_TIMEOUT = 0.5
"""Seconds after which waiting for another process is reported."""


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Reports nothing."""


def cache_folder(cache_dir: str | None) -> Path:
    """Returns the folder of all entries: `cache_dir`, `$SENTATTN_CACHE`, or `sentattn` in the user's cache."""
    if folder := cache_dir or os.environ.get("SENTATTN_CACHE"):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sentattn"


@contextmanager
def usable(cache: Path) -> Iterator[None]:
    """Creates the cache folder, and raises a DataError that names it for an error of writing inside the block."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        yield
    except (OSError, SafetensorError) as error:  # safetensors reports a full disk by its own class
        reason = getattr(error, "strerror", None) or str(error)
        message = f"The cache folder {cache} cannot be used ({reason}); set another with data.cache_dir=FOLDER."
        raise DataError(Fault("data.cache_dir", "unwritable", message)) from error


@contextmanager
def locked(entry: Path, progress: Progress) -> Iterator[None]:
    """Holds the lock of an entry; `progress` receives a message while another process holds it."""
    lock = FileLock(entry.with_name(f"{entry.name}.lock"))
    try:
        lock.acquire(timeout=LOCK_TIMEOUT)
    except Timeout:
        progress("Waiting for another process that reads the same data", 0, None)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def cached(entry: Path, read: Callable[[], T | None], write: Callable[[Path], None], progress: Progress) -> T:
    """Returns the content of an entry; writes it first, under its lock, where it is missing or damaged.

    Args:
        entry: The file or folder.
        read: Returns its content, or None where it is missing or damaged.
        write: Writes it to a path, from which it is moved into place when it is complete.
        progress: Receives a message while another process writes it.

    Raises:
        DataError: If the cache folder cannot be written.
    """
    if (content := read()) is not None:
        return content
    with usable(entry.parent), locked(entry, progress):
        if (content := read()) is not None:
            return content  # another process has written it meanwhile
        for leftover in entry.parent.glob(f".{entry.name}.*"):  # of killed processes
            shutil.rmtree(leftover)
        # Not `mkdtemp`, whose folders no other user can read.
        workspace = entry.with_name(f".{entry.name}.{secrets.token_hex(8)}")
        workspace.mkdir()
        try:
            write(workspace / entry.name)
            if entry.is_dir():
                shutil.rmtree(entry)
            os.replace(workspace / entry.name, entry)
        finally:
            shutil.rmtree(workspace, ignore_errors=True)
        if (content := read()) is None:  # the folder has vanished
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(entry))
        return content


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file's content, in hexadecimal; computed once while size and time stay the same.

    Raises:
        OSError: If the file cannot be read.
    """
    stat = path.stat()
    return _sha256(path.absolute(), stat.st_size, stat.st_mtime_ns)


def sample(path: Path) -> tuple[int, int, bytes]:
    """Returns size, modification time in nanoseconds, and both ends of a file that is too large to hash at each start.

    Raises:
        OSError: If the file cannot be read.
    """
    with path.open("rb") as file:
        stat = os.fstat(file.fileno())
        ends = file.read(SAMPLE_BYTES)
        file.seek(max(0, stat.st_size - SAMPLE_BYTES))
        return stat.st_size, stat.st_mtime_ns, ends + file.read(SAMPLE_BYTES)


@functools.lru_cache(maxsize=64)
def _sha256(path: Path, size: int, mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
