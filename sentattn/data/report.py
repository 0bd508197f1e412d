"""What the user should know of the data, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sentattn.data.corpus import Corpus
from sentattn.data.ordering import FixedBuckets, TrainingOrder
from sentattn.data.text import UNKNOWN_ID
from sentattn.data.vocabulary import count_types


def sizes(name: str, rows: Mapping[str, NDArray[np.int64]], labels: Sequence[str]) -> str:
    """Returns how many rows each split has, and the classes."""
    told = ", ".join(f"{len(chosen):,} {split}" for split, chosen in rows.items())
    return f"{name}: {told} rows; classes: {', '.join(labels)}."


def vocabulary(corpus: Corpus, words: int, rows: NDArray[np.int64], ids: NDArray[np.int64]) -> str:
    """Returns how many words the vocabulary has, and how many tokens of some rows it lacks."""
    counts = count_types(corpus.tokens, corpus.token_offsets, rows, len(corpus.words))
    unknown = counts[ids == UNKNOWN_ID].sum() / max(1, counts.sum())
    return f"Vocabulary: {words:,} words; {unknown:.1%} of the validation tokens are unknown."


def buckets(order: TrainingOrder) -> list[str]:
    """Returns the statistics of fixed buckets; nothing for another order."""
    return [order.statistics()] if isinstance(order, FixedBuckets) else []
