"""The cache of states: by text, resumed after a kill, shared, refused on a full disk."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
import torch
from torch import Tensor

from sentattn.data.batching import Batch
from sentattn.data.cache import no_progress
from sentattn.data.states import ROW, StateCache, States
from sentattn.errors import DataError

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

    def __call__(self, tokens_BL: Tensor, mask_BL: Tensor) -> Tensor:
        if self.stop_after is not None and self.texts >= self.stop_after:
            raise KeyboardInterrupt
        self.texts += len(tokens_BL)
        places_BL = torch.arange(tokens_BL.shape[1]).expand_as(tokens_BL)
        return torch.stack([tokens_BL, places_BL, 0 * places_BL], dim=-1).half()


def make_cache(folder: Path) -> StateCache:
    return StateCache(folder / "states", width=WIDTH, description="test")


def assert_states(cache: StateCache, rows: Rows, first: int = 0) -> None:
    gathered = States(cache, rows).gather(np.arange(len(rows.lengths)), int(rows.lengths.max()) + 1)  # type: ignore[arg-type]
    for row, length in enumerate(rows.lengths.tolist()):
        np.testing.assert_array_equal(gathered[row, :length, 0], 10 + first + row)
        np.testing.assert_array_equal(gathered[row, :length, 1], np.arange(length))
        assert not gathered[row, length:].any()


def compute(cache: StateCache, *rows: Rows, encoder: Encoder | None = None, **ranks: int) -> int:
    encoder = encoder or Encoder()
    cache.compute(rows, encoder, no_progress, **ranks, batch_tokens=8)  # type: ignore[arg-type]
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


def test_a_killed_process_loses_one_batch(tmp_path: Path) -> None:
    cache, rows = make_cache(tmp_path), Rows([8, 7, 6, 5, 4, 3])
    with pytest.raises(KeyboardInterrupt):
        compute(cache, rows, encoder=Encoder(stop_after=3))
    for name, garbage in (("states-0.bin", b"\1" * 11), ("rows-0.bin", b"\2" * 7)):  # what was not complete
        with (cache.folder / name).open("ab") as file:
            file.write(garbage)
    assert compute(cache, rows) == 3
    assert_states(cache, rows)


def test_states_that_were_cut_off_are_computed_again(tmp_path: Path) -> None:
    cache, rows = make_cache(tmp_path), Rows([8, 7, 6])
    compute(cache, rows)
    file = cache.folder / "states-0.bin"
    file.write_bytes(file.read_bytes()[: 2 * WIDTH * 15])
    assert compute(cache, rows) == 1
    assert_states(cache, rows)


def test_damaged_records_are_computed_again(tmp_path: Path) -> None:
    cache, rows = make_cache(tmp_path), Rows([8, 7, 6, 5])
    compute(cache, rows)
    file = cache.folder / "rows-0.bin"
    content = bytearray(file.read_bytes())
    content[2 * ROW.itemsize + 20] ^= 255  # the start of the third text
    file.write_bytes(content)
    assert compute(cache, rows) == 2
    assert_states(cache, rows)


def test_ranks_share_the_work(tmp_path: Path) -> None:
    cache, rows = make_cache(tmp_path), Rows([8, 7, 6, 5, 4])
    missing = cache.missing([rows])  # type: ignore[list-item]
    assert [rows.lengths[its_rows].tolist() for _, its_rows in missing.rows] == [[8, 7, 6, 5, 4]]
    # The second rank has its own texts also when the first has written some already.
    with pytest.raises(KeyboardInterrupt):
        compute(cache, rows, encoder=Encoder(stop_after=1), rank=0, world_size=2)
    assert compute(cache, rows, rank=1, world_size=2) == 2
    assert compute(cache, rows, rank=0, world_size=2) == 2
    assert_states(cache, rows)
    assert compute(cache, rows) == 0


def test_a_disk_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = make_cache(tmp_path)
    monkeypatch.setattr(StateCache, "free", lambda self: 2 * WIDTH * 3 - 1)
    encoder = Encoder()
    with pytest.raises(DataError) as error:
        compute(cache, Rows([3]), encoder=encoder)
    assert (error.value.faults[0].key, error.value.faults[0].kind) == ("data.cache_dir", "resources")
    assert not encoder.texts


def test_two_that_begin_at_once_compute_each_text_once(tmp_path: Path) -> None:
    rows, encoders, start = Rows([3, 5, 2, 4] * 50), [Encoder(), Encoder()], Barrier(2)

    def compute(encoder: Encoder) -> None:
        cache = make_cache(tmp_path)
        start.wait()
        cache.compute([rows], encoder, no_progress)  # type: ignore[list-item]

    with ThreadPoolExecutor() as pool:
        list(pool.map(compute, encoders))
    assert sum(encoder.texts for encoder in encoders) == 200
    assert_states(make_cache(tmp_path), rows)


def test_another_process_reads_the_files_by_their_paths(tmp_path: Path) -> None:
    cache, rows = make_cache(tmp_path), Rows([2, 1])
    compute(cache, rows)
    states = States(cache, rows)  # type: ignore[arg-type]
    before = states.gather(np.arange(2), 2)
    assert len(pickle.dumps(states)) < 2000
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(states)).gather(np.arange(2), 2), before)
