"""A checkpoint on disk: written where it belongs, and read without executing anything in it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins import TorchCheckpointIO

from sentattn.errors import RunError


class FileInPlace(TorchCheckpointIO):
    """Writes a checkpoint to its own folder at once.

    Lightning's own way leads through the folder for temporary files, which may be smaller than a checkpoint and keeps
    what a killed process has left there.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: object | None = None
    ) -> None:
        """Writes a checkpoint to a local file.

        Raises:
            OSError: If there is no room.
        """
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        Path(path).write_bytes(buffer.getbuffer())


def read(path: Path) -> dict[str, Any]:
    """Reads a checkpoint.

    Raises:
        RunError: If it is missing or damaged.
    """
    try:
        checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise RunError(f"{path} is missing.") from error
    except Exception as error:  # torch has no common class for what it finds in a damaged file
        raise RunError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}") from error
    return checkpoint
