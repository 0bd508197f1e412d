"""Pretrained vectors of the words of a vocabulary: the file is read line by line, and its vectors are cached."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from sentattn.data.readers.download import fetch
from sentattn.data.tokenizer import SPECIALS
from sentattn.data.vectors import torchtext_cache
from sentattn.data.vectors.vector_file import NAMES, VectorFile
from sentattn.errors import DataError, Fault

FORMAT = 2
VECTORS, WORDS = "vectors", "words"
"""Names of the matrix, one row per word, and of the list of words in the cached file."""
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
    torchtext_file = torchtext_cache.cache_file(vectors)
    file = VectorFile(torchtext_file) if torchtext_file else None if vectors in NAMES else VectorFile.named(vectors)
    skipped = 0

    def read() -> Vectors:
        nonlocal skipped
        if torchtext_file:
            return _read_torchtext(torchtext_file, wanted)
        source = file
        if source is None:
            archive = fetch(NAMES[vectors][0], folder=cache, mirror=mirror, progress=progress)
            source = VectorFile.named(str(archive / f"{vectors}.txt"))
        table, skipped = _read(source, wanted, progress)
        return table

    identity = [FORMAT, file.identity if file else vectors, sorted(wanted)]
    table = cached_table(identity, read, cache=cache, progress=progress)
    aligned = align(table, words, name=vectors if vectors in NAMES else Path(vectors).name)
    return replace(aligned, skipped=skipped)


def align(table: Table, words: Sequence[str], *, name: str, trained: bool = False) -> WordVectors:
    """Returns the vectors of words by id; a word without a vector gets the vector of its lower case."""
    row_of, vectors_FE = table
    rows = [row_of.get(word, row_of.get(word.lower())) for word in words]
    vectors_VE = torch.zeros(len(SPECIALS) + len(words), vectors_FE.shape[1])
    found_V = torch.tensor([False] * len(SPECIALS) + [row is not None for row in rows])
    vectors_VE[found_V] = vectors_FE[[row for row in rows if row is not None]]
    return WordVectors(name=name, vectors_VE=vectors_VE, found_V=found_V, trained=trained)


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


def _read(file: VectorFile, wanted: set[str], progress: Progress) -> tuple[Vectors, int]:
    """Reads the wanted words of a file, and counts the lines without a word."""
    vectors: Vectors = {}
    skipped = 0
    for word, numbers in file.lines(wanted, progress):
        if not word:
            skipped += 1
        elif word not in vectors:
            vectors[word] = np.array(numbers, dtype=np.float32)
    return _require_some(vectors, str(file)), skipped


def _read_torchtext(path: Path, wanted: set[str]) -> Vectors:
    """Reads the wanted words of vectors that torchtext has cached."""
    words, vectors_FE = torchtext_cache.read_cache(path)
    rows = {word: row for row, word in enumerate(words) if word in wanted}
    return _require_some({word: vectors_FE[row].numpy() for word, row in rows.items()}, str(path))


def _require_some(vectors: Vectors, name: str) -> Vectors:
    if not vectors:
        message = (
            f"{name} has no vector for any word of the training rows. Are the vectors of another language, or in "
            "another case (data.lowercase)?"
        )
        raise DataError(Fault("data.vectors", "missing", message))
    return vectors
