"""A batch holds the tokens of its rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from sentattn.data.batching import TokenRows, pad
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
