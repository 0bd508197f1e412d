"""Predictions over subword pieces, shown by whole words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sentattn.prediction.prediction import NGram, Prediction


def in_words(prediction: Prediction) -> Prediction:
    """Returns a prediction whose tokens are words: pieces of a word are joined, special tokens left out.

    The weights on the pieces of a word are added, and what its pieces attend to is averaged. The rows of special tokens
    are left out too, so a row may sum to less than 1. Tokens that are words already stay as they are.
    """
    first = _first_pieces(prediction.text, prediction.spans)
    is_real = [start < end for start, end in prediction.spans]
    if all(is_real) and all(first):
        return prediction
    # The word of each piece; special tokens have none.
    numbers = np.cumsum(first) - 1
    words_L = np.where(is_real, numbers, -1)
    count = int(words_L.max(initial=-1)) + 1
    member_WL = (words_L == np.arange(count)[:, None]).astype(np.float64)
    starts = [next(i for i in range(len(words_L)) if words_L[i] == word) for word in range(count)]
    ends = [max(i for i in range(len(words_L)) if words_L[i] == word) for word in range(count)]
    spans = [(prediction.spans[i][0], prediction.spans[j][1]) for i, j in zip(starts, ends, strict=True)]
    pairs = None
    if prediction.pairs is not None:
        of_word_WL = member_WL / member_WL.sum(axis=1, keepdims=True)
        pairs = [(of_word_WL @ np.asarray(head) @ member_WL.T).tolist() for head in prediction.pairs]
    return replace(
        prediction,
        tokens=[prediction.text[start:end] for start, end in spans],
        spans=spans,
        attention=(np.asarray(prediction.attention) @ member_WL.T).tolist(),
        pairs=pairs,
        unknown=sorted({int(words_L[i]) for i in prediction.unknown if words_L[i] >= 0}),
        ngrams=[
            NGram((int(words_L[first]), int(words_L[last - 1]) + 1), logits)
            for (first, last), logits in prediction.ngrams
        ],
    )


def _first_pieces(text: str, spans: Sequence[tuple[int, int]]) -> list[bool]:
    """Returns which tokens begin a word: all but those that continue letters or digits; special tokens do not."""
    first, end = [], -1
    for start, stop in spans:
        continues = start == end and start > 0 and text[start - 1].isalnum() and text[start : start + 1].isalnum()
        first.append(start < stop and not continues)
        end = stop if start < stop else end
    return first
