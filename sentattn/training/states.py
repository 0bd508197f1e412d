"""States of a frozen pretrained encoder: computed once, cached on the disk, and read by the batches of a training."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

import torch
from rich.filesize import decimal
from torch import Tensor

from sentattn.data.cache import Progress, cache_folder
from sentattn.data.corpus import Split
from sentattn.data.datamodule import TextData
from sentattn.data.states import BATCH_TOKENS, Missing, StateCache, States
from sentattn.distributed import ranks
from sentattn.errors import Fault, SettingError
from sentattn.models.classifier import TextClassifier
from sentattn.models.pretrained import Pretrained

FORMAT = 2
GPU_TOKENS = 16 * BATCH_TOKENS
"""Tokens that a GPU encodes at once."""


class Plan(NamedTuple):
    """The states of a frozen encoder that a training caches.

    Attributes:
        encoder: The encoder.
        cache: Where its states are.
        splits: Whose states are needed.
        missing: The texts that have none yet.
        has_room: Whether the disk can hold these, or states are cached in any case (`model.embedding.cache=true`).
    """

    encoder: Pretrained
    cache: StateCache
    splits: Sequence[Split]
    missing: Missing
    has_room: bool


def plan_states(data: TextData, model: TextClassifier, *, test: bool) -> Plan | None:
    """Returns which states a training caches; None without a frozen encoder, and with `model.embedding.cache=false`."""
    encoder = model.embedding
    if not isinstance(encoder, Pretrained) or not encoder.frozen or encoder.cache is False:
        return None
    layer = "mix" if encoder.layer == "mix" else encoder.layer % (encoder.layers + 1)
    content = [FORMAT, encoder.fingerprint, layer, encoder.dtype, data.clip, data.max_length]
    key = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    description = f"{encoder.name}, layer {encoder.layer}, {encoder.dtype}, {data.max_length} tokens ({data.clip})"
    folder = cache_folder(data.cache_dir) / f"states-{key}"
    cache = StateCache(folder, width=encoder.width, description=description)
    splits = [data.split(name) for name in ("train", "val", *(("test",) if test else ()))]
    missing = cache.missing(splits)
    return Plan(encoder, cache, splits, missing, encoder.cache is True or missing.size <= cache.free())


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
    encoder, cache, splits, missing, has_room = plan
    if not ranks.from_rank_zero(has_room):
        sizes = f"{decimal(missing.size)}, and {decimal(cache.free())} are free"
        print(f"States are not cached, since they take {sizes}: they are computed in every epoch.")
        return

    def encode(tokens_BL: Tensor, mask_BL: Tensor) -> Tensor:
        states_BLE: Tensor = encoder.encode(tokens_BL.to(device), mask_BL.to(device))
        return states_BLE

    if missing.texts:
        print(f"States of {missing.texts:,} texts ({decimal(missing.size)}) are cached in {cache.folder}.")
    rank, tokens = ranks.rank(), _batch_tokens(device)
    cache.compute(splits, encode, progress, rank=rank, world_size=ranks.world(), batch_tokens=tokens)
    ranks.largest(0)  # until all have theirs
    # Ranks on a machine with a cache of its own compute the rest there.
    cache.compute(splits, encode, progress, rank=rank, batch_tokens=tokens)
    for split in splits:
        split.gather_states = States(cache, split).gather


def _batch_tokens(device: torch.device) -> int:
    return BATCH_TOKENS if device.type == "cpu" else GPU_TOKENS


def require_positions(length: int | None, model: TextClassifier) -> None:
    """Refuses a `data.max_length` above the positions of a pretrained encoder.

    Raises:
        SettingError: With both numbers.
    """
    embedding = model.embedding
    if isinstance(embedding, Pretrained) and embedding.positions and (length is None or length > embedding.positions):
        message = (
            f"data.max_length must be at most {embedding.positions}, the positions of "
            f"model.embedding.name={embedding.name}, got {'null' if length is None else length}."
        )
        raise SettingError(Fault("data.max_length", "range", message))
