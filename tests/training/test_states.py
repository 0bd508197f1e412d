"""The cache of states: by text, several layers in one pass, resumed after a kill, shared, refused on a full disk."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
import torch
from refusals import assert_refused, refused
from safetensors.torch import load_file
from torch import Tensor

from sentattn.data.batching import Batch
from sentattn.data.cache import no_progress
from sentattn.training import states
from sentattn.training.states import StateCache, States, compute_states, missing_texts

WIDTH = 3


class Rows:
    """As much of a `Split` as the cache reads: texts of given lengths, identified by a number."""

    def __init__(self, lengths: Sequence[int], first: int = 0) -> None:
        self.lengths = np.array(lengths)
        self.row_id = [f"{first + i:016x}" for i in range(len(lengths))]
        self._first = first

    def __getitem__(self, rows: np.ndarray) -> Batch:
        lengths_B = self.lengths[rows]
        mask_BL = torch.arange(lengths_B.max()) < torch.from_numpy(lengths_B)[:, None]
        rows_B = torch.from_numpy(rows)
        return Batch(mask_BL * (10 + self._first + rows_B)[:, None], mask_BL, rows_B, rows_B, lengths_B)


class Encoder:
    """States that say which token and place they are of; counts the texts."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.texts = 0
        self.stop_after = stop_after

    def __call__(self, tokens_BL: Tensor, mask_BL: Tensor) -> list[Tensor]:
        if self.stop_after is not None and self.texts >= self.stop_after:
            raise KeyboardInterrupt
        self.texts += len(tokens_BL)
        places_BL = torch.arange(tokens_BL.shape[1]).expand_as(tokens_BL)
        first = torch.stack([tokens_BL, places_BL, 0 * places_BL], dim=-1).half()
        return [first, torch.cat([first, first], dim=-1)]


@pytest.fixture(autouse=True)
def _a_chunk_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "CHUNK_BYTES", 1)


def make_cache(folder: Path, layer: int = 0) -> StateCache:
    return StateCache(folder / f"states-{layer}", width=WIDTH * (1 + layer), description="test")


def assert_states(cache: StateCache, rows: Rows, first: int = 0) -> None:
    gathered = States(cache, rows).gather(np.arange(len(rows.lengths)), int(rows.lengths.max()) + 1)  # type: ignore[arg-type]
    for row, length in enumerate(rows.lengths.tolist()):
        np.testing.assert_array_equal(gathered[row, :length, 0], 10 + first + row)
        np.testing.assert_array_equal(gathered[row, :length, 1], np.arange(length))
        assert not gathered[row, length:].any()


def compute(*caches_and_rows: StateCache | Rows, encoder: Encoder | None = None, **ranks: int) -> int:
    """Computes the states of rows in caches, the first layer or both; returns how many texts were encoded."""
    encoder = encoder or Encoder()
    caches = [each for each in caches_and_rows if isinstance(each, StateCache)]
    rows = [each for each in caches_and_rows if isinstance(each, Rows)]

    def encode(tokens_BL: Tensor, mask_BL: Tensor) -> list[Tensor]:
        return encoder(tokens_BL, mask_BL)[: len(caches)]

    compute_states(caches, rows, encode, no_progress, **ranks, batch_tokens=8)  # type: ignore[arg-type]
    return encoder.texts


def test_states_are_found_by_text_and_computed_once(tmp_path: Path) -> None:
    cache, train, val = make_cache(tmp_path), Rows([2, 5, 1, 3]), Rows([4, 4], first=4)
    assert compute(cache, train, val) == 6
    assert_states(cache, train)
    assert_states(cache, val, first=4)
    assert compute(cache, train, val) == 0
    assert compute(make_cache(tmp_path), Rows([2, 5, 1, 3, 4, 4, 7])) == 1  # another split, with one more text


def test_a_text_of_two_splits_is_encoded_once(tmp_path: Path) -> None:
    assert compute(make_cache(tmp_path), Rows([2, 5, 1]), Rows([2, 5])) == 3


