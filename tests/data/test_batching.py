"""Every row once an epoch, in whole batches, with the tokens it has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from sentattn.data.batching import LengthBatches, ShuffledBatches, TokenRows, pad
from sentattn.data.corpus import Corpus

lengths_and_sizes = {
    "lengths": st.lists(st.integers(1, 50), min_size=1, max_size=300).map(np.array),
    "batch_size": st.integers(1, 40),
}


@given(**lengths_and_sizes, seed=st.integers(0, 9), epoch=st.integers(0, 9), by_length=st.booleans())
def test_an_epoch_holds_every_row_once(lengths, batch_size, seed, epoch, by_length) -> None:
    batches = ShuffledBatches(lengths, batch_size=batch_size, seed=seed, by_length=by_length)
    batches.set_epoch(epoch)
    drawn = list(batches)
    assert len(drawn) == len(batches)
    assert sorted(row for batch in drawn for row in batch) == list(range(len(lengths)))
    assert sorted(map(len, drawn))[1:] == [batch_size] * (len(drawn) - 1)


@given(**lengths_and_sizes)
def test_length_batches_hold_every_row_once_longest_first(lengths, batch_size) -> None:
    batches = LengthBatches(lengths, batch_size=batch_size)
    rows = [row for batch in batches for row in batch]
    assert sorted(rows) == list(range(len(lengths)))
    assert (np.diff(lengths[rows]) <= 0).all()
    assert len(list(batches)) == len(batches)


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        batches = ShuffledBatches(np.arange(100), batch_size=8, seed=seed, by_length=True)
        batches.set_epoch(epoch)
        return list(batches)

    assert order(0, 0) == order(0, 0)
    assert len({str(order(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4


def _padding(lengths: np.ndarray, batches: list[list[int]]) -> float:
    padded = sum(lengths[batch].max() * len(batch) for batch in batches)
    return float(1 - lengths.sum() / padded)


def test_sorting_leaves_little_padding() -> None:
    lengths = np.random.default_rng(0).lognormal(5, 0.7, size=20000).astype(np.int64) + 1
    by_length, by_chance = (
        list(ShuffledBatches(lengths, batch_size=64, seed=0, by_length=choice)) for choice in (True, False)
    )
    assert _padding(lengths, by_length) < 0.1 < 0.5 < _padding(lengths, by_chance)
    # Random nevertheless: neighbouring batches are not of neighbouring lengths.
    means = np.array([lengths[batch].mean() for batch in by_length])
    assert abs(np.corrcoef(means[:-1], means[1:])[0, 1]) < 0.2


def test_a_batch_holds_the_ids_of_its_rows(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=["a b c d e", "b a", "zzz", "e"])
    assert corpus.words == ["a", "b", "c", "d", "e", "zzz"]
    ids = np.array([10, 11, 12, 13, 14, 1])
    rows = TokenRows(corpus, np.array([3, 0, 1, 2]), ids=ids, max_length=3, clip="both")
    batch = rows[[1, 2, 3]]
    assert batch.tokens_BL.tolist() == [[10, 11, 14], [11, 10, 0], [1, 0, 0]]
    assert batch.mask_BL.tolist() == [[True, True, True], [True, True, False], [True, False, False]]
    assert batch.rows_B.tolist() == [1, 2, 3]
    assert (batch.tokens_BL.dtype, batch.mask_BL.dtype) == (torch.int64, torch.bool)
    assert rows.lengths.tolist() == [1, 3, 2, 1]
    assert rows[0].tokens_BL.tolist() == [[14]]


def test_flat_holds_the_clipped_rows_one_after_another(corpus_of: Callable[..., Corpus], monkeypatch) -> None:
    monkeypatch.setattr("sentattn.data.batching.FLAT_ROWS", 2)
    corpus = corpus_of(train=["a b c d e", "b a", "zzz", "e"])
    rows = TokenRows(corpus, np.array([3, 0, 1]), ids=np.arange(10, 16), max_length=3, clip="both")
    tokens, offsets = rows.flat()
    assert tokens.tolist() == [14, 10, 11, 14, 11, 10]
    assert offsets.tolist() == [0, 1, 4, 6]


def test_pad() -> None:
    tokens_BL, mask_BL = pad([np.array([5, 6], dtype=np.int32), np.array([7], dtype=np.int32)])
    assert tokens_BL.tolist() == [[5, 6], [7, 0]]
    assert tokens_BL.dtype == torch.int64
    assert mask_BL.tolist() == [[True, True], [True, False]]
