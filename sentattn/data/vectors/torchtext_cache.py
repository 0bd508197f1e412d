"""Word vectors that torchtext has cached; torchtext itself is not imported, and nothing is downloaded."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING

from sentattn.errors import DataError, Fault

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = "torchtext:"
CACHE = Path(".vector_cache")
"""Where torchtext keeps vectors: in the working folder."""
FILES = {
    r"glove\.(42B|6B|840B|twitter\.27B)\.(\d+d)": r"glove.\1.\2.txt.pt",
    r"fasttext\.(\w+)\.300d": r"wiki.\1.vec.pt",
    r"charngram\.100d": "charNgram.txt.pt",
}
"""torchtext's names of vectors, and the files in which it keeps them."""


def cache_file(vectors: str) -> Path | None:
    """Returns the file of vectors that torchtext has cached: `torchtext:NAME`, or a path that ends in `.pt`.

    Other vectors are none of torchtext's.

    Raises:
        DataError: If it is not there, or torchtext has no vectors of this name.
    """
    name = vectors.removeprefix(PREFIX)
    if name == vectors:
        path = Path(vectors).expanduser()
        if path.suffix != ".pt":
            return None
    else:
        files = [match.expand(file) for pattern, file in FILES.items() if (match := re.fullmatch(pattern, name))]
        if not files:
            message = f"torchtext has no vectors {name}; legal are names such as glove.6B.100d and fasttext.en.300d."
            raise DataError(Fault("data.vectors", "unknown", message))
        path = CACHE / files[0]
    if not path.is_file():
        message = f"data.vectors={vectors} is read from {path}, which is not there; sentattn downloads nothing of it."
        raise DataError(Fault("data.vectors", "not_found", message))
    return path


def read_cache(path: Path) -> tuple[list[str], Tensor]:
    """Reads a file in which torchtext caches vectors; no code in it is run.

    Returns:
        The words, and vectors_FE, a row of float32 each.

    Raises:
        DataError: If it is another file.
    """
    import torch

    try:
        words, _, vectors_FE, width = torch.load(path, map_location="cpu", weights_only=True, mmap=None)
        if vectors_FE.shape != (len(words), width) or not all(isinstance(word, str) for word in words):
            raise ValueError("its words and vectors do not fit")
        if not vectors_FE.isfinite().all():
            raise ValueError("it holds numbers that are not finite")
    except (OSError, RuntimeError, ValueError, TypeError, AttributeError, EOFError, pickle.UnpicklingError) as error:
        reason = str(error).partition("\n")[0]
        message = f"{path} is no cache of torchtext's vectors (words, their rows, a matrix, its width): {reason}"
        raise DataError(Fault("data.vectors", "damaged", message)) from error
    return words, vectors_FE.float()
