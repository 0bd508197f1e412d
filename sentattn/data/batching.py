"""Padded batches, the order of rows and batches, and the loader of each rank."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from sentattn.data.tokenizer import PAD_ID

WINDOW = 128
"""Batches whose rows are sorted by length together: enough for little padding, few enough to stay random."""


class Batch(NamedTuple):
    """Padded rows of a split.

    Attributes:
        tokens_BL: Ids, int64, `<pad>` after the end of a row.
        mask_BL: True for real tokens.
        labels_B: Classes, int64.
        rows_B: Indices of the rows within their split, int64.
        lengths_B: Numbers of real tokens, int64. A NumPy array, which stays in main memory when the batch is moved, so
            that reading it does not wait for a GPU.
        states_BLE: Cached states of a frozen encoder, in 16 bits, where there are any.
    """

    tokens_BL: Tensor
    mask_BL: Tensor
    labels_B: Tensor
    rows_B: Tensor
    lengths_B: NDArray[np.int64]
    states_BLE: Tensor | None = None

    def take(self, rows: slice) -> Batch:
        """Returns some of the rows with the same padding."""
        states_BLE = None if self.states_BLE is None else self.states_BLE[rows]
        tokens_BL, mask_BL, labels_B, rows_B, lengths_B, _ = self
        return Batch(tokens_BL[rows], mask_BL[rows], labels_B[rows], rows_B[rows], lengths_B[rows], states_BLE)


def pad(rows: Sequence[NDArray[np.integer]]) -> tuple[Tensor, Tensor]:
    """Returns rows of ids as one tensor, (B, L), int64, and the mask of the real tokens, bool."""
    lengths_B = np.array([len(ids) for ids in rows], dtype=np.int64)
    mask_BL = np.arange(lengths_B.max(initial=0)) < lengths_B[:, None]
    tokens_BL = np.full(mask_BL.shape, PAD_ID, dtype=np.int64)
    tokens_BL[mask_BL] = np.concatenate(rows) if rows else []
    return torch.from_numpy(tokens_BL), torch.from_numpy(mask_BL)


class TrainingOrder(Sampler[list[int]]):
    """Yields the rows of each batch of an epoch; the order depends only on seed and epoch."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next pass; Lightning calls it."""
        self._epoch = epoch

    def random(self) -> np.random.Generator:
        """Returns the random generator of the epoch."""
        return np.random.default_rng([self._seed, self._epoch])


