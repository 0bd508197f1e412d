"""The digest of a file, worked out once while the file stays as it is."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file's content, in hexadecimal.

    A process that has worked it out, or was forked from one that has, does not read the file again as long as size
    and time are the same.

    Raises:
        OSError: If the file cannot be read.
    """
    stat = path.stat()
    return _sha256(path.absolute(), stat.st_size, stat.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _sha256(path: Path, size: int, mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
