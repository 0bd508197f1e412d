"""`data=demo`: 6,000 short reviews with known rationales, written by `benchmarks/demo/rows.py`."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sentattn.data.cache import Progress
from sentattn.data.corpus import Row, Source
from sentattn.data.datamodule import TextData

FINGERPRINT = "188ad12d353091ddea3466a85a782bde9207a8841f8c0db365f67a06e8648f97"
"""A test computes it from the rows."""


class DemoSource(Source):
    """Short reviews of films and restaurants, from a file of the package.

    Every split is balanced, and no sentence template is used in two splits. `Row.rationale` has a span for each word
    that decides the label: the opinion and its negator, if any.
    """

    labels = ("negative", "positive")
    splits = ("train", "val", "test")

    def fingerprint(self) -> str:
        """Returns the SHA-256 of all rows, which need not be read for it."""
        return FINGERPRINT

    def read(self, split: str) -> Iterator[Row]:
        """Yields the rows of one split."""
        yield from _rows()[split]


@functools.cache
def _rows() -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {split: [] for split in DemoSource.splits}
    with gzip.open(Path(__file__).with_suffix(".jsonl.gz"), "rt", encoding="utf-8") as file:
        for split, text, label, rationale in map(json.loads, file):
            rows[split].append(Row(text, label, rationale=tuple(map(tuple, rationale))))
    return rows


class Demo(TextData):
    """The embedded corpus of short synthetic reviews, with its own validation rows."""

    def __init__(self, *, name: str = "demo", **settings: Any) -> None:
        super().__init__(name=name, **settings)

    def source(self, progress: Progress) -> Source:
        """Returns the reviews of the package."""
        return DemoSource()
