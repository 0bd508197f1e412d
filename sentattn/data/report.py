"""What the user should know of the data, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sentattn.data.corpus import Corpus
from sentattn.data.ordering import FixedBuckets, TrainingOrder
from sentattn.data.text import SPECIALS, UNKNOWN_ID
from sentattn.data.vectors.reading import WordVectors
from sentattn.data.vocabulary import count_types

FEW = 0.5
"""Share of the training tokens with a vector below which something must be wrong."""


def sizes(name: str, rows: Mapping[str, NDArray[np.int64]], labels: Sequence[str]) -> str:
    """Returns how many rows each split has, and the classes."""
    told = ", ".join(f"{len(chosen):,} {split}" for split, chosen in rows.items())
    return f"{name}: {told} rows; classes: {', '.join(labels)}."


def words(
    vocabulary: Sequence[str],
    vectors: WordVectors | None,
    corpus: Corpus,
    rows: Mapping[str, NDArray[np.int64]],
    ids: NDArray[np.int64],
) -> list[str]:
    """Returns how many words the vocabulary has, how many validation tokens it lacks, and how many have a vector."""
    counts = count_types(corpus.tokens, corpus.token_offsets, rows["val"], len(corpus.words))
    unknown = counts[ids == UNKNOWN_ID].sum() / max(1, counts.sum())
    told = f"Vocabulary: {len(vocabulary):,} words; {unknown:.1%} of the validation tokens are unknown."
    return [told, *_vectors(vectors, corpus, rows["train"], ids)]


def _vectors(given: WordVectors | None, corpus: Corpus, rows: NDArray[np.int64], ids: NDArray[np.int64]) -> list[str]:
    """Returns how many words, and how many tokens of the training rows, have a pretrained vector; nothing without."""
    if given is None:
        return []
    counts = count_types(corpus.tokens, corpus.token_offsets, rows, len(corpus.words))
    covered = counts[given.found_V.numpy()[ids]].sum() / counts.sum()
    found, words, width = int(given.found_V.sum()), len(given.found_V) - len(SPECIALS), given.vectors_VE.shape[1]
    told = [
        f"Vectors: {given.name}, {width} numbers a word, for {found:,} of {words:,} words ({found / words:.1%}), "
        f"which are {covered:.1%} of the training tokens."
    ]
    if covered < FEW:
        told.append(
            "Most training tokens have no vector: are the vectors of another language, or in another case "
            "(data.lowercase)?"
        )
    return told


def buckets(order: TrainingOrder) -> list[str]:
    """Returns the statistics of fixed buckets; nothing for another order."""
    return [order.statistics()] if isinstance(order, FixedBuckets) else []
