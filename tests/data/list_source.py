"""Data sources and data modules of given rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sentattn.data.cache import Progress
from sentattn.data.corpus import Row, Source
from sentattn.data.datamodule import TextData

ROWS = {
    "train": [Row("good good film", 1, "tt1", ((0, 4), (5, 9))), Row("bad film", 0, "tt2"), Row("good good bad", 1)],
    "val": [Row("good play", 1)],
    "test": [Row("bad play", 0), Row("a very bad film", 0)],
}


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


class GivenData(TextData):
    """A data module of a source, or of what should be one."""

    def __init__(self, given: object, **settings: Any) -> None:
        super().__init__(**settings)
        self.given = given

    def source(self, progress: Progress) -> Any:
        return self.given
