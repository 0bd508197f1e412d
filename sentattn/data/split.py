"""A split: its rows with all that is known of them beside their tokens."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sentattn.data.clipping import clipped
from sentattn.data.corpus import Corpus


class Split:
    """Some rows of a corpus.

    Args:
        corpus: All rows.
        rows: Which of them, in the split's order.
        max_length: Most tokens of a row that are read.

    Attributes:
        labels: Class of each row.
        lengths: How many tokens of each row are read.
        row: Position of each row in the source's own split and order.
    """

    def __init__(self, corpus: Corpus, rows: NDArray[np.int64], max_length: int | None) -> None:
        self._corpus = corpus
        self._rows = rows
        self.labels = corpus.labels[rows]
        self.lengths = clipped(corpus.lengths[rows], max_length)
        self.row = corpus.positions[rows]

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def row_id(self) -> list[str]:
        """A hash of each row's text."""
        return [row_id.decode() for row_id in self._corpus.row_ids[self._rows]]

    @cached_property
    def group(self) -> list[str]:
        """What rows share (a film), or ""."""
        return [self._corpus.group(row) for row in self._rows]

    def texts(self, i: int) -> str:
        """Returns the text of row `i` of the split."""
        return self._corpus.text(self._rows[i])

    def rationale(self, i: int) -> list[tuple[int, int]]:
        """Returns the character spans that decide the label of row `i`, where they are known."""
        return self._corpus.rationale(self._rows[i])
