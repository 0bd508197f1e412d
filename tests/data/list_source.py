"""A data source for tests."""

from __future__ import annotations

from collections.abc import Iterator

from sentattn.data.corpus import Row, Source


class ListSource(Source):
    """A source with lists of rows by split."""

    labels = ("negative", "positive")

    def __init__(self, rows: dict[str, list[Row]]) -> None:
        self.splits = tuple(rows)
        self.rows = rows

    def fingerprint(self) -> str:
        return repr(self.rows)

    def read(self, split: str) -> Iterator[Row]:
        yield from self.rows[split]
