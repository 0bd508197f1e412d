"""Vectors of the words of a vocabulary, read from a file or computed from the training rows, and cached."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from sentattn.config.schema import TRAIN
from sentattn.data.cache import Progress, cached
from sentattn.data.corpus import Corpus
from sentattn.data.readers.download import fetch
from sentattn.data.tokenizer import SPECIALS
from sentattn.data.vector_file import VECTOR_NAMES, VectorFile, read_torchtext, torchtext_file
from sentattn.errors import DataError, Fault
from sentattn.run import save_tensors

FORMAT = 2
TRAINED_FORMAT = "svd 1"
WINDOW = 5
"""Tokens on either side of a word that are its contexts."""
SMOOTHING = 0.75
"""Power of the number of a context: rare contexts have a high information by chance."""
SCALE = 0.2
"""Root mean square of a word's vector."""
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
        """Hash of the vectors, independent of their file, 16 hexadecimal digits; of trained ones, their method."""
        if self.trained:  # the training rows determine them, though not bit by bit on every processor
            return f"{TRAIN} {TRAINED_FORMAT}"
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
    file = VectorFile(cache_file) if cache_file else None if vectors in VECTOR_NAMES else VectorFile.named(vectors)
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
                archive = fetch(VECTOR_NAMES[vectors][0], folder=cache, mirror=mirror, progress=progress)
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
    return align(table, words, name=vectors if vectors in VECTOR_NAMES else Path(vectors).name, skipped=skipped)


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
        tensors = {VECTORS: torch.from_numpy(np.stack([*vectors.values()]))}
        save_tensors(tensors, fresh, {WORDS: json.dumps([*vectors])})

    return cached(entry, read, write, progress)


def train_vectors(
    words: Sequence[str], corpus: Corpus, rows: NDArray[np.int64], *, size: int, cache: Path, progress: Progress
) -> WordVectors:
    """Computes vectors of the vocabulary from whole training texts, by `factorize`.

    They depend only on these texts, the vocabulary and the size, and are cached: all variants and seeds start from the
    same vectors. `words`, `cache` and `progress` are those of `read_vectors`, `rows` are the training rows of the
    corpus, and `size` is the number of numbers per word.

    Raises:
        DataError: If no text has two known words.
    """
    texts = hashlib.sha256(corpus.row_ids[rows].tobytes()).hexdigest()
    identity = [TRAINED_FORMAT, WINDOW, SMOOTHING, SCALE, corpus.folder.name, texts, list(words), size]

    def compute() -> Vectors:
        number_of = {word: number for number, word in enumerate(words)}
        number_W = np.array([number_of.get(word, -1) for word in corpus.words])
        spans = np.stack([corpus.token_offsets[rows], corpus.token_offsets[rows + 1]], axis=1)
        tokens_N = number_W[np.concatenate([corpus.tokens[start:end] for start, end in spans])]
        texts_N = np.repeat(np.arange(len(rows)), corpus.lengths[rows])
        is_known_N = tokens_N >= 0
        tokens_N, texts_N = tokens_N[is_known_N], texts_N[is_known_N]
        vectors_VE = factorize(tokens_N, texts_N, len(words), size=size, progress=progress)
        return {words[number]: vectors_VE[number] for number in np.unique(tokens_N)}

    table = cached_table(identity, compute, cache=cache, progress=progress)
    return align(table, words, name=TRAIN, trained=True)


def factorize(
    tokens_N: NDArray[np.int64], texts_N: NDArray[np.int64], words: int, *, size: int, progress: Progress
) -> NDArray[np.float32]:
    """Returns vectors_VE of words, the truncated SVD of their positive pointwise mutual information.

    M_wc = max(0, log(n_wc sum_c' n_c'^a / (n_w n_c^a))) with a = `SMOOTHING`, where n_wc counts the tokens c within
    `WINDOW` tokens of a token w of the same text, the nearest `WINDOW` times and the farthest once (Levy et al. 2015,
    sections 3.1 to 3.3); the vectors are the rows of (U_E + V_E) S_E^0.5 of M = U S V^T, brought to one length.
    Skip-gram with negative samples factorizes such a matrix too (Levy and Goldberg 2014), in more time.

    Args:
        tokens_N: Number of the word of each token.
        texts_N: Number of the text of each token, in order.
        words: Number of words V.
        size: Numbers per word E; those beyond V - 1 are 0.
        progress: Called with the progress of the work.

    Raises:
        DataError: If no text has two tokens.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import svds

    counts_VV = csr_array((words, words), dtype=np.float32)
    for distance in range(1, WINDOW + 1):
        progress("Counting pairs of words", distance - 1, WINDOW)
        is_pair = texts_N[:-distance] == texts_N[distance:]
        pairs = tokens_N[:-distance][is_pair], tokens_N[distance:][is_pair]
        weights = np.full(len(pairs[0]), WINDOW + 1 - distance, np.float32)
        counts_VV += csr_array((weights, pairs), shape=counts_VV.shape)
    counts = (counts_VV + counts_VV.T).tocoo()
    if not counts.nnz or words == 1:
        message = "data.vectors=train needs training texts of two known words: lower data.min_count, or leave it out."
        raise DataError(Fault("data.vectors", "missing", message))
    progress("Computing word vectors", 0, 1)
    number_V = counts.sum(axis=0).astype(np.float64)
    context_V = number_V**SMOOTHING / (number_V**SMOOTHING).sum()
    w, c = counts.coords
    information = np.log(np.maximum(counts.data / number_V[w] / context_V[c], 1)).astype(np.float32)
    matrix_VV = csr_array((information, (w, c)), shape=counts.shape)
    matrix_VV.eliminate_zeros()
    start_V = np.random.default_rng(0).random(words, np.float32)
    left_VE, values_E, right_EV = svds(matrix_VV, k=min(size, words - 1), v0=start_V)
    vectors_VE = (left_VE + right_EV.T) * np.sqrt(values_E)
    length_V1 = np.linalg.norm(vectors_VE, axis=1, keepdims=True)
    vectors_VE *= SCALE * np.sqrt(size) / np.maximum(length_V1, 1e-4 * length_V1.max())  # less is rounding
    return np.pad(vectors_VE, ((0, 0), (0, size - len(values_E)))).astype(np.float32)
