"""Which words a model knows: the frequent ones of its training rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sentattn.data.text import SPECIALS, UNKNOWN_ID
from sentattn.errors import DataError


def count_types(
    tokens: NDArray[np.int32], offsets: NDArray[np.int64], rows: NDArray[np.int64], num_types: int
) -> NDArray[np.int64]:
    """Returns how often each word type stands in some rows, whole texts, before any clipping.

    Args:
        tokens: Types of all rows, one after another.
        offsets: Where each row starts, and the end of the last one.
        rows: The rows to count.
        num_types: Number of types.
    """
    wanted = np.zeros(len(offsets) - 1, dtype=bool)
    wanted[rows] = True
    return np.bincount(tokens[np.repeat(wanted, np.diff(offsets))], minlength=num_types)


def frequent_types(counts: NDArray[np.int64], *, min_count: int, vocab_size: int) -> NDArray[np.int64]:
    """Returns the types that become the vocabulary, by falling count, then by type.

    Raises:
        DataError: If no word is frequent enough.
    """
    order = np.argsort(-counts, kind="stable")
    kept = order[: np.count_nonzero(counts >= min_count)][:vocab_size]
    if not len(kept):
        raise DataError(
            f"data.min_count={min_count} leaves no word: the most frequent one stands {counts.max(initial=0):,} times "
            "in the training rows. Type a smaller number."
        )
    return kept


def lookup_table(types: Sequence[str], words: Sequence[str]) -> NDArray[np.int64]:
    """Returns the id of each type: its place in the vocabulary after the specials, or that of `<unk>`."""
    ids = {word: number for number, word in enumerate(words, start=len(SPECIALS))}
    return np.fromiter((ids.get(word, UNKNOWN_ID) for word in types), dtype=np.int64, count=len(types))
