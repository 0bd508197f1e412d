"""Whether a file is the one that it should be. Its checksum is computed once; a note says for which state of it."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from sentattn.data.download.registry import Remote


def is_right(file: Path, remote: Remote, notes: Path) -> bool:
    """Returns whether a file is there and the right one.

    Args:
        file: The file.
        remote: What it should be.
        notes: The folder of the notes. Where none can be written, the checksum is computed each time.

    Raises:
        OSError: If the file cannot be read.
    """
    if not file.is_file() or file.stat().st_size != remote.size:
        return False
    note = _note(file, notes)
    if note.is_file() and note.read_text(encoding="utf-8") == _state(file, remote):
        return True
    if _sha256(file) != remote.sha256:
        return False
    remember(file, remote, notes)
    return True


def remember(file: Path, remote: Remote, notes: Path) -> None:
    """Notes that a file is the right one, as it is now."""
    with suppress(OSError):
        notes.mkdir(parents=True, exist_ok=True)
        _note(file, notes).write_text(_state(file, remote), encoding="utf-8")


def difference(file: Path, remote: Remote) -> str:
    """Returns what tells a file from the right one, as the end of a sentence."""
    size = file.stat().st_size
    if size != remote.size:
        return f"it has {size:,} bytes instead of {remote.size:,}"
    return f"its SHA-256 is {_sha256(file)} instead of {remote.sha256}"


def _note(file: Path, notes: Path) -> Path:
    return notes / f"{file.name}.verified"


def _state(file: Path, remote: Remote) -> str:
    stat = file.stat()
    return f"{remote.sha256} {stat.st_size} {stat.st_mtime_ns} {file.resolve()}"


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
