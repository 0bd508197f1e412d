"""The vocabulary of the training rows, and how much of the data the vocabulary and word vectors cover."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sentattn.data.corpus import Corpus
from sentattn.data.tokenizer import SPECIALS, UNKNOWN_ID
from sentattn.errors import DataError, Fault

if TYPE_CHECKING:
    from sentattn.data.word_vectors import WordVectors

COUNTED_ROWS = 5000
"""Rows whose tokens are counted at once, which bounds memory and still amortizes a large vocabulary."""
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai and Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese syllables
    "\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # Chinese characters
)
"""A character of a script that is written without spaces between words."""
MANY_UNSPACED = 0.1
"""Share of letters of such scripts from which a warning is printed."""
MIN_COVERAGE = 0.5
"""Share of training tokens with a vector below which the vectors probably do not fit the data."""


def count_types(corpus: Corpus, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns how often each word type of a corpus occurs in the whole texts of some of its rows, int64."""
    is_counted = np.zeros(len(corpus.token_offsets) - 1, dtype=bool)
    is_counted[rows] = True
    counts = np.zeros(len(corpus.words), dtype=np.int64)
    for first in range(0, len(is_counted), COUNTED_ROWS):
        bounds = corpus.token_offsets[first : first + COUNTED_ROWS + 1]
        kept = np.repeat(is_counted[first : first + COUNTED_ROWS], np.diff(bounds))
        counts += np.bincount(corpus.tokens[bounds[0] : bounds[-1]][kept], minlength=len(counts))
    return counts


def frequent_types(counts: NDArray[np.int64], *, min_count: int, vocab_size: int) -> NDArray[np.int64]:
    """Returns the types of the vocabulary, by descending count, then by type.

    Raises:
        DataError: If no word is frequent enough.
    """
    order = np.argsort(-counts, kind="stable")
    kept = order[: np.count_nonzero(counts >= min_count)][:vocab_size]
    if not len(kept):
        message = (
            f"data.min_count={min_count} leaves no word: the most frequent word occurs {counts.max(initial=0):,} times "
            "in the training rows. Type a smaller number."
        )
        raise DataError(Fault("data.min_count", "range", message))
    return kept


def lookup_table(types: Sequence[str], words: Sequence[str]) -> NDArray[np.int64]:
    """Returns the id of each type: its position in the vocabulary after the special tokens, or the id of `<unk>`."""
    ids = {word: number for number, word in enumerate(words, start=len(SPECIALS))}
    return np.fromiter((ids.get(word, UNKNOWN_ID) for word in types), dtype=np.int64, count=len(types))


def unspaced(types: Sequence[str], counts: NDArray[np.int64]) -> list[str]:
    """Returns a warning if many letters are of scripts without spaces; `counts` are the numbers of each word type."""
    counted = [(word, int(count)) for word, count in zip(types, counts, strict=True) if count]
    letters = sum(count * sum(map(str.isalpha, word)) for word, count in counted)
    # `findall` is slow: words of ASCII have no such letters.
    others = sum(count * sum(map(str.isalpha, UNSPACED.findall(word))) for word, count in counted if not word.isascii())
    if others <= MANY_UNSPACED * letters:
        return []
    return [
        f"warning: {others / letters:.0%} of the letters in the training texts are of scripts without spaces, such as "
        "Chinese, Japanese and Thai. data.tokenizer=words reads a run of them as one token, and data.tokenizer=spacy "
        "has the rules of English: put spaces between the words of the texts."
    ]


def coverage(
    words: Sequence[str],
    vectors: WordVectors | None,
    corpus: Corpus,
    rows: Mapping[str, NDArray[np.int64]],
    ids: NDArray[np.int64],
) -> list[str]:
    """Returns messages: size of the vocabulary, share of unknown validation tokens, coverage by vectors.

    `rows` are the rows of each split, and `ids` the ids of the word types of the corpus, by `lookup_table`.
    """
    counts = count_types(corpus, rows["val"])
    unknown = counts[ids == UNKNOWN_ID].sum() / max(1, counts.sum())
    messages = [f"Vocabulary: {len(words):,} words; {unknown:.1%} of the validation tokens are unknown."]
    if vectors is not None:
        counts = count_types(corpus, rows["train"])
        covered = counts[vectors.found_V.numpy()[ids]].sum() / counts.sum()
        known = int(vectors.found_V.sum())
        messages.append(
            f"Vectors: {vectors.name}, {vectors.vectors_VE.shape[1]} dimensions, for {known:,} of {len(words):,} words "
            f"({known / len(words):.1%}) and {covered:.1%} of the training tokens."
        )
        if covered < MIN_COVERAGE:
            messages.append(
                "Most training tokens have no vector: are the vectors of another language, or in another case "
                "(data.lowercase)?"
            )
    return messages
