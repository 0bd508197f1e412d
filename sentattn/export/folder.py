"""A folder that appears whole or not at all, and replaces nothing but its own kind."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from sentattn.errors import RunError

MARK = "sentattn"
"""Key of the configuration that tells an export from other folders: the version that wrote it."""


def require_replaceable(folder: Path, config: str, names: Collection[str]) -> None:
    """Refuses a folder that holds anything but an earlier export.

    Args:
        folder: Where an export is to stand.
        config: Name of the file that holds the mark.
        names: Files of an export.

    Raises:
        RunError: With the first thing that would be lost.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise RunError(f"output={folder} is a file; name a folder.")
    # a reader that imports predict.py leaves this behind
    there = sorted(entry.name for entry in folder.iterdir() if entry.name != "__pycache__")
    strange = [name for name in there if name not in names]
    if there and (strange or not _is_marked(folder / config)):
        raise RunError(
            f"output={folder} holds something that is no export ({(strange or there)[0]}) and would be lost; "
            "name another folder."
        )


def _is_marked(path: Path) -> bool:
    try:
        return MARK in json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


@contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Gives a folder to write to, which takes the place of `folder` if all goes well and else disappears.

    Raises:
        RunError: If it cannot be written.
    """
    target = folder.resolve()
    beside, before = (target.with_name(f".{target.name}.{os.getpid()}.{part}") for part in ("new", "old"))
    try:
        beside.mkdir(parents=True)
        yield beside
        if target.exists():
            target.rename(before)
        beside.rename(target)
    except OSError as error:
        raise RunError(
            f"output={folder} cannot be written ({error.strerror or error}); name another folder."
        ) from error
    finally:
        if before.exists() and not target.exists():
            before.rename(target)
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(before, ignore_errors=True)
