"""Rows to batches: which rows go together, and their tokens as padded tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from sentattn.data.clipping import Clip, clipped, kept_positions
from sentattn.data.corpus import Corpus
from sentattn.data.text import PAD_ID

WINDOW = 100
"""Batches that are sorted by length together: enough to leave little padding, few enough to stay random."""


FLAT_ROWS = 1000
"""Rows that are padded together on their way to one flat array."""


class Batch(NamedTuple):
    """Some rows of a split.

    Attributes:
        tokens_BL: Ids, int64; `<pad>` behind the end of a row.
        mask_BL: True at real tokens.
        labels_B: Classes, int64.
        rows_B: Indices of the rows within their split, int64.
    """

    tokens_BL: Tensor
    mask_BL: Tensor
    labels_B: Tensor
    rows_B: Tensor


class TokenRows(Dataset[Batch]):
    """The rows of a split; an index is a whole batch of rows, so that no Python loop runs over rows or tokens.

    Args:
        corpus: All rows.
        rows: Those of the split.
        ids: Id of each word type.
        max_length: Most tokens of a row that are read; None reads all.
        clip: What is kept of a longer row.

    Attributes:
        lengths: How many tokens of each row are read.
    """

    def __init__(
        self,
        corpus: Corpus,
        rows: NDArray[np.int64],
        *,
        ids: NDArray[np.int64],
        max_length: int | None,
        clip: Clip,
    ) -> None:
        self._corpus = corpus
        self._starts = corpus.token_offsets[rows]
        self._whole_lengths = corpus.lengths[rows]
        self._labels = corpus.labels[rows]
        self._ids = ids
        self._max_length = max_length
        self._clip = clip
        self.lengths = clipped(self._whole_lengths, max_length)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, rows: Sequence[int] | NDArray[np.int64] | int) -> Batch:
        """Returns rows as one batch, padded to the longest of them."""
        rows_B = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        positions_BL, mask_BL = kept_positions(self._whole_lengths[rows_B], self._max_length, self._clip)
        types_BL = self._corpus.tokens[self._starts[rows_B, None] + positions_BL]
        tokens_BL = np.where(mask_BL, self._ids[types_BL], PAD_ID)
        return Batch(*map(torch.from_numpy, (tokens_BL, mask_BL, self._labels[rows_B], rows_B)))

    def flat(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the ids of all rows one after another, and where each row starts, with the end of the last."""
        offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        tokens = np.empty(offsets[-1], dtype=np.int64)
        for start in range(0, len(self), FLAT_ROWS):
            rows = np.arange(start, min(start + FLAT_ROWS, len(self)))
            tokens_BL, mask_BL, *_ = self[rows]
            tokens[offsets[start] : offsets[rows[-1] + 1]] = tokens_BL[mask_BL].numpy()
        return tokens, offsets


class ShuffledBatches(Sampler[list[int]]):
    """Every row once an epoch, in an order that depends on seed and epoch alone.

    Args:
        lengths: How many tokens each row has.
        batch_size: Rows of a batch; the last one may be smaller.
        seed: Seed of the order.
        by_length: Whether rows of like length share a batch: random windows of 100 batches are
            sorted and cut, and the batches shuffled. Otherwise all is random.
    """

    def __init__(self, lengths: NDArray[np.int64], *, batch_size: int, seed: int, by_length: bool) -> None:
        self._lengths = lengths
        self._batch_size = batch_size
        self._seed = seed
        self._by_length = by_length
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next pass; Lightning calls it."""
        self._epoch = epoch

    def __len__(self) -> int:
        return -(-len(self._lengths) // self._batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        random = np.random.default_rng([self._seed, self._epoch])
        order = random.permutation(len(self._lengths))
        batches = np.arange(len(self))
        if self._by_length:
            order = self._sorted_in_windows(order)
            batches = random.permutation(batches)
        for batch in batches:
            yield order[batch * self._batch_size : (batch + 1) * self._batch_size].tolist()

    def _sorted_in_windows(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        window = np.arange(len(order)) // (WINDOW * self._batch_size)
        return order[np.lexsort((self._lengths[order], window))]


class LengthBatches(Sampler[list[int]]):
    """Every row once, the longest first: the least padding, and what does not fit into memory fails at once.

    Args:
        lengths: How many tokens each row has.
        batch_size: Rows of a batch; the last one may be smaller.
    """

    def __init__(self, lengths: NDArray[np.int64], *, batch_size: int) -> None:
        self._order = np.argsort(-lengths, kind="stable")
        self._batch_size = batch_size

    def __len__(self) -> int:
        return -(-len(self._order) // self._batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, len(self._order), self._batch_size):
            yield self._order[start : start + self._batch_size].tolist()


def pad(rows: Sequence[NDArray[np.integer]]) -> tuple[Tensor, Tensor]:
    """Returns rows of ids as one tensor, (B, L), int64, and the mask of its real tokens."""
    lengths_B = np.array([len(ids) for ids in rows], dtype=np.int64)
    mask_BL = np.arange(lengths_B.max(initial=0)) < lengths_B[:, None]
    tokens_BL = np.full(mask_BL.shape, PAD_ID, dtype=np.int64)
    tokens_BL[mask_BL] = np.concatenate(rows) if rows else []
    return torch.from_numpy(tokens_BL), torch.from_numpy(mask_BL)
