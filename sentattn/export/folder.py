"""The folder of an export: written completely or not at all, in place of an earlier export and of nothing else."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from sentattn.errors import Fault, RunError
from sentattn.run import writing

VERSION_KEY = "sentattn"
"""Key of a file that identifies an export: the version that wrote it."""


def require_replaceable(folder: Path, files: Collection[str], marked: str) -> None:
    """Refuses a file, and a folder that holds anything but an earlier export, with a `RunError` that names it.

    An earlier export has some of the `files` alone, and `VERSION_KEY` in that which is `marked`.
    """
    if folder.exists() and not folder.is_dir():
        raise RunError(Fault("output", "conflict", f"output={folder} is a file; name a folder."))
    # Programs that import predict.py write __pycache__.
    names = sorted(file.name for file in folder.glob("*") if file.name != "__pycache__")
    others = [name for name in names if name not in files]
    try:
        is_export = VERSION_KEY in json.loads((folder / marked).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        is_export = False
    if names and (others or not is_export):
        message = f"output={folder} must be an earlier export or a new folder, got one with {(others or names)[0]}."
        raise RunError(Fault("output", "conflict", message))


@contextmanager
def replacement(folder: Path) -> Iterator[Path]:
    """Yields a temporary folder that replaces `folder` at the end, or is removed after an error."""
    target = folder.resolve()
    with writing(folder, "output"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as temporary:
            new, old = Path(temporary, "new"), Path(temporary, "old")
            new.mkdir()
            yield new
            if target.exists():
                target.rename(old)
            try:
                new.rename(target)
            finally:
                if old.exists() and not target.exists():
                    old.rename(target)
