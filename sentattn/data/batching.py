"""Batches: the tokens of some rows as padded tensors, and the loader that yields them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from sentattn.data.corpus import Corpus
from sentattn.data.text import PAD_ID, Clip, clipped, kept_positions

FLAT_ROWS = 1000
"""Rows that are padded together on their way to one flat array."""


class Batch(NamedTuple):
    """Some rows of a split.

    Attributes:
        tokens_BL: Ids, int64; `<pad>` after the end of a row.
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
        clip: Which tokens of a longer row are read.

    Attributes:
        lengths: Number of tokens of each row that are read.
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


class FromBatch(Sampler[list[int]]):
    """An order of batches that can start in the middle of an epoch.

    Args:
        order: Yields the rows of each batch; with `set_epoch`, another order each epoch.

    Attributes:
        first: Number of batches that are skipped.
    """

    def __init__(self, order: Sampler[list[int]]) -> None:
        self.order = order
        self.first = 0

    def __len__(self) -> int:
        return len(self.order)  # type: ignore[arg-type]  # every order here has a length

    def __iter__(self) -> Iterator[list[int]]:
        return itertools.islice(self.order, self.first, None)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next pass; Lightning calls it."""
        if hasattr(self.order, "set_epoch"):
            self.order.set_epoch(epoch)


class BatchLoader(DataLoader[Batch]):
    """Loads batches and can resume in the middle of an epoch; Lightning saves and restores its state.

    Args:
        rows: The rows of a split.
        order: Yields the rows of each batch.
        num_workers: Processes that build batches; 0 builds them in this one.
    """

    def __init__(self, rows: TokenRows, order: Sampler[list[int]], num_workers: int) -> None:
        self._order = FromBatch(order)
        self._yielded = 0
        # An item of the loader is a whole batch, so the order is its sampler, whose epoch Lightning sets.
        super().__init__(
            rows,
            sampler=self._order,
            batch_size=None,
            collate_fn=_unchanged,
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator(),  # otherwise each pass draws a number from the generator of the training
        )

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]  # a generator, so that the epoch is set first
        """Yields the batches of an epoch; the first time after `load_state_dict`, the remaining ones."""
        self._yielded = self._order.first
        batches = super().__iter__()  # workers read the order more than once, but no later than here
        self._order.first = 0
        for batch in batches:
            self._yielded += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Returns how many batches of the epoch were yielded."""
        return {"batches": self._yielded}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Starts the next pass after the batches that were yielded."""
        self._order.first = state["batches"]


def _unchanged(batch: Any) -> Any:
    return batch
