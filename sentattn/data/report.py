"""Messages on the data for the user: sizes, vocabulary, pretrained vectors, buckets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sentattn.data.batch_order import FixedBuckets, TrainingOrder
from sentattn.data.corpus import Corpus
from sentattn.data.text import SPECIALS, UNKNOWN_ID
from sentattn.data.vectors import WordVectors
from sentattn.data.vocabulary import count_types

FEW = 0.5
"""Below this share of training tokens with a vector, the vectors probably do not fit the data."""


def sizes(name: str, rows: Mapping[str, NDArray[np.int64]], labels: Sequence[str]) -> str:
    """Returns how many rows each split has, and the classes."""
    counts = ", ".join(f"{len(its_rows):,} {split}" for split, its_rows in rows.items())
    return f"{name}: {counts} rows; classes: {', '.join(labels)}."


def words(
    vocabulary: Sequence[str],
    vectors: WordVectors | None,
    corpus: Corpus,
    rows: Mapping[str, NDArray[np.int64]],
    ids: NDArray[np.int64],
) -> list[str]:
    """Returns the size of the vocabulary, its share of unknown validation tokens, and its coverage by vectors."""
    counts = count_types(corpus.tokens, corpus.token_offsets, rows["val"], len(corpus.words))
    unknown = counts[ids == UNKNOWN_ID].sum() / max(1, counts.sum())
    line = f"Vocabulary: {len(vocabulary):,} words; {unknown:.1%} of the validation tokens are unknown."
    return [line, *_coverage(vectors, corpus, rows["train"], ids)]


def _coverage(
    vectors: WordVectors | None, corpus: Corpus, rows: NDArray[np.int64], ids: NDArray[np.int64]
) -> list[str]:
    """Returns the share of words and of training tokens with a pretrained vector; empty without vectors."""
    if vectors is None:
        return []
    counts = count_types(corpus.tokens, corpus.token_offsets, rows, len(corpus.words))
    covered = counts[vectors.found_V.numpy()[ids]].sum() / counts.sum()
    found, words, width = int(vectors.found_V.sum()), len(vectors.found_V) - len(SPECIALS), vectors.vectors_VE.shape[1]
    lines = [
        f"Vectors: {vectors.name}, {width} dimensions, for {found:,} of {words:,} words ({found / words:.1%}) "
        f"and {covered:.1%} of the training tokens."
    ]
    if covered < FEW:
        lines.append(
            "Most training tokens have no vector: are the vectors of another language, or in another case "
            "(data.lowercase)?"
        )
    return lines


def buckets(order: TrainingOrder) -> list[str]:
    """Returns the statistics of fixed buckets; empty for another order."""
    return [order.statistics()] if isinstance(order, FixedBuckets) else []
