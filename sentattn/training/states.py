"""States of a frozen pretrained encoder: computed once, several layers in one pass, and read by the batches.

A folder of the cache holds the states of one encoder, layer, type, clip and length in chunks: `NAME.bin` has the states
of some texts one after another, 16 bits a number, and `NAME.rows`, which is moved into place when these are on the
disk, the hashes of the texts. So texts are found in any split, and a process that dies loses what it has collected.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from rich.filesize import decimal
from torch import Tensor

from sentattn.data.cache import Progress, cache_folder, locked, usable
from sentattn.data.corpus import Rows, Split
from sentattn.data.datamodule import TextData
from sentattn.distributed import ranks
from sentattn.errors import DataError, Fault, SettingError
from sentattn.models.classifier import TextClassifier
from sentattn.models.pretrained import Layer, Pretrained, most_tokens

FORMAT = 3
BATCH_TOKENS = 2048
"""Tokens that a CPU encodes at once, padding included; more are slower there."""
GPU_TOKENS = 16 * BATCH_TOKENS
CHUNK_BYTES = 1 << 25
RESERVE = 1 << 30
"""Bytes of the disk that are left free."""
META, USED = "meta.json", ".used"
ROW = np.dtype([("row_id", "S16"), ("length", "<i4")])
"""A text of a chunk: its hash, and the number of its tokens."""
Half: TypeAlias = NDArray[np.int16]
"""The bits of numbers in float16 or bfloat16, of which NumPy has no type."""
Encode: TypeAlias = Callable[[Tensor, Tensor], Sequence[Tensor]]
"""Returns states_BLE, in the type of each cache, of tokens_BL and mask_BL."""


class Missing(NamedTuple):
    """Texts that have no states in some cache yet, each once.

    Attributes:
        rows: Their rows in each split, the longest first.
        texts: Their number.
        size: The bytes of the states that are missing.
        known: The texts that each cache has.
    """

    rows: list[tuple[Split, Rows]]
    texts: int
    size: int
    known: list[Collection[str]]


class StateCache:
    """A folder of states, which are written in chunks.

    Args:
        folder: The folder.
        width: Width E of a state.
        description: What the states are of, for people.
        dtype: Type of the states, of 16 bits.
    """

    def __init__(self, folder: Path, *, width: int, description: str, dtype: torch.dtype = torch.float16) -> None:
        self.folder, self.width, self.description, self.dtype = folder, width, description, dtype
        self._rows: list[tuple[bytes, int]] = []
        self._states: list[Half] = []

    def places(self) -> dict[str, tuple[Path, int]]:
        """Returns the chunk of each text, and its first token there."""
        places: dict[str, tuple[Path, int]] = {}
        for file in self.folder.glob("*.rows"):
            chunk = file.with_suffix(".bin")
            with suppress(OSError, ValueError):  # a chunk that was deleted or damaged has no texts
                rows = np.fromfile(file, dtype=ROW)
                ends = rows["length"].cumsum(dtype=np.int64)
                if len(rows) and chunk.stat().st_size == 2 * self.width * ends[-1]:
                    starts = (ends - rows["length"]).tolist()
                    keys = (key.decode() for key in rows["row_id"].tolist())
                    places.update(zip(keys, ((chunk, start) for start in starts), strict=True))
        return places

    def free(self) -> int:
        """Returns the bytes that may be written."""
        folder = next(parent for parent in (self.folder, *self.folder.parents) if parent.is_dir())
        return max(0, shutil.disk_usage(folder).free - RESERVE)

    def add(self, row_ids: Sequence[str], lengths_B: Rows, states_BLE: Half, known: Collection[str]) -> None:
        """Collects the states of texts that are not `known` to the cache, and writes each chunk that is full."""
        for row_id, length, states_LE in zip(row_ids, lengths_B.tolist(), states_BLE, strict=True):
            if row_id not in known:
                self._rows.append((row_id.encode(), length))
                self._states.append(states_LE[:length])
        if sum(length for _, length in self._rows) * 2 * self.width >= CHUNK_BYTES:
            self.write()

    def write(self) -> None:
        """Writes what is collected."""
        if not self._rows:
            return
        chunk = self.folder / f"{secrets.token_hex(8)}.bin"
        temporary = [chunk.with_suffix(".bin-part"), chunk.with_suffix(".rows-part")]
        try:
            for path, array in zip(temporary, (np.concatenate(self._states), np.array(self._rows, ROW)), strict=True):
                with path.open("wb") as file:
                    file.write(array.tobytes())
                    file.flush()
                    os.fsync(file.fileno())
            temporary[0].replace(chunk)
            temporary[1].replace(chunk.with_suffix(".rows"))
        finally:
            for path in temporary:
                path.unlink(missing_ok=True)
        self._rows, self._states = [], []


class States:
    """States of the rows of a split, all of which are cached."""

    def __init__(self, cache: StateCache, split: Split) -> None:
        self._width, self._dtype, self._lengths = cache.width, cache.dtype, split.lengths
        places = cache.places()
        self._places = [places[row_id] for row_id in split.row_id]
        self._chunks: dict[Path, Half] = {}

    def gather(self, rows_B: Rows, length: int) -> Tensor:
        """Returns the states of rows, (B, length, E), 0 on padding.

        Raises:
            DataError: If a chunk is gone.
        """
        states_BLE = np.zeros((len(rows_B), length, self._width), dtype=np.int16)
        for place, row in enumerate(rows_B.tolist()):
            (chunk, start), tokens = self._places[row], int(self._lengths[row])
            if chunk not in self._chunks:
                self._chunks[chunk] = self._open(chunk)
            states_BLE[place, :tokens] = self._chunks[chunk][start : start + tokens]
        return torch.from_numpy(states_BLE).view(self._dtype)

    def _open(self, chunk: Path) -> Half:
        try:
            return np.memmap(chunk, dtype=np.int16, mode="r").reshape(-1, self._width)
        except OSError as error:
            message = f"{chunk} is gone ({error.strerror}): the same command computes it again."
            raise DataError(Fault("data.cache_dir", "not_found", message)) from error

    def __getstate__(self) -> dict[str, object]:
        """Pickles paths, not the files."""
        return {**self.__dict__, "_chunks": {}}


def missing_texts(
    caches: Sequence[StateCache], splits: Sequence[Split], *, rank: int = 0, world_size: int = 1
) -> Missing:
    """Returns the texts of splits that some cache lacks; with several ranks those that a rank encodes.

    These depend on a text alone, not on what others have encoded meanwhile.
    """
    known: list[Collection[str]] = [cache.places().keys() for cache in caches]
    seen: set[str] = set()
    rows: list[tuple[Split, Rows]] = []
    size = 0
    for split in splits:
        own: list[int] = []
        for row, row_id in enumerate(split.row_id):
            lacking = [cache.width for cache, texts in zip(caches, known, strict=True) if row_id not in texts]
            if lacking and row_id not in seen and int(row_id, 16) % world_size == rank:
                own.append(row)
                size += 2 * sum(lacking) * int(split.lengths[row])
                seen.add(row_id)
        if own:
            rows.append((split, np.array(sorted(own, key=lambda row: -split.lengths[row]))))
    return Missing(rows, len(seen), size, known)


def require_space(cache: StateCache, missing: Missing) -> None:
    """Refuses to write more states than the disk can hold.

    Raises:
        DataError: With both sizes.
    """
    if missing.size > (free := cache.free()):
        message = (
            f"The states of {missing.texts:,} texts take {decimal(missing.size)}, and {cache.folder.parent} has "
            f"{decimal(free)} left: type data.cache_dir=FOLDER on another disk, data.limit=ROWS, a smaller "
            "data.max_length, or model.embedding.cache=false."
        )
        raise DataError(Fault("data.cache_dir", "resources", message))


def compute_states(
    caches: Sequence[StateCache],
    splits: Sequence[Split],
    encode: Encode,
    progress: Progress,
    *,
    rank: int = 0,
    world_size: int = 1,
    batch_tokens: int = BATCH_TOKENS,
) -> None:
    """Computes the states of texts that a cache lacks: all of them, or those of this rank.

    Raises:
        DataError: If the disk cannot hold them, or a folder cannot be written.
    """
    if (missing := missing_texts(caches, splits)).texts:
        require_space(caches[0], missing)
        with usable(caches[0].folder.parent), ExitStack() as stack:
            for cache in sorted(caches, key=lambda cache: cache.folder):  # in one order in all processes
                cache.folder.mkdir(exist_ok=True)
                stack.enter_context(locked(cache.folder / f"rank-{rank}", progress))
                meta = {"width": cache.width, "description": cache.description}
                (cache.folder / META).write_text(json.dumps(meta), encoding="utf-8")
            # Another process may have computed some meanwhile.
            missing = missing_texts(caches, splits, rank=rank, world_size=world_size)
            for cache in caches:
                stack.callback(cache.write)  # the last chunk, also of an interrupted process
            done = 0
            for split, rows in missing.rows:
                while len(rows):
                    size = max(1, batch_tokens // int(split.lengths[rows[0]]))
                    batch, rows = split[rows[:size]], rows[size:]
                    row_ids = [split.row_id[row] for row in batch.rows_B.tolist()]
                    states = encode(batch.tokens_BL, batch.mask_BL)
                    for cache, known, states_BLE in zip(caches, missing.known, states, strict=True):
                        cache.add(row_ids, batch.lengths_B, states_BLE.view(torch.int16).cpu().numpy(), known)
                    done += len(row_ids)
                    progress("Encoding texts", done, missing.texts)
    for cache in caches:
        with suppress(OSError):  # of a cache that may be read only
            (cache.folder / USED).touch()


class Plan(NamedTuple):
    """The states of a frozen encoder that a training caches.

    Attributes:
        encoder: The encoder.
        layers: The layer that the model reads, and others of the same pass.
        caches: Where the states of each are.
        splits: Whose states are needed.
        missing: The texts that have none yet.
        has_room: Whether the disk can hold these, or states are cached in any case (`model.embedding.cache=true`).
    """

    encoder: Pretrained
    layers: Sequence[Layer]
    caches: Sequence[StateCache]
    splits: Sequence[Split]
    missing: Missing
    has_room: bool


def plan_states(data: TextData, model: TextClassifier, *, test: bool) -> Plan | None:
    """Returns which states a training caches; None without a frozen encoder, and with `model.embedding.cache=false`."""
    encoder = model.embedding
    if not isinstance(encoder, Pretrained) or not encoder.frozen or encoder.cache is False:
        return None
    layers = list(dict.fromkeys(map(encoder.layer_number, [encoder.layer, *encoder.cache_layers])))
    caches = []
    for layer in layers:
        content = [FORMAT, encoder.fingerprint, layer, encoder.dtype, data.clip, data.max_length]
        key = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
        description = f"{encoder.name}, layer {layer}, {encoder.dtype}, {data.max_length} tokens ({data.clip})"
        folder = cache_folder(data.cache_dir) / f"states-{key}"
        caches.append(
            StateCache(folder, width=encoder.width_of(layer), description=description, dtype=encoder.state_dtype)
        )
    splits = [data.split(name) for name in ("train", "val", *(("test",) if test else ()))]
    missing = missing_texts(caches, splits)
    return Plan(encoder, layers, caches, splits, missing, encoder.cache is True or missing.size <= caches[0].free())


def use_cached_states(
    data: TextData, model: TextClassifier, device: torch.device, progress: Progress, *, test: bool
) -> None:
    """Lets batches have cached states, if the encoder is a frozen one; computes those that are missing.

    Several ranks share the work. `model.embedding.cache=auto` does without where the disk has no room.

    Raises:
        DataError: If the states cannot be cached, with `model.embedding.cache=true`, or the cache cannot be written.
    """
    if (plan := plan_states(data, model, test=test)) is None:
        return
    encoder, layers, caches, splits, missing, has_room = plan
    if not ranks.broadcast(has_room):
        sizes = f"{decimal(missing.size)}, and {decimal(caches[0].free())} are free"
        print(f"States are not cached, since they take {sizes}: they are computed in every epoch.")
        return

    def encode(tokens_BL: Tensor, mask_BL: Tensor) -> list[Tensor]:
        states: list[Tensor] = encoder.encode(tokens_BL.to(device), mask_BL.to(device), layers)
        return states

    if missing.texts:
        of = f" of layers {', '.join(map(str, layers))}" if len(layers) > 1 else ""
        place = caches[0].folder.parent
        print(f"States{of} of {missing.texts:,} texts ({decimal(missing.size)}) are cached in {place}.")
    rank, tokens = ranks.rank(), BATCH_TOKENS if device.type == "cpu" else GPU_TOKENS
    compute_states(caches, splits, encode, progress, rank=rank, world_size=ranks.world(), batch_tokens=tokens)
    ranks.all_reduce_max(0)  # until all have theirs
    # Ranks on a machine with a cache of its own compute the rest there.
    compute_states(caches, splits, encode, progress, rank=rank, batch_tokens=tokens)
    for split in splits:
        split.gather_states = States(caches[0], split).gather


def require_positions(length: int | None, model: TextClassifier) -> None:
    """Refuses a `data.max_length` above the positions of a pretrained encoder.

    Raises:
        SettingError: With both numbers.
    """
    embedding = model.embedding
    if isinstance(embedding, Pretrained) and (most := most_tokens(embedding.folder, length)):
        message = (
            f"data.max_length must be at most {most}, the positions of "
            f"model.embedding.name={embedding.name}, got {'null' if length is None else length}."
        )
        raise SettingError(Fault("data.max_length", "range", message))