class ShuffledBatches(TrainingOrder):
    """Every row once per epoch; the last batch may be smaller.

    With `by_length`, rows of similar length share a batch: random windows of 128 batches are sorted by length and cut
    into batches, which are shuffled. Otherwise the order is random. `lengths` are the numbers of tokens of the rows.
    """

    def __init__(self, lengths: NDArray[np.int64], *, batch_size: int, seed: int, by_length: bool) -> None:
        super().__init__(seed)
        self._lengths = lengths
        self._batch_size = batch_size
        self._by_length = by_length

    def __len__(self) -> int:
        return -(-len(self._lengths) // self._batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        random = self.random()
        order = random.permutation(len(self._lengths))
        batches = np.arange(len(self))
        if self._by_length:
            window = np.arange(len(order)) // (WINDOW * self._batch_size)
            order = order[np.lexsort((self._lengths[order], window))]
            batches = random.permutation(batches)
        for batch in batches:
            yield order[batch * self._batch_size : (batch + 1) * self._batch_size].tolist()


def length_batches(lengths: NDArray[np.int64], *, batch_size: int) -> list[list[int]]:
    """Returns the rows of each batch, every row once, the longest first; the last batch may be smaller.

    The padding is minimal, and a batch that exceeds the memory fails at once. `lengths` are the numbers of tokens.
    """
    order = np.argsort(-lengths, kind="stable")
    return [order[start : start + batch_size].tolist() for start in range(0, len(order), batch_size)]


class FixedBuckets(TrainingOrder):
    """Every row once per epoch, in batches from buckets of fixed lengths; batches of short rows are larger.

    As in the Gluon tutorial on structured self-attention (GluonNLP's `FixedBucketSampler` with constant width): the
    keys of the buckets, their maximal lengths, are max, max - width, ... with width = max((1 + max - min) //
    num_buckets, 1); a row belongs to the smallest key that is not below its length; a batch of a bucket has
    max(int(max / key x bucket_ratio x batch_size), batch_size) rows. Empty buckets are left out.

    Args:
        lengths: Number of tokens of each row, 1 or more.
        batch_size: Minimal rows per batch, except for the last batch of a bucket.
        num_buckets: Maximal number of buckets.
        bucket_ratio: Growth of batches of short rows: with 1 all batches have about as many tokens.
        seed: Seed of the order.

    Attributes:
        keys: Maximal length of the rows of each bucket, ascending.
        counts: Number of rows of each bucket.
        batch_sizes: Rows per batch of each bucket.
    """

    def __init__(
        self, lengths: NDArray[np.int64], *, batch_size: int, num_buckets: int, bucket_ratio: float, seed: int
    ) -> None:
        super().__init__(seed)
        shortest, longest = int(lengths.min()), int(lengths.max())
        width = max((1 + longest - shortest) // num_buckets, 1)
        keys = np.unique(np.maximum(longest - np.arange(num_buckets) * width, shortest))
        bucket = np.searchsorted(keys, lengths)
        occupied, counts = np.unique(bucket, return_counts=True)
        self.keys: list[int] = keys[occupied].tolist()
        self.counts: list[int] = counts.tolist()
        self.batch_sizes = [max(int(longest / key * bucket_ratio * batch_size), batch_size) for key in self.keys]
        self._buckets = [np.flatnonzero(bucket == index) for index in occupied]

    def __len__(self) -> int:
        return sum(-(-count // size) for count, size in zip(self.counts, self.batch_sizes, strict=True))

    def __iter__(self) -> Iterator[list[int]]:
        random = self.random()
        batches = [
            rows[start : start + size]
            for rows, size in zip(map(random.permutation, self._buckets), self.batch_sizes, strict=True)
            for start in range(0, len(rows), size)
        ]
        for batch in random.permutation(len(batches)):
            yield batches[batch].tolist()

    def statistics(self) -> str:
        """Returns the buckets as a small table."""
        lines = [f"Buckets: {sum(self.counts):,} training rows in {len(self):,} batches."]
        for name, numbers in (("most tokens", self.keys), ("rows", self.counts), ("rows a batch", self.batch_sizes)):
            lines.append(f"  {name:<12}" + "".join(f"{number:>9,}" for number in numbers))
        return "\n".join(lines)


class OrderOfRank(Sampler[list[int]]):
    """The batches of one rank; they can start in the middle of an epoch.

    Of a `TrainingOrder` each rank has some rows of every batch, so that together the ranks train on the batches of a
    single process. All ranks have the same number of batches, and no rows of a batch with fewer rows than ranks. Of a
    list, for evaluation, each batch belongs to one rank.

    Attributes:
        first: Number of batches that are skipped.
    """

    def __init__(self, order: TrainingOrder | Sequence[list[int]], *, rank: int, world_size: int) -> None:
        self._order, self._rank, self._world_size = order, rank, world_size
        self.first = 0

    def set_epoch(self, epoch: int) -> None:
        """Passes the epoch on to the order."""
        if isinstance(self._order, TrainingOrder):
            self._order.set_epoch(epoch)

    def __len__(self) -> int:
        batches = len(self._order)  # type: ignore[arg-type]
        is_training = isinstance(self._order, TrainingOrder)
        return batches if is_training else len(range(self._rank, batches, self._world_size))

    def __iter__(self) -> Iterator[list[int]]:
        batches: Iterator[list[int]] = iter(self._order)
        if isinstance(self._order, TrainingOrder):
            # Neighbouring rows have similar lengths, so all ranks get about as many tokens.
            batches = (batch[self._rank :: self._world_size] for batch in batches)
        else:
            batches = itertools.islice(batches, self._rank, None, self._world_size)
        return itertools.islice(batches, self.first, None)  # reads `first` now, not with the first batch


class BatchLoader(DataLoader[Batch]):
    """Loads the batches of one rank and can resume in the middle of an epoch; Lightning saves and restores its state.

    With `num_workers=0` the batches are built in this process.
    """

    def __init__(
        self,
        split: Dataset[Batch],
        order: TrainingOrder | Sequence[list[int]],
        num_workers: int,
        *,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self._order = OrderOfRank(order, rank=rank, world_size=world_size)
        self._yielded = 0
        # An item of the data set is a whole batch, so the order is the sampler, whose epoch Lightning sets.
        super().__init__(
            split,
            sampler=self._order,
            batch_size=None,
            collate_fn=_unchanged,
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator(),  # otherwise each pass draws a number from the global generator
        )

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]  # a generator, so that the epoch is set first
        """Yields the batches of an epoch; right after `load_state_dict`, the remaining batches."""
        self._yielded = self._order.first
        batches = super().__iter__()  # workers have read the order after this line
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


def _unchanged(batch: object) -> object:
    return batch
