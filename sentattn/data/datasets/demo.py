"""The embedded demo corpus: short reviews from a seeded grammar that knows which words decide."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator

from sentattn.data.datasets.base import Row, Source
from sentattn.data.datasets.demo_grammar import write
from sentattn.data.datasets.demo_templates import TEST, TRAIN, VAL
from sentattn.errors import DataError, suggestion

_TEMPLATES = {"train": TRAIN, "val": VAL, "test": TEST}
_SIZES = {"train": 4000, "val": 500, "test": 500}


class Demo(Source):
    """Short reviews of films and restaurants, the same rows on every machine.

    Every split is balanced, and no sentence template stands in two splits. `Row.rationale` marks the words that decide
    the label, one span a word: the opinion that counts and, where there is one, its negator.
    """

    labels = ("negative", "positive")
    splits = ("train", "val", "test")

    def fingerprint(self) -> str:
        """Returns the SHA-256 of all rows."""
        return _fingerprint()

    def read(self, split: str) -> Iterator[Row]:
        """Yields the rows of one split.

        Raises:
            DataError: If there is no such split.
        """
        if split not in self.splits:
            raise DataError(
                f"demo has no split {split!r}; its splits are {', '.join(self.splits)}.{suggestion(split, self.splits)}"
            )
        yield from _rows(split)


@functools.cache
def _rows(split: str) -> tuple[Row, ...]:
    return write(_TEMPLATES[split], size=_SIZES[split], seed=Demo.splits.index(split))


@functools.cache
def _fingerprint() -> str:
    digest = hashlib.sha256()
    for split in Demo.splits:
        for row in _rows(split):
            digest.update(f"{split}\t{row.label}\t{row.rationale}\t{row.text}\n".encode())
    return digest.hexdigest()
