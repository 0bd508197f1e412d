"""A configuration folder as a user writes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def config_folder(folder: Path, files: Mapping[str, str]) -> str:
    """Writes files, by name such as `model/attention/mine`, and returns the argument that names their folder."""
    for name, text in files.items():
        file = folder / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return f"--config-dir={folder}"
