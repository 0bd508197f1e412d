"""Order of the batches and of the rows in them, also for several ranks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

Batching: TypeAlias = Literal["sorted", "fixed", "random"]
WINDOW = 100
"""Batches that are sorted by length together: enough to leave little padding, few enough to stay random."""


class ShuffledBatches(Sampler[list[int]]):
    """Every row once an epoch, in an order that depends on seed and epoch alone.

    Args:
        lengths: Number of tokens of each row.
        batch_size: Rows of a batch; the last one may be smaller.
        seed: Seed of the order.
        by_length: Whether rows of similar length share a batch: random windows of 100 batches are
            sorted and cut, and the batches shuffled. Otherwise the order is random.
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
    """Every row once, the longest first: the least padding, and a batch that exceeds the memory fails at once.

    Args:
        lengths: Number of tokens of each row.
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


class FixedBuckets(Sampler[list[int]]):
    """Every row once an epoch, in batches from buckets of fixed lengths; short rows come in larger batches.

    As the Gluon tutorial on structured self-attention does (GluonNLP's `FixedBucketSampler` with constant width): the
    longest rows of the buckets, their keys, are max, max - width, ... with width = max((1 + max - min) //
    num_buckets, 1); a row goes to the smallest key that holds it; a batch of a bucket has
    max(int(max / key x bucket_ratio x batch_size), batch_size) rows. A bucket without a row is left out.

    Args:
        lengths: Number of tokens of each row, 1 or more.
        batch_size: Fewest rows of a batch; the last one of a bucket may be smaller.
        num_buckets: Most buckets.
        bucket_ratio: How far batches of short rows grow: at 1 all batches hold about as many tokens.
        seed: Seed of the order.

    Attributes:
        keys: Most tokens of a row of each bucket, ascending.
        counts: Rows of each bucket.
        batch_sizes: Rows of a batch of each bucket.
    """

    def __init__(
        self, lengths: NDArray[np.int64], *, batch_size: int, num_buckets: int, bucket_ratio: float, seed: int
    ) -> None:
        shortest, longest = int(lengths.min()), int(lengths.max())
        width = max((1 + longest - shortest) // num_buckets, 1)
        keys = np.unique(np.maximum(longest - np.arange(num_buckets) * width, shortest))
        bucket = np.searchsorted(keys, lengths)
        held, counts = np.unique(bucket, return_counts=True)
        self.keys: list[int] = keys[held].tolist()
        self.counts: list[int] = counts.tolist()
        self.batch_sizes = [max(int(longest / key * bucket_ratio * batch_size), batch_size) for key in self.keys]
        self._members = [np.flatnonzero(bucket == place) for place in held]
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next pass; Lightning calls it."""
        self._epoch = epoch

    def __len__(self) -> int:
        return sum(-(-count // size) for count, size in zip(self.counts, self.batch_sizes, strict=True))

    def __iter__(self) -> Iterator[list[int]]:
        random = np.random.default_rng([self._seed, self._epoch])
        batches = [
            rows[start : start + size]
            for rows, size in zip(map(random.permutation, self._members), self.batch_sizes, strict=True)
            for start in range(0, len(rows), size)
        ]
        for batch in random.permutation(len(batches)):
            yield batches[batch].tolist()

    def statistics(self) -> str:
        """Returns the buckets as a small table."""
        rows = {"most tokens": self.keys, "rows": self.counts, "rows a batch": self.batch_sizes}
        lines = [f"  {name:<12}" + "".join(f"{number:>9,}" for number in numbers) for name, numbers in rows.items()]
        return "\n".join([f"Buckets: {sum(self.counts):,} training rows in {len(self):,} batches.", *lines])


TrainingOrder: TypeAlias = ShuffledBatches | FixedBuckets
"""Yields the batches of an epoch; Lightning sets the epoch."""


def training_order(
    batching: Batching, lengths: NDArray[np.int64], *, batch_size: int, num_buckets: int, bucket_ratio: float, seed: int
) -> TrainingOrder:
    """Returns the order of the training rows by its name."""
    if batching == "fixed":
        return FixedBuckets(
            lengths, batch_size=batch_size, num_buckets=num_buckets, bucket_ratio=bucket_ratio, seed=seed
        )
    return ShuffledBatches(lengths, batch_size=batch_size, seed=seed, by_length=batching == "sorted")


class RowsOfRank(Sampler[list[int]]):
    """The rows of each batch that one rank trains on; together, the ranks train on the batches of a single process.

    Every rank has the same number of batches. If a batch has fewer rows than there are ranks, some ranks have none.

    Args:
        order: Yields the rows of each batch, the same on every rank.
        rank: Number of the rank, from 0.
        world_size: Number of ranks.
    """

    def __init__(self, order: TrainingOrder, *, rank: int, world_size: int) -> None:
        self._order = order
        self._rank = rank
        self._world_size = world_size

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next pass; Lightning calls it."""
        self._order.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[list[int]]:
        # Neighbours in a batch have similar lengths, so taking turns gives all ranks about as many tokens.
        return (batch[self._rank :: self._world_size] for batch in self._order)


class BatchesOfRank(Sampler[list[int]]):
    """The batches that one rank evaluates; each whole batch belongs to one rank.

    Args:
        order: Yields the rows of each batch, the same on every rank.
        rank: Number of the rank, from 0.
        world_size: Number of ranks.
    """

    def __init__(self, order: LengthBatches, *, rank: int, world_size: int) -> None:
        self._order = order
        self._rank = rank
        self._world_size = world_size

    def __len__(self) -> int:
        return len(range(self._rank, len(self._order), self._world_size))

    def __iter__(self) -> Iterator[list[int]]:
        return itertools.islice(self._order, self._rank, None, self._world_size)


def evaluation_order(
    lengths: NDArray[np.int64], *, batch_size: int, rank: int = 0, world_size: int = 1
) -> BatchesOfRank:
    """Returns the batches that a rank evaluates; they are smaller where there would be fewer batches than ranks.

    Args:
        lengths: Number of tokens of each row.
        batch_size: Most rows of a batch.
        rank: Number of the rank, from 0.
        world_size: Number of ranks.
    """
    batches = LengthBatches(lengths, batch_size=max(1, min(batch_size, len(lengths) // world_size)))
    return BatchesOfRank(batches, rank=rank, world_size=world_size)
