"""Which rows each of several ranks reads: together those of one process, in the same batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from sentattn.data.ordering import LengthBatches, TrainingOrder
from sentattn.distributed import ranks
from sentattn.errors import DataError


class RowsOfRank(Sampler[list[int]]):
    """What one of several ranks reads of each batch: together they read the batches that one process would.

    Every rank comes to the same number of batches. Of a batch with fewer rows than there are ranks some have none.

    Args:
        order: Gives the rows of each batch, the same on every rank.
        rank: Number of the rank, from 0.
        world: Number of ranks.
    """

    def __init__(self, order: TrainingOrder, *, rank: int, world: int) -> None:
        self._order = order
        self._rank = rank
        self._world = world

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next pass; Lightning calls it."""
        self._order.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[list[int]]:
        # Rows of like length stand side by side, so that in turns all ranks get about as many tokens.
        return (batch[self._rank :: self._world] for batch in self._order)


class BatchesOfRank(Sampler[list[int]]):
    """Those of the batches that one of several ranks measures: each batch is one rank's, whole.

    Args:
        order: Gives the rows of each batch, the same on every rank.
        rank: Number of the rank, from 0.
        world: Number of ranks.
    """

    def __init__(self, order: LengthBatches, *, rank: int, world: int) -> None:
        self._order = order
        self._rank = rank
        self._world = world

    def __len__(self) -> int:
        return len(range(self._rank, len(self._order), self._world))

    def __iter__(self) -> Iterator[list[int]]:
        return itertools.islice(self._order, self._rank, None, self._world)


def training_share(order: TrainingOrder) -> RowsOfRank:
    """Returns the rows that this rank trains on."""
    return RowsOfRank(order, rank=ranks.rank(), world=ranks.world())


def measuring_share(lengths: NDArray[np.int64], *, batch_size: int) -> BatchesOfRank:
    """Returns the batches that this rank measures, which are smaller where there would be fewer than ranks.

    Args:
        lengths: How many tokens each row has.
        batch_size: Most rows of a batch.
    """
    whole = LengthBatches(lengths, batch_size=max(1, min(batch_size, len(lengths) // ranks.world())))
    return BatchesOfRank(whole, rank=ranks.rank(), world=ranks.world())


def require_enough(rows: int) -> None:
    """Refuses validation rows of which some ranks would have none.

    Raises:
        DataError: If there are fewer rows than ranks.
    """
    if rows < ranks.world():
        raise DataError(
            f"{ranks.world()} devices cannot share {rows} validation row{'s' if rows > 1 else ''}: "
            f"type trainer.devices={rows}, or give more rows."
        )
