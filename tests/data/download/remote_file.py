"""A file on a server on the loopback interface, and how a test asks for it."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from sentattn.data.download.fetching import fetch
from sentattn.data.download.transfer import Patience
from sentattn.errors import DataError

NAME = "reviews.tar.gz"
CONTENT = gzip.compress(b"a film, a play; " * 1000) + bytes(range(256)) * 1000
SIZE, HALF = len(CONTENT), len(CONTENT) // 2
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NO_WAITS = Patience(waits=(0.0, 0.0))
IMPATIENT = Patience(silence=0.5, waits=(0.0,))


def left(cache: Path) -> set[str]:
    """Names of the files in the folder of downloads, without those of locks and checks."""
    return {file.name for file in (cache / "downloads").iterdir() if file.suffix not in (".lock", ".verified")}


def get(cache: Path, patience: Patience = NO_WAITS) -> bytes:
    return fetch(NAME, folder=cache, patience=patience).read_bytes()


def refusal(cache: Path, **how: object) -> str:
    with pytest.raises(DataError) as caught:
        fetch(NAME, folder=cache, **{"patience": NO_WAITS, **how})  # type: ignore[arg-type]
    return str(caught.value)
