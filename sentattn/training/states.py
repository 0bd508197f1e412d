"""States of a frozen pretrained encoder: computed once, several layers in one pass, and read by the batches.

A folder of the cache holds the states of one encoder, layer, type, clip and length in chunks: files of safetensors with
the `states` of some texts one after another, their `lengths`, and in the header the hashes of the texts. So texts are
found in any split, and a process that dies loses what it has collected.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from rich.filesize import decimal
from safetensors import SafetensorError, safe_open
from torch import Tensor

from sentattn.data.cache import Progress, cache_folder, locked, usable
from sentattn.data.corpus import Rows, Split
from sentattn.data.datamodule import TextData
from sentattn.distributed import ranks
from sentattn.errors import MALFORMED, DataError, Fault
from sentattn.models.classifier import TextClassifier
from sentattn.models.pretrained import Layer, Pretrained
from sentattn.run import replacing, save_tensors

FORMAT = 4
BATCH_TOKENS = 2048
"""Tokens that a CPU encodes at once, padding included; more are slower there."""
GPU_TOKENS = 16 * BATCH_TOKENS
CHUNK_BYTES = 1 << 25
RESERVE = 1 << 30
"""Bytes of the disk that are left free."""
META, USED, CHUNK = "meta.json", ".used", ".safetensors"
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
        self._collected: dict[str, Tensor] = {}

    def places(self) -> dict[str, tuple[Path, int]]:
        """Returns the chunk of each text, and its first token there."""
        places: dict[str, tuple[Path, int]] = {}
        for chunk in self.folder.glob(f"*{CHUNK}"):
            with suppress(*MALFORMED, SafetensorError):  # a chunk that was deleted or damaged has no texts
                with safe_open(chunk, framework="pt") as file:
                    row_ids, lengths = file.metadata()["row_ids"].split(), file.get_tensor("lengths")
                starts = (lengths.cumsum(dim=0) - lengths).tolist()
                places.update(zip(row_ids, ((chunk, start) for start in starts), strict=True))
        return places

    def free(self) -> int:
        """Returns the bytes that may be written; a `DataError` if the folder of the cache is gone."""
        with usable(self.folder.parent):
            return max(0, shutil.disk_usage(self.folder.parent).free - RESERVE)

    def add(self, row_ids: Sequence[str], lengths_B: Rows, states_BLE: Tensor, known: Collection[str]) -> None:
        """Collects the states of texts that are not `known` to the cache, and writes each chunk that is full."""
        for row_id, length, states_LE in zip(row_ids, lengths_B.tolist(), states_BLE, strict=True):
            if row_id not in known:
                self._collected[row_id] = states_LE[:length]
        if sum(map(len, self._collected.values())) * 2 * self.width >= CHUNK_BYTES:
            self.write()

    def write(self) -> None:
        """Writes what is collected."""
        if not self._collected:
            return
        lengths = torch.tensor(list(map(len, self._collected.values())))
        tensors = {"states": torch.cat(list(self._collected.values())), "lengths": lengths}
        with replacing(self.folder / f"{secrets.token_hex(8)}{CHUNK}") as temporary:
            save_tensors(tensors, temporary, {"row_ids": " ".join(self._collected)})
        self._collected = {}


class States:
    """States of the rows of a split, all of which are cached."""

    def __init__(self, cache: StateCache, split: Split) -> None:
        self._width, self._dtype, self._lengths = cache.width, cache.dtype, split.lengths
        places = cache.places()
        self._places = [places[row_id] for row_id in split.row_id]
        self._chunks: dict[Path, Tensor] = {}

    def gather(self, rows_B: Rows, length: int) -> Tensor:
        """Returns the states of rows, (B, length, E), 0 on padding.

        Raises:
            DataError: If a chunk is gone.
        """
        states_BLE = torch.zeros(len(rows_B), length, self._width, dtype=self._dtype)
        for place, row in enumerate(rows_B.tolist()):
            (chunk, start), tokens = self._places[row], int(self._lengths[row])
            if chunk not in self._chunks:
                self._chunks[chunk] = self._open(chunk)
            states_BLE[place, :tokens] = self._chunks[chunk][start : start + tokens]
        return states_BLE

    def _open(self, chunk: Path) -> Tensor:
        """Returns the states of a chunk, mapped into memory."""
        try:
            with safe_open(chunk, framework="pt") as file:
                states_TE: Tensor = file.get_tensor("states")
            return states_TE
        except (OSError, SafetensorError) as error:
            message = f"{chunk} cannot be read ({error}): the same command computes it again."
            raise DataError(Fault("data.cache_dir", "not_found", message)) from error


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
        DataError: If a folder cannot be written.
    """
    if missing_texts(caches, splits).texts:
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
                        cache.add(row_ids, batch.lengths_B, states_BLE.cpu(), known)
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
    """

    encoder: Pretrained
    layers: Sequence[Layer]
    caches: Sequence[StateCache]
    splits: Sequence[Split]
    missing: Missing


def plan_states(data: TextData, model: TextClassifier, *, test: bool) -> Plan | None:
    """Returns which states a training caches, None for none.

    They are those of a frozen encoder, without `model.embedding.cache=false`. With `auto` the disk must have room.

    Raises:
        DataError: If it has none with `model.embedding.cache=true`.
    """
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
    if ranks.broadcast(missing.size <= (free := caches[0].free())):
        return Plan(encoder, layers, caches, splits, missing)
    sizes = f"{decimal(missing.size)}, and {caches[0].folder.parent} has {decimal(free)} left"
    if encoder.cache is True:
        advice = "type data.cache_dir=FOLDER on another disk, data.limit=ROWS or a smaller data.max_length"
        message = f"The states of {missing.texts:,} texts take {sizes}: {advice}, or model.embedding.cache=false."
        raise DataError(Fault("data.cache_dir", "resources", message))
    print(f"States are not cached, since they take {sizes}: they are computed in every epoch.")
    return None


def use_cached_states(
    data: TextData, model: TextClassifier, device: torch.device, progress: Progress, *, test: bool
) -> None:
    """Lets batches have cached states, if the encoder is a frozen one; computes those that are missing.

    Several ranks share the work.

    Raises:
        DataError: If the states cannot be cached, with `model.embedding.cache=true`, or the cache cannot be written.
    """
    if (plan := plan_states(data, model, test=test)) is None:
        return
    encoder, layers, caches, splits, missing = plan

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
