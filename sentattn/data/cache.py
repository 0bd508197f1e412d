"""The cache folder of corpora, vectors and downloads: each entry is written by one process and moved into place."""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from sentattn.errors import DataError, Fault

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Called with the stage, the number of items done, and their total (None: unknown)."""
PATIENCE = 0.5
"""Seconds after which waiting for another process is reported."""


def cache_folder(cache_dir: str | None) -> Path:
    """Returns the folder of all entries: `cache_dir`, `$SENTATTN_CACHE`, or `sentattn` in the user's cache."""
    if folder := cache_dir or os.environ.get("SENTATTN_CACHE"):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sentattn"


@contextmanager
def usable(cache: Path) -> Iterator[None]:
    """Creates the cache folder; an error of writing in the block becomes a DataError that names the folder."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        yield
    except (OSError, SafetensorError) as error:  # a full disk, as the library reports it, is no OSError
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        message = f"The cache folder {cache} cannot be used ({reason}); set another with data.cache_dir=FOLDER."
        raise DataError(Fault("data.cache_dir", "unwritable", message)) from error


@contextmanager
def locked(entry: Path, progress: Progress) -> Iterator[None]:
    """Holds the lock of an entry, and reports when another process holds it."""
    lock = FileLock(entry.with_name(f"{entry.name}.lock"))
    try:
        lock.acquire(timeout=PATIENCE)
    except Timeout:
        progress("Waiting for another process that reads the same data", 0, None)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def workspace(entry: Path) -> Iterator[Path]:
    """Yields an empty folder next to an entry whose lock is held, and removes it and those of killed processes."""
    prefix = f".{entry.name}."
    for leftover in entry.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover)
    # Not `mkdtemp`, whose folders no other user can read.
    folder = entry.parent / f"{prefix}{secrets.token_hex(8)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file's content, in hexadecimal; computed once while size and time stay the same.

    Raises:
        OSError: If the file cannot be read.
    """
    stat = path.stat()
    return _sha256(path.absolute(), stat.st_size, stat.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _sha256(path: Path, size: int, mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
