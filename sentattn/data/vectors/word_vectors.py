"""Vectors of the words of a vocabulary, read from a file or trained on the training rows by gensim, and cached."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from sentattn.config.schema import TRAIN
from sentattn.data.cache import Progress, cached
from sentattn.data.corpus import Corpus
from sentattn.data.readers.download import fetch
from sentattn.data.tokenizer import SPECIALS
from sentattn.data.vectors.vector_file import NAMES, VectorFile, read_torchtext, torchtext_file
from sentattn.errors import DataError, Fault

FORMAT = 2
WORD2VEC_FORMAT = "word2vec 1"
EPOCHS = 8
OPTIONS = {"sg": 1, "negative": 5, "window": 8, "sample": 1e-4, "seed": 0, "workers": 1}
"""Options of word2vec: skip-gram with negative samples; more than one worker is not reproducible."""
VECTORS, WORDS = "vectors", "words"
"""Names of the matrix, one row per word, and of the list of words in the cached file."""
OTHER_WORDS = "are they of another language, or in another case (data.lowercase)?"
Table: TypeAlias = tuple[dict[str, int], Tensor]
"""The row of each word in vectors_FE, and vectors_FE, (words of the file, width), float32."""
Vectors: TypeAlias = dict[str, NDArray[np.float32]]
"""The vector of each word."""


@dataclass(frozen=True)
class WordVectors:
    """The vectors of a vocabulary's words.

    Attributes:
        name: Their name or file name, for messages.
        vectors_VE: Vector of each id, special tokens included, float32; zeros if the word has no vector.
        found_V: Whether each id has a vector, bool.
        trained: Whether they were trained on the training rows.
        skipped: Number of lines of the file whose word is empty or not UTF-8; 0 if the vectors come from the cache.
    """

    name: str
    vectors_VE: Tensor
    found_V: Tensor
    trained: bool = False
    skipped: int = 0

    @property
    def fingerprint(self) -> str:
        """Hash of the vectors, independent of their file, 16 hexadecimal digits; `train` for trained vectors."""
        if self.trained:  # the training rows determine them, though not bit by bit on every processor
            return TRAIN
        content = hashlib.sha256(self.found_V.numpy().tobytes())
        content.update(self.vectors_VE.numpy().tobytes())
        return content.hexdigest()[:16]


def read_vectors(
    vectors: str, words: Sequence[str], *, cache: Path, mirror: str | None, progress: Progress
) -> WordVectors:
    """Reads the vectors of words; a word without a vector gets the vector of its lower case.

    Only the vectors of these words are held in memory. If the file has a word twice, the first line counts.

    Args:
        vectors: A name such as `glove.6B.300d`, downloaded if it is not cached, a file, or vectors that torchtext has
            cached (`torchtext:NAME`, or their `.pt` file).
        words: The vocabulary, by id, without the special tokens.
        cache: The cache folder.
        mirror: Address of a server, or a folder, that replaces the official address.
        progress: Called with the progress of the work.

    Raises:
        DataError: If the file is missing, damaged or no file of vectors, or has no vector for any word.
    """
    wanted = {form for word in words for form in (word, word.lower())}
    cache_file = torchtext_file(vectors)
    file = VectorFile(cache_file) if cache_file else None if vectors in NAMES else VectorFile.named(vectors)
    skipped = 0

    def read() -> Vectors:
        nonlocal skipped
        table: Vectors = {}
        if cache_file:
            all_words, vectors_FE = read_torchtext(cache_file)
            table = {word: vectors_FE[row].numpy() for row, word in enumerate(all_words) if word in wanted}
        else:
            source = file
            if source is None:
                archive = fetch(NAMES[vectors][0], folder=cache, mirror=mirror, progress=progress)
                source = VectorFile.named(str(archive / f"{vectors}.txt"))
            for word, numbers in source.lines(wanted, progress):
                if not word:
                    skipped += 1
                elif word not in table:
                    table[word] = np.array(numbers, dtype=np.float32)
        if not table:
            message = f"{vectors} has no vector for any word of the training rows; {OTHER_WORDS}"
            raise DataError(Fault("data.vectors", "missing", message))
        return table

    identity = [FORMAT, file.identity if file else vectors, sorted(wanted)]
    table = cached_table(identity, read, cache=cache, progress=progress)
    return align(table, words, name=vectors if vectors in NAMES else Path(vectors).name, skipped=skipped)


def align(table: Table, words: Sequence[str], *, name: str, trained: bool = False, skipped: int = 0) -> WordVectors:
    """Returns the vectors of words by id; a word without a vector gets the vector of its lower case."""
    row_of, vectors_FE = table
    rows = [row_of.get(word, row_of.get(word.lower())) for word in words]
    vectors_VE = torch.zeros(len(SPECIALS) + len(words), vectors_FE.shape[1])
    found_V = torch.tensor([False] * len(SPECIALS) + [row is not None for row in rows])
    vectors_VE[found_V] = vectors_FE[[row for row in rows if row is not None]]
    return WordVectors(name, vectors_VE, found_V, trained, skipped)


def cached_table(identity: object, make: Callable[[], Vectors], *, cache: Path, progress: Progress) -> Table:
    """Returns the vectors that `make` computes, from the cache if it has an entry of this identity, JSON data."""
    entry = cache / f"vectors-{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]}.safetensors"

    def read() -> Table | None:
        try:
            with safe_open(entry, "pt") as file:
                words, vectors_FE = json.loads(file.metadata()[WORDS]), file.get_tensor(VECTORS)
        except (OSError, SafetensorError):  # the file is missing or damaged
            return None
        return {word: row for row, word in enumerate(words)}, vectors_FE

    def write(fresh: Path) -> None:
        vectors = make()
        save_file({VECTORS: torch.from_numpy(np.stack([*vectors.values()]))}, fresh, {WORDS: json.dumps([*vectors])})

    return cached(entry, read, write, progress)


def train_vectors(
    words: Sequence[str], corpus: Corpus, rows: NDArray[np.int64], *, size: int, cache: Path, progress: Progress
) -> WordVectors:
    """Trains vectors of the vocabulary on whole training texts (Mikolov et al. 2013, skip-gram with negative samples).

    They depend only on these texts, the vocabulary and the size, and are cached: all variants and seeds start from the
    same vectors. `words`, `cache` and `progress` are those of `read_vectors`, `rows` are the training rows of the
    corpus, and `size` is the number of numbers per word.

    Raises:
        DataError: If gensim is not installed.
    """
    if importlib.util.find_spec("gensim") is None:
        message = 'data.vectors=train needs gensim: type pip install "sentattn[vectors]".'
        raise DataError(Fault("data.vectors", "missing", message))
    texts = hashlib.sha256(corpus.row_ids[rows].tobytes()).hexdigest()
    identity = [WORD2VEC_FORMAT, EPOCHS, OPTIONS, corpus.folder.name, texts, list(words), size]
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

        def on_epoch_begin(self, model: Word2Vec) -> None:
            progress("Training word vectors", self.done, EPOCHS)
            self.done += 1

    model = Word2Vec(sentences, vector_size=size, min_count=1, epochs=EPOCHS, callbacks=[Report()], **OPTIONS)
    return {word: model.wv[word] for word in model.wv.index_to_key}
