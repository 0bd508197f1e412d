"""Pretrained word vectors for the words of a vocabulary.

The file is streamed; `torchtext` then reads and caches the lines of the vocabulary's words only.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import ssl
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sentattn.data.cache import Progress, locked, usable, workspace
from sentattn.data.download import fetch
from sentattn.data.text import SPECIALS
from sentattn.data.vector_file import NAMES, VectorFile
from sentattn.errors import DataError, Fault

if TYPE_CHECKING:
    from torchtext.vocab import Vectors

FORMAT = 1
CACHED = ".pt"
"""File ending of the vectors that `torchtext` caches."""


@dataclass(frozen=True)
class WordVectors:
    """The vectors of a vocabulary's words.

    Attributes:
        name: Their name or file name, for messages.
        vectors_VE: One row per id, including the special tokens; zeros where there is no vector. float32.
        found_V: Whether each id has a vector.
    """

    name: str
    vectors_VE: Tensor
    found_V: Tensor

    @property
    def fingerprint(self) -> str:
        """Hash of the vectors, independent of their file; 16 hexadecimal digits."""
        content = hashlib.sha256(self.found_V.numpy().tobytes())
        content.update(self.vectors_VE.numpy().tobytes())
        return content.hexdigest()[:16]


def read_vectors(
    vectors: str | None, words: Sequence[str], *, cache: Path, mirror: str | None, progress: Progress
) -> WordVectors | None:
    """Reads the vectors of words; a word without a vector gets that of its lower case.

    Memory holds the vectors of the words only. If the file has a word twice, the first line counts.

    Args:
        vectors: A name such as `glove.6B.300d`, downloaded if it is not cached, or a file, or None.
        words: The vocabulary, by id, without the special tokens.
        cache: The cache folder.
        mirror: Server or folder used instead of the official address.
        progress: Called with the progress of the work.

    Raises:
        DataError: If the file is missing, damaged or no file of vectors, or contains none of the words.
    """
    if vectors is None:
        return None
    # `torchtext` splits lines at spaces, so a token with a space cannot have a vector.
    wanted = {form for word in words for form in (word, word.lower()) if form.split() == [form]}
    file = None if vectors in NAMES else VectorFile.named(vectors)
    identity = [FORMAT, file.identity if file else vectors, sorted(wanted)]
    target = cache / f"vectors-{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]}"
    table = _cached(target)
    if table is None:
        if file is None:
            archive = fetch(NAMES[vectors][0], folder=cache, mirror=mirror, progress=progress)
            file = VectorFile.named(str(archive / f"{vectors}.txt"))
        with usable(cache), locked(target, progress):
            table = _cached(target)  # another process may have read the file meanwhile
            if table is None:
                table = _read(file, wanted, target, progress)
    rows_WE = table.get_vecs_by_tokens(list(words), lower_case_backup=True)
    is_found = [word in table.stoi or word.lower() in table.stoi for word in words]
    return WordVectors(
        name=vectors if vectors in NAMES else Path(vectors).name,
        vectors_VE=torch.cat([torch.zeros(len(SPECIALS), table.dim), rows_WE]),
        found_V=torch.tensor([False] * len(SPECIALS) + is_found),
    )


def _read(file: VectorFile, wanted: set[str], target: Path, progress: Progress) -> Vectors:
    """Reads the wanted words of a file and caches their vectors; the caller holds the lock."""
    with workspace(target) as folder:
        missing = set(wanted)
        with (folder / target.name).open("wb") as text:
            for word, numbers in file.lines(wanted, progress):
                if word in missing:
                    text.write(b" ".join([word.encode(), *numbers]) + b"\n")
                    missing.remove(word)
        if len(missing) == len(wanted):
            message = (
                f"{file} has no vector for any word of the training rows. Are the vectors of another language, or in "
                "another case (data.lowercase)?"
            )
            raise DataError(Fault("data.vectors", "missing", message))
        vectors = _torchtext(folder / target.name)
        os.replace(folder / f"{target.name}{CACHED}", f"{target}{CACHED}")
    return vectors


def _cached(target: Path) -> Vectors | None:
    try:
        return _torchtext(target)
    except Exception:  # the file is missing, or damaged in any way
        return None


def _torchtext(file: Path) -> Vectors:
    """Lets `torchtext` read a file, or what it has cached of it in the same folder."""
    from torchtext.vocab import Vectors

    context = ssl._create_default_https_context
    try:
        with redirect_stderr(io.StringIO()):  # the progress bar of `torchtext`
            return Vectors(str(file), cache=str(file.parent))
    finally:
        # `Vectors` disables the verification of TLS certificates for the whole process (PEP 476 names this hook).
        ssl._create_default_https_context = context
