"""Predictions over subword pieces, shown by whole words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sentattn.data.tokenizer import Span

if TYPE_CHECKING:
    from sentattn.prediction.prediction import Prediction


def in_words(prediction: Prediction) -> Prediction:
    """Returns a prediction whose tokens are words: pieces of a word are joined, special tokens left out.

    The weights on the pieces of a word are added, and what its pieces attend to is averaged. The rows of special tokens
    are left out too, so a row may sum to less than 1. A prediction over words stays as it is.
    """
    if not prediction.are_pieces:
        return prediction
    words_L = _word_of_each(prediction.text, prediction.spans)
    spans = word_spans(prediction.text, prediction.spans)
    member_WL = (words_L == np.arange(len(spans))[:, None]).astype(np.float64)
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
            ngram._replace(tokens=(int(words_L[ngram.tokens[0]]), int(words_L[ngram.tokens[1] - 1]) + 1))
            for ngram in prediction.ngrams
        ],
        are_pieces=False,
    )


def word_spans(text: str, spans: Sequence[Span]) -> list[Span]:
    """Returns the span of each word from those of its pieces."""
    words: dict[int, Span] = {}
    for word, (start, end) in zip(_word_of_each(text, spans).tolist(), spans, strict=True):
        if word >= 0:
            first, last = words.get(word, (start, end))
            words[word] = (first, max(last, end))
    return list(words.values())


def _word_of_each(text: str, spans: Sequence[Span]) -> NDArray[np.int64]:
    """Returns the number of the word of each piece, and -1 for special tokens.

    A piece continues a word if letters or digits meet, or if both are parts of one character, as bytes of it may be.
    """
    words, word, end = [], -1, 0
    for start, stop in spans:
        if start == stop:
            words.append(-1)
            continue
        meets = start == end and start > 0 and text[start - 1].isalnum() and text[start].isalnum()
        if word < 0 or not (meets or start < end):
            word += 1
        words.append(word)
        end = stop
    return np.array(words, dtype=np.int64)
