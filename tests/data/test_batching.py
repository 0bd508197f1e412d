"""A batch holds the tokens of its rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from sentattn.data.batch_order import LengthBatches, ShuffledBatches
from sentattn.data.batching import BatchLoader, TokenRows, pad
from sentattn.data.corpus import Corpus


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


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loader_goes_on_behind_the_batches_that_were_given(
    corpus_of: Callable[..., Corpus], num_workers: int
) -> None:
    corpus = corpus_of(train=[f"a{i} " * (1 + i % 5) for i in range(20)])
    rows = TokenRows(corpus, np.arange(20), ids=np.arange(len(corpus.words)), max_length=None, clip="head")

    def epochs(loader: BatchLoader, first: int) -> list[list[list[int]]]:
        passes = []
        for epoch in range(first, 3):
            loader.sampler.set_epoch(epoch)
            passes.append([batch.rows_B.tolist() for batch in loader])
        return passes

    def shuffled() -> BatchLoader:
        return BatchLoader(rows, ShuffledBatches(rows.lengths, batch_size=3, seed=1, by_length=True), num_workers)

    whole = epochs(shuffled(), 0)
    loader = shuffled()
    loader.sampler.set_epoch(1)
    given = iter(loader)
    before = [next(given).rows_B.tolist() for _ in range(4)]
    state = loader.state_dict()
    assert state == {"batches": 4}
    again = shuffled()
    again.load_state_dict(state)
    after, *rest = epochs(again, 1)
    assert before + after == whole[1]
    assert rest == whole[2:]


def test_a_pass_takes_no_number_from_the_training(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(train=["a", "b"])
    rows = TokenRows(corpus, np.arange(2), ids=np.arange(len(corpus.words)), max_length=None, clip="head")
    before = torch.get_rng_state()
    assert len(list(BatchLoader(rows, LengthBatches(rows.lengths, batch_size=1), 0))) == 2
    assert torch.equal(before, torch.get_rng_state())
