"""States of a frozen pretrained encoder: computed once, cached on the disk, and read by the batches of a training."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from sentattn.config.schema import Settings
from sentattn.console import plural
from sentattn.data.cache import Progress, cache_folder
from sentattn.data.corpus import Split
from sentattn.data.datamodule import TextData
from sentattn.data.states import BATCH_TOKENS, StateCache, States
from sentattn.distributed import ranks
from sentattn.errors import Fault, SettingError
from sentattn.models.classifier import TextClassifier
from sentattn.models.pretrained import Pretrained

FORMAT = 1
GPU_TOKENS = 16 * BATCH_TOKENS
"""Tokens that a GPU encodes at once."""


def use_cached_states(
    settings: Settings, data: TextData, model: TextClassifier, device: torch.device, progress: Progress
) -> None:
    """Lets batches have cached states, if the encoder is a frozen one; computes those that are missing.

    Several ranks share the work. `model.embedding.cache=auto` does without where the disk has no room.

    Raises:
        DataError: If the states cannot be cached, with `model.embedding.cache=true`, or the cache cannot be written.
    """
    embedding = model.embedding
    if not isinstance(embedding, Pretrained) or not embedding.frozen or embedding.cache is False:
        return
    cache, splits = _cache(data, embedding), _splits(settings, data)
    missing = cache.missing(splits)
    if embedding.cache == "auto" and ranks.from_rank_zero(missing.size > cache.free()):
        gigabytes = f"{missing.size / 1e9:.1f} GB, and {cache.free() / 1e9:.1f} GB are free"
        print(f"States are not cached, since they take {gigabytes}: they are computed in every epoch.")
        return

    def encode(tokens_BL: Tensor, mask_BL: Tensor) -> Tensor:
        return embedding.encode(tokens_BL.to(device), mask_BL.to(device))

    if missing.texts:
        print(f"States of {len(missing.texts):,} texts ({missing.size / 1e9:.1f} GB) are cached in {cache.folder}.")
    rank, tokens = ranks.rank(), BATCH_TOKENS if device.type == "cpu" else GPU_TOKENS
    with ranks.raise_on_all_ranks():
        cache.compute(splits, encode, progress, rank=rank, world_size=ranks.world(), batch_tokens=tokens)
    # Ranks on a machine with a cache of its own compute the rest there.
    cache.compute(splits, encode, progress, rank=rank, batch_tokens=tokens)
    for split in splits:
        split.states = States(cache, split)


def require_positions(settings: Settings, model: TextClassifier) -> None:
    """Refuses texts that are longer than the positions of a pretrained encoder.

    Raises:
        SettingError: With both numbers.
    """
    embedding, length = model.embedding, settings.data["max_length"]
    if isinstance(embedding, Pretrained) and embedding.positions and (length is None or length > embedding.positions):
        message = (
            f"data.max_length must be at most {embedding.positions}, the positions of "
            f"model.embedding.name={embedding.name}, got {'null' if length is None else length}."
        )
        raise SettingError(Fault("data.max_length", "range", message))


def describe_states(settings: Settings, data: TextData, model: TextClassifier) -> list[str]:
    """Returns a line on what the states cost that a training would cache: texts, bytes and minutes."""
    embedding = model.embedding
    if not isinstance(embedding, Pretrained) or not embedding.frozen or embedding.cache is False:
        return []
    cache = _cache(data, embedding)
    missing = cache.missing(_splits(settings, data))
    if not missing.texts:
        return [f"States: all are cached in {cache.folder}."]
    split, row = missing.texts[len(missing.texts) // 2]
    tokens = int(split.lengths[row])
    batch = split[[row] * max(1, BATCH_TOKENS // tokens)]
    for _ in range(2):  # the first one reads the weights
        started = time.perf_counter()
        embedding.encode(batch.tokens_BL, batch.mask_BL)
        seconds = (time.perf_counter() - started) / batch.tokens_BL.numel() * missing.tokens
    lack = "" if missing.size <= cache.free() else f", which has {cache.free() / 1e9:.1f} GB left"
    return [
        f"States: {plural(len(missing.texts), 'text')} to encode once, {missing.size / 1e9:.2f} GB in {cache.folder}"
        f"{lack}; about {seconds / 60:.1f} min on the CPU."
    ]


def _splits(settings: Settings, data: TextData) -> Sequence[Split]:
    return [data.split(name) for name in ("train", "val", *(("test",) if settings.test else ()))]


def _cache(data: TextData, embedding: Pretrained) -> StateCache:
    """Returns the cache of an encoder's states of texts that are clipped as those of the data are."""
    layer = "mix" if embedding.layer == "mix" else embedding.layer % (embedding.layers + 1)
    content = [FORMAT, embedding.fingerprint, layer, embedding.dtype, data.clip, data.max_length]
    key = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    description = (
        f"{embedding.name}, layer {embedding.layer}, {embedding.dtype}, {data.max_length} tokens ({data.clip})"
    )
    return StateCache(cache_folder(data.cache_dir) / f"states-{key}", width=embedding.width, description=description)
