"""Word vectors that torchtext has cached. torchtext is not imported, and nothing is downloaded."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING

from sentattn.errors import DataError, Fault

if TYPE_CHECKING:
    from torch import Tensor

KEY = "data.vectors"
PREFIX = "torchtext:"
CACHE = Path(".vector_cache")
"""The folder of torchtext's vectors, in the working folder."""
FILES = {
    r"glove\.(42B|6B|840B|twitter\.27B)\.(\d+d)": r"glove.\1.\2.txt.pt",
    r"fasttext\.(\w+)\.300d": r"wiki.\1.vec.pt",
    r"charngram\.100d": "charNgram.txt.pt",
}
"""torchtext's names of vectors, as patterns, and the file of each."""


def cache_file(vectors: str) -> Path | None:
    """Returns torchtext's file for `torchtext:NAME` or a path that ends in `.pt`; None for other vectors.

    Raises:
        DataError: If the file is missing, or torchtext has no vectors of this name.
    """
    name = vectors.removeprefix(PREFIX)
    if name == vectors:
        path = Path(vectors).expanduser()
        if path.suffix != ".pt":
            return None
    else:
        files = [match.expand(file) for pattern, file in FILES.items() if (match := re.fullmatch(pattern, name))]
        if not files:
            message = f"{KEY}={vectors} must name vectors of torchtext, such as glove.6B.100d or fasttext.en.300d."
            raise DataError(Fault(KEY, "unknown", message))
        path = CACHE / files[0]
    if not path.is_file():
        message = f"{KEY}={vectors} needs the file {path}, which does not exist; sentattn does not download it."
        raise DataError(Fault(KEY, "not_found", message))
    return path


def read_cache(path: Path) -> tuple[list[str], Tensor]:
    """Reads a file in which torchtext has cached vectors, without running code in it.

    Returns:
        The words, and vectors_FE, one row per word, float32.

    Raises:
        DataError: If the file holds something else.
    """
    import torch

    try:
        words, _, vectors_FE, width = torch.load(path, map_location="cpu", weights_only=True, mmap=None)
        if vectors_FE.shape != (len(words), width) or not all(isinstance(word, str) for word in words):
            raise ValueError("its words and vectors do not fit")
        if not vectors_FE.isfinite().all():
            raise ValueError("it holds NaN or infinite numbers")
    except (OSError, RuntimeError, ValueError, TypeError, AttributeError, EOFError, pickle.UnpicklingError) as error:
        reason = str(error).partition("\n")[0]
        message = f"{path} must hold vectors cached by torchtext (words, their rows, a matrix, its width): {reason}"
        raise DataError(Fault(KEY, "damaged", message)) from error
    return words, vectors_FE.float()
