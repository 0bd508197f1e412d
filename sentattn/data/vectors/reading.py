"""Pretrained vectors for the words of a vocabulary: streamed from a file or an archive, then read by `torchtext`."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import ssl
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sentattn.data.building import Progress
from sentattn.data.cache import locked
from sentattn.data.download import fetch
from sentattn.data.text import SPECIALS
from sentattn.data.vectors.files import NAMES, VectorFile
from sentattn.errors import DataError

if TYPE_CHECKING:
    from torchtext.vocab import Vectors

FORMAT = 1
KEPT = ".pt"
"""Ending of what `torchtext` keeps of a file that it has read."""


@dataclass(frozen=True)
class WordVectors:
    """The vectors of a vocabulary's words.

    Attributes:
        name: Where they are from, for people.
        vectors_VE: One row an id, the specials included; zeros where there is no vector. float32.
        found_V: Which ids have a vector.
    """

    name: str
    vectors_VE: Tensor
    found_V: Tensor

    @property
    def fingerprint(self) -> str:
        """Hash of the vectors, whatever file they came from; 16 hexadecimal digits."""
        content = hashlib.sha256(self.found_V.numpy().tobytes())
        content.update(self.vectors_VE.numpy().tobytes())
        return content.hexdigest()[:16]


def read_vectors(
    vectors: str | None, words: Sequence[str], *, cache: Path, mirror: str | None, progress: Progress
) -> WordVectors | None:
    """Reads the vectors of words, each as it stands or else in lower case.

    Memory holds the vectors of the words, whatever the size of the file. Of a word that stands twice in the
    file the first line counts.

    Args:
        vectors: A name such as `glove.6B.300d`, which is downloaded where it is not at hand, or a file, or None.
        words: The vocabulary, by id, without the specials.
        cache: The cache folder.
        mirror: Where downloads come from instead of the official address.
        progress: Is told how far the work is.

    Raises:
        DataError: If the file is missing, damaged or no file of vectors, or has none of the words.
    """
    if vectors is None:
        return None
    # `torchtext` parts lines at spaces, and a token with one has no vector anyway.
    wanted = {form for word in words for form in (word, word.lower()) if form.split() == [form]}
    found = _found(vectors, wanted, cache, mirror, progress)
    rows_WE = found.get_vecs_by_tokens(list(words), lower_case_backup=True)
    is_found = [word in found.stoi or word.lower() in found.stoi for word in words]
    return WordVectors(
        name=vectors if vectors in NAMES else Path(vectors).name,
        vectors_VE=torch.cat([torch.zeros(len(SPECIALS), found.dim), rows_WE]),
        found_V=torch.tensor([False] * len(SPECIALS) + is_found),
    )


def _found(vectors: str, wanted: set[str], cache: Path, mirror: str | None, progress: Progress) -> Vectors:
    """Returns the vectors of the words wanted: those kept in the cache, or else those read from the file."""
    local = None if vectors in NAMES else VectorFile.named(vectors)
    name = f"vectors-{_key(local.identity if local else vectors, wanted)}"
    if (kept := _kept(name, cache)) is not None:
        return kept
    file = local or _downloaded(vectors, cache, mirror, progress)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with locked(cache / f"{name}.lock", progress):
            kept = _kept(name, cache)  # another process may have read the file meanwhile
            return kept if kept is not None else _read(file, wanted, cache / name, progress)
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(
            f"The cache folder {cache} cannot be used ({reason}); name another with data.cache_dir=FOLDER."
        ) from error


def _downloaded(name: str, cache: Path, mirror: str | None, progress: Progress) -> VectorFile:
    archive = fetch(NAMES[name][0], folder=cache, mirror=mirror, progress=progress)
    return VectorFile.named(str(archive / f"{name}.txt"))


def _read(file: VectorFile, wanted: set[str], kept: Path, progress: Progress) -> Vectors:
    """Reads a file, and keeps what was wanted of it; whoever does holds the lock."""
    prefix = f".{kept.name}."
    for left in kept.parent.glob(f"{prefix}*"):
        shutil.rmtree(left)  # by a process that was killed
    with tempfile.TemporaryDirectory(prefix=prefix, dir=kept.parent) as folder:
        small = Path(folder) / kept.name
        missing = set(wanted)
        with small.open("wb") as text:
            for word, numbers in file.lines(wanted, progress):
                if word in missing:
                    text.write(b" ".join([word.encode(), *numbers]) + b"\n")
                    missing.remove(word)
        if len(missing) == len(wanted):
            raise DataError(
                f"{file} has a vector for none of the words of the training rows: is it of another language, or in "
                "another case (data.lowercase)?"
            )
        found = _torchtext(str(small), Path(folder))
        os.replace(f"{small}{KEPT}", f"{kept}{KEPT}")
    return found


def _kept(name: str, cache: Path) -> Vectors | None:
    try:
        return _torchtext(name, cache)
    except Exception:  # it is not there, or damaged in whatever way
        return None


def _torchtext(name: str, cache: Path) -> Vectors:
    """Has `torchtext` read a file, which it keeps in a folder in a form of its own; then the name is enough."""
    from torchtext.vocab import Vectors

    context = ssl._create_default_https_context
    try:
        with redirect_stderr(StringIO()):  # of its progress bar
            return Vectors(name, cache=str(cache))
    finally:
        # `Vectors` switches the verification of certificates off, for the whole process.
        ssl._create_default_https_context = context


def _key(identity: object, wanted: set[str]) -> str:
    """Returns a hash of all that the vectors found depend on."""
    return hashlib.sha256(json.dumps([FORMAT, identity, sorted(wanted)]).encode()).hexdigest()[:16]
