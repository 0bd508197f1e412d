"""A trained model as files that run without torch, or for the Hub, in a new folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sentattn.errors import Fault, RunError
from sentattn.run import flush_to_disk, writing

VERSION_KEY = "sentattn"
"""Key of a file of an export: the version that wrote it."""


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yields a temporary folder that becomes `folder` at the end, or is removed after an error.

    Raises:
        RunError: If there is something at `folder`, or it cannot be written.
    """
    target = folder.resolve()
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        message = f"output={folder} exists: delete it, or type output=FOLDER with a new one."
        raise RunError(Fault("output", "conflict", message))
    with writing(folder, "output"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as temporary:
            new = Path(temporary, "new")
            new.mkdir()
            yield new
            for path in (*new.rglob("*"), new):
                flush_to_disk(path)
            new.rename(target)
            flush_to_disk(target.parent)
