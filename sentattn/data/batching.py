"""Rows to batches: their tokens as padded tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from sentattn.data.clipping import Clip, clipped, kept_positions
from sentattn.data.corpus import Corpus
from sentattn.data.text import PAD_ID

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


def pad(rows: Sequence[NDArray[np.integer]]) -> tuple[Tensor, Tensor]:
    """Returns rows of ids as one tensor, (B, L), int64, and the mask of its real tokens."""
    lengths_B = np.array([len(ids) for ids in rows], dtype=np.int64)
    mask_BL = np.arange(lengths_B.max(initial=0)) < lengths_B[:, None]
    tokens_BL = np.full(mask_BL.shape, PAD_ID, dtype=np.int64)
    tokens_BL[mask_BL] = np.concatenate(rows) if rows else []
    return torch.from_numpy(tokens_BL), torch.from_numpy(mask_BL)


def loader(rows: TokenRows, order: Sampler[list[int]], num_workers: int) -> DataLoader[Batch]:
    """Returns the batches of rows, in an order.

    Args:
        rows: The rows of a split.
        order: Gives the rows of each batch.
        num_workers: Processes that make batches; 0 makes them in this one.
    """
    # A batch is the loader's item, and so the order its sampler: that is what Lightning tells the epoch.
    return DataLoader(
        rows,
        sampler=order,
        batch_size=None,
        collate_fn=_unchanged,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        pin_memory=torch.cuda.is_available(),
    )


def _unchanged(batch: Any) -> Any:
    return batch
