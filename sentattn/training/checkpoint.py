"""Files of checkpoints, and the states of random generators in them."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError

import numpy as np
import torch
from lightning_fabric.plugins import TorchCheckpointIO

from sentattn.errors import Fault, RunError, TrainingError
from sentattn.run import replacing
from sentattn.training.lit_module import State


class FileInPlace(TorchCheckpointIO):
    """Writes a checkpoint completely or not at all, next to the one that it replaces.

    Lightning goes through the folder for temporary files, which may be too small, and a killed process leaves one.
    """

    def save_checkpoint(self, checkpoint: State, path: str | Path, storage_options: object | None = None) -> None:
        buffer, states = io.BytesIO(), io.BytesIO()
        torch.save(checkpoint.get("callbacks"), states)
        states.seek(0)
        try:
            torch.load(states, weights_only=True)  # as `read_checkpoint` reads it
        except UnpicklingError as error:
            message = "The state_dict of a callback may hold numbers, texts, tensors, lists and dictionaries alone."
            raise TrainingError(Fault("callbacks", "failed", message)) from error
        torch.save(checkpoint, buffer)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        for leftover in Path(path).parent.glob(f".{Path(path).name}.*"):
            leftover.unlink()  # of a process that was killed while it wrote
        with replacing(Path(path)) as temporary:
            temporary.write_bytes(buffer.getbuffer())


def read_checkpoint(path: Path) -> State:
    """Reads a checkpoint without executing anything in it.

    Raises:
        RunError: If it is missing or damaged.
    """
    try:
        checkpoint: State = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch has no common class for what it finds in a damaged file
        reason = " ".join(str(error).split())[:200]
        raise RunError(Fault(str(path), "damaged", f"{path} cannot be read: {reason}")) from error
    return checkpoint


def read_identity(path: Path) -> Mapping[str, str | None]:
    """Returns the hashes of setting, data, pretrained encoder and initial weights that a checkpoint was written with.

    Raises:
        RunError: If it is missing or damaged, or was written by another version of sentattn.
    """
    try:
        identity: Mapping[str, str | None] = read_checkpoint(path)["identity"]
    except KeyError as error:
        message = f"{path} does not say which setting it belongs to: another version of sentattn wrote it."
        raise RunError(Fault(str(path), "damaged", message)) from error
    return identity


def random_state() -> State:
    """Returns the states of Python's, NumPy's and torch's generators, as plain values."""
    kind, keys, *rest = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": (kind, keys.tolist(), *rest),  # type: ignore[union-attr]  # an array with legacy=True
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
        "mps": [torch.mps.get_rng_state()] if torch.backends.mps.is_available() else [],
    }


def restore_random_state(state: State) -> None:
    """Sets all random generators to what `random_state` returned."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
    if state["mps"] and torch.backends.mps.is_available():
        torch.mps.set_rng_state(state["mps"][0])