def test_a_pass_writes_to_each_layer_what_it_lacks(tmp_path: Path) -> None:
    first, second, rows = make_cache(tmp_path), make_cache(tmp_path, 1), Rows([2, 5, 1, 3])
    compute(first, Rows([2, 5]))
    assert missing_texts([first, second], [rows]).size == 2 * WIDTH * (1 + 3) + 2 * 2 * WIDTH * 11  # type: ignore[list-item]
    assert compute(first, second, rows) == 4
    for cache in (first, second):
        assert_states(cache, rows)
        assert len(cache.places()) == 4
        assert sum(len(load_file(file)["lengths"]) for file in cache.folder.glob("*.safetensors")) == 4


def test_an_interrupted_process_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, rows = make_cache(tmp_path), Rows([8, 7, 6, 5, 4, 3])
    monkeypatch.setattr(states, "CHUNK_BYTES", 1 << 30)
    with pytest.raises(KeyboardInterrupt):
        compute(cache, rows, encoder=Encoder(stop_after=3))
    assert compute(cache, rows) == 3
    assert_states(cache, rows)


@pytest.mark.parametrize("left", [-3, 20, 0])
def test_a_damaged_chunk_is_computed_again(tmp_path: Path, left: int) -> None:
    """However much of it is left."""
    cache, rows = make_cache(tmp_path), Rows([8, 7, 6])
    compute(cache, rows)
    [chunk] = [place[0] for row_id, place in cache.places().items() if row_id == rows.row_id[1]]
    chunk.write_bytes(chunk.read_bytes()[:left])
    assert compute(cache, rows) == 1
    assert_states(cache, rows)


def test_ranks_share_the_work(tmp_path: Path) -> None:
    cache, rows = make_cache(tmp_path), Rows([8, 7, 6, 5, 4])
    missing = missing_texts([cache], [rows])  # type: ignore[list-item]
    assert [rows.lengths[its_rows].tolist() for _, its_rows in missing.rows] == [[8, 7, 6, 5, 4]]
    # The second rank has its own texts also when the first has written some already.
    with pytest.raises(KeyboardInterrupt):
        compute(cache, rows, encoder=Encoder(stop_after=1), rank=0, world_size=2)
    assert compute(cache, rows, rank=1, world_size=2) == 2
    assert compute(cache, rows, rank=0, world_size=2) == 2
    assert_states(cache, rows)
    assert compute(cache, rows) == 0


def test_two_that_begin_at_once_compute_each_text_once(tmp_path: Path) -> None:
    rows, encoders, start = Rows([3, 5, 2, 4] * 50), [Encoder(), Encoder()], Barrier(2)

    def compute(encoder: Encoder) -> None:
        caches = [make_cache(tmp_path), make_cache(tmp_path, 1)]
        start.wait()
        compute_states(caches, [rows], encoder, no_progress)  # type: ignore[list-item]

    with ThreadPoolExecutor() as pool:
        list(pool.map(compute, encoders))
    assert sum(encoder.texts for encoder in encoders) == 200
    assert_states(make_cache(tmp_path), rows)


def test_a_chunk_that_is_gone_is_said(tmp_path: Path) -> None:
    cache, rows = make_cache(tmp_path), Rows([2, 1])
    compute(cache, rows)
    cached = States(cache, rows)  # type: ignore[arg-type]
    cache.folder.rename(tmp_path / "gone")
    assert_refused(lambda: cached.gather(np.arange(2), 2), "data.cache_dir", "not_found")


def test_the_room_of_a_cache_that_is_gone(tmp_path: Path) -> None:
    cache = make_cache(tmp_path / "cache")
    assert cache.free() > 0, "its folder is created again"
    (tmp_path / "cache").rmdir()
    (tmp_path / "cache").touch()
    assert refused(cache.free) == [("data.cache_dir", "unwritable")]
