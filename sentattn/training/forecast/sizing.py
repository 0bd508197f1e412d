"""The batches of an epoch by their size: which are heavy, which stand for all, and what all take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sentattn.data.batching import Batch, BatchLoader


class Order:
    """The batches of an epoch by their rows, one rank's share of each.

    Args:
        loader: Gives the batches, of all ranks.
        lengths: How many tokens each row has.
        world: Number of ranks that share each batch.

    Attributes:
        rows: Of each batch, the most that a rank has.
        longest: Tokens of each batch's longest row.
        sizes: Tokens of each batch, padding included.
        real_tokens: Those of all batches, without padding.
    """

    def __init__(self, loader: BatchLoader, lengths: NDArray[np.int64], *, world: int = 1) -> None:
        self._rows = loader.dataset
        self._batches = [rows[::world] for rows in loader.sampler]
        self.rows = np.array([len(rows) for rows in self._batches])
        self.longest = np.array([int(lengths[rows].max()) for rows in self._batches])
        self.sizes = self.rows * self.longest
        self.real_tokens = sum(int(lengths[rows].sum()) for rows in self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def heaviest(self) -> list[int]:
        """The batches that may take the most memory: by their tokens, and by the pairs of their tokens."""
        return sorted({int(self.sizes.argmax()), int((self.sizes * self.longest).argmax())})

    def spread(self, number: int) -> list[int]:
        """Batches of all sizes, smallest and largest included."""
        places = np.linspace(0, len(self) - 1, min(number, len(self))).round().astype(int)
        chosen: list[int] = np.argsort(self.sizes, kind="stable")[places].tolist()
        return chosen

    def seconds(self, timed: Mapping[int, float]) -> NDArray[np.float64]:
        """Returns the seconds of each batch, from those of some, by size."""
        known = sorted((float(self.sizes[batch]), seconds) for batch, seconds in timed.items())
        sizes, seconds = zip(*known, strict=True)
        estimated: NDArray[np.float64] = np.interp(self.sizes, sizes, seconds)
        return estimated

    def longest_text(self, batch: int) -> Tensor:
        """Returns the ids of a batch's longest text, tokens_BL of one row."""
        [loaded] = self.load([batch])
        tokens_BL: Tensor = loaded.tokens_BL[loaded.mask_BL.all(dim=1)][:1]
        return tokens_BL

    def load(self, batches: Sequence[int]) -> Chosen:
        """Returns some of the batches, which are read when they are asked for."""
        return Chosen([self._batches[batch] for batch in batches], self._rows)


class Chosen(Iterable[Batch]):
    """Batches by their rows."""

    def __init__(self, batches: Sequence[list[int]], rows: Any) -> None:
        self._batches = batches
        self._rows = rows

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        return (self._rows[rows] for rows in self._batches)
