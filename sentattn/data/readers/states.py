"""Files of states, one vector a token, of any program; they are mapped into memory and hold no code."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sentattn.data.cache import cache_folder, cached, no_progress, sha256
from sentattn.data.readers.archives import DAMAGE, existing
from sentattn.errors import DataError, Fault

if TYPE_CHECKING:
    from torch import Tensor

Places: TypeAlias = NDArray[np.int64]
STATES, OFFSETS, MASK = "states", "offsets", "mask"
FILES = (f"{STATES}.npy", f"{OFFSETS}.npy", f"{MASK}.npy")
SAFETENSORS, NPZ = ".safetensors", ".npz"
TABLES = (".parquet", ".csv", ".tsv", ".jsonl", ".json")
"""Endings of tables that are looked for."""
FORMS = (
    "states (T, D) with offsets (N + 1), int64, or states (N, L, D) with mask (N, L), bool; the states in float32, "
    "float16 or, in a .safetensors, bfloat16"
)
MOST_UNPACKED = 1 << 32
"""Bytes of the largest `.npz` that is unpacked."""
BLOCKS, BLOCK_BYTES = 256, 1 << 18
"""A larger file than so many blocks is hashed by blocks that are spread evenly over it."""


class StateFile:
    """The states of the tokens of N rows, mapped into memory.

    Args:
        path: A `.safetensors` file, or a folder with `states.npy` and `offsets.npy` or `mask.npy`.
        key: The setting that names it.
        name: What messages call it; by default its path.

    Attributes:
        states_MD: The states of all M places, padding included.

    Raises:
        DataError: If it is damaged, of another form, or has a row without a token.
    """

    states_MD: Tensor

    def __init__(self, path: Path, key: str, name: str = "") -> None:
        self.path, self.key, self.name = path, key, name or str(path)
        with _readable(self.name, key):
            tensors = _mapped(path)
            types = {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in tensors.items()}
            forms = [f"{name} {tuple(tensor.shape)} {types[name]}" for name, tensor in tensors.items()]
            held = f"it holds {', '.join(forms) or 'none of these'}"
            states, offsets, mask = (tensors.get(name) for name in (STATES, OFFSETS, MASK))
            if states is None or types[STATES] not in ("float32", "float16", "bfloat16"):
                raise ValueError(held)
            self._mask: NDArray[np.bool_] | None = None
            if offsets is not None and types[OFFSETS] == "int64" and (states.dim(), offsets.dim()) == (2, 1):
                self._offsets: Places = offsets.numpy()
                counts_N = np.diff(self._offsets)
                if not len(counts_N) or self._offsets[0] != 0 or self._offsets[-1] != len(states):
                    raise ValueError(f"{OFFSETS} must begin with 0 and end with {len(states):,}, the number of states")
            elif mask is not None and types[MASK] == "bool" and states.dim() > 2 and mask.shape == states.shape[:-1]:
                self._mask = mask.numpy().reshape(len(mask), -1)
                self._offsets = np.arange(len(mask) + 1) * self._mask.shape[1]
                counts_N = self._mask.sum(axis=1)
            else:
                raise ValueError(held)
            if counts_N.min() <= 0:
                row = int(counts_N.argmin())
                raise ValueError(
                    f"row {row} has no token" if not counts_N[row] else f"offsets decrease after row {row}"
                )
            self.states_MD = states.reshape(-1, states.shape[-1])

    def __reduce__(self) -> tuple[type[StateFile], tuple[Path, str, str]]:
        """Pickles the path, not the states."""
        return StateFile, (self.path, self.key, self.name)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._offsets) - 1

    def places(self, row: int) -> Places:
        """Returns where the states of the tokens of a row are in `states_MD`.

        Raises:
            DataError: If one of them is not finite.
        """
        places: Places = np.arange(*self._offsets[row : row + 2])
        if self._mask is not None:
            places = places[self._mask[row]]
        states_LD = self.states_MD[places[0] : places[-1] + 1]
        if not states_LD.isfinite().all() and not self.states_MD[places].isfinite().all():
            message = f"{self.key}={self.name}: a state of row {row} is NaN or infinite."
            raise DataError(Fault(self.key, "range", message))
        return places

    def digest(self) -> str:
        """Returns a hash of the content, of a large file that of blocks that are spread evenly over it."""
        files = sorted(self.path.glob("*.npy")) if self.path.is_dir() else [self.path]
        return hashlib.sha256("".join(map(_digest, files)).encode()).hexdigest()[:16]


def open_states(path: str | Path, key: str, cache_dir: str | None = None) -> StateFile:
    """Opens states; an `.npz` is unpacked into a folder of the cache first.

    Raises:
        DataError: As for `StateFile`; if the file is missing, or an `.npz` too large; if the cache cannot be written.
    """
    path = existing(Path(path), key)
    if not path.is_dir() and path.suffix not in (SAFETENSORS, NPZ):
        message = f"{key}={path} must be a {SAFETENSORS} or {NPZ} file, or a folder with states.npy and offsets.npy."
        raise DataError(Fault(key, "type", message))
    if path.suffix != NPZ:
        return StateFile(path, key)
    with _readable(str(path), key), zipfile.ZipFile(path) as archive:
        members = [archive.getinfo(name) for name in archive.namelist() if name in FILES]
        if (size := sum(info.file_size for info in members)) > MOST_UNPACKED:
            message = (
                f"{key}={path} has {size / 1e9:.1f} GB unpacked, more than 4 GB: save it with sentattn.save_states."
            )
            raise DataError(Fault(key, "range", message))
        folder = cache_folder(cache_dir) / f"npz-{sha256(path)[:16]}"

        def read() -> StateFile | None:
            with suppress(DataError):  # it is not there, or damaged
                return StateFile(folder, key, str(path))
            return None

        def write(fresh: Path) -> None:
            fresh.mkdir()
            for info in members:
                with archive.open(info) as source, (fresh / info.filename).open("wb") as target:
                    shutil.copyfileobj(source, target)
            StateFile(fresh, key, str(path))  # what is wrong stays out of the cache

        return cached(folder, read, write, no_progress)


def rows_table(path: str | Path) -> Path | None:
    """Returns the table of the rows of states: of a file that of its name, in a folder `rows.parquet` or `.csv`."""
    path = Path(path).expanduser()
    stem = path / "rows" if path.is_dir() else path.with_suffix("")
    return next((table for ending in TABLES if (table := stem.with_name(stem.name + ending)).is_file()), None)


@contextmanager
def _readable(name: str, key: str) -> Iterator[None]:
    """Turns the errors of a file of states in the block into one message."""
    from safetensors import SafetensorError

    try:
        yield
    except DataError:
        raise
    except (*DAMAGE, SafetensorError, ValueError, KeyError, TypeError) as error:
        reason = (str(error) or "it ends too early").splitlines()[0].rstrip(".")
        raise DataError(Fault(key, "damaged", f"{key}={name} must hold {FORMS}: {reason}.")) from error


def _mapped(path: Path) -> dict[str, Tensor]:
    """Returns the tensors of a file or folder by name, mapped into memory."""
    import torch
    from safetensors import safe_open

    if path.is_dir():
        files = [path / name for name in FILES if (path / name).is_file()]
        # A copy of a page on write, since torch warns of arrays that cannot be written.
        return {file.stem: torch.from_numpy(np.load(file, mmap_mode="c", allow_pickle=False)) for file in files}
    with safe_open(path, framework="pt") as tensors:
        return {name: tensors.get_tensor(name) for name in sorted({STATES, OFFSETS, MASK} & {*tensors.keys()})}


def _digest(file: Path) -> str:
    if (size := file.stat().st_size) <= BLOCKS * BLOCK_BYTES:
        return sha256(file)
    content = hashlib.sha256(str(size).encode())
    with file.open("rb") as stream:
        for block in range(BLOCKS):
            stream.seek((size - BLOCK_BYTES) * block // (BLOCKS - 1))
            content.update(stream.read(BLOCK_BYTES))
    return content.hexdigest()
