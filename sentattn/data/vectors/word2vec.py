"""Word vectors trained on the training rows by gensim's word2vec."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sentattn.config.schema import TRAIN
from sentattn.data.cache import Progress
from sentattn.data.corpus import Corpus
from sentattn.data.vectors.pretrained import Vectors, WordVectors, align, cached_table
from sentattn.errors import DataError, Fault

FORMAT = "word2vec 1"
EPOCHS = 8
OPTIONS = {"sg": 1, "negative": 5, "window": 8, "sample": 1e-4, "seed": 0, "workers": 1}
"""Skip-gram with negative samples; more than one worker is not reproducible."""


def train_vectors(
    words: Sequence[str], corpus: Corpus, rows: NDArray[np.int64], *, size: int, cache: Path, progress: Progress
) -> WordVectors:
    """Trains vectors of the vocabulary on whole training texts (Mikolov et al. 2013, skip-gram with negative samples).

    They depend only on these texts, the vocabulary and the size, and are cached: all variants and seeds start from the
    same vectors.

    Args:
        words: The vocabulary, by id, without the special tokens.
        corpus: All rows.
        rows: The training rows.
        size: Numbers per word.
        cache: The cache folder.
        progress: Called with the progress of the work.

    Raises:
        DataError: If gensim is not installed.
    """
    if importlib.util.find_spec("gensim") is None:
        message = 'data.vectors=train needs gensim: type pip install "sentattn[vectors]".'
        raise DataError(Fault("data.vectors", "missing", message))
    texts = hashlib.sha256(corpus.row_ids[rows].tobytes()).hexdigest()
    identity = [FORMAT, EPOCHS, OPTIONS, corpus.folder.name, texts, list(words), size]
    sentences = Sentences(words, corpus, rows)
    table = cached_table(identity, lambda: _train(sentences, size, progress), cache=cache, progress=progress)
    return align(table, words, name=TRAIN, trained=True)


class Sentences:
    """The known words of each training row; gensim iterates over them once per epoch."""

    def __init__(self, words: Sequence[str], corpus: Corpus, rows: NDArray[np.int64]) -> None:
        known = set(words)
        self._corpus, self._rows = corpus, rows
        self._words = np.array([word if word in known else "" for word in corpus.words], dtype=object)

    def __iter__(self) -> Iterator[list[str]]:
        for row in self._rows:
            start, end = self._corpus.token_offsets[row : row + 2]
            yield [word for word in self._words[self._corpus.tokens[start:end]] if word]


def _train(sentences: Sentences, size: int, progress: Progress) -> Vectors:
    from gensim.models import Word2Vec
    from gensim.models.callbacks import CallbackAny2Vec

    class Report(CallbackAny2Vec):  # type: ignore[misc]  # gensim has no types
        done = 0

        def on_epoch_end(self, model: Word2Vec) -> None:
            self.done += 1
            progress("Training word vectors", self.done, EPOCHS)

    progress("Training word vectors", 0, EPOCHS)
    model = Word2Vec(sentences, vector_size=size, min_count=1, epochs=EPOCHS, callbacks=[Report()], **OPTIONS)
    return {word: model.wv[word] for word in model.wv.index_to_key}
