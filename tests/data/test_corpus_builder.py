"""From rows to a corpus on disk."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from list_source import ListSource
from refusals import assert_refused

from sentattn.data.cache import Progress, no_progress
from sentattn.data.corpus import Corpus, Row, Source, build
from sentattn.data.tokenizer import WordTypes


def build_words(source: Source, folder: Path, *, limit: int | None = None, progress: Progress = no_progress) -> None:
    build(source, folder, types=WordTypes(), limit=limit, progress=progress)


def test_a_limit_keeps_all_fields_of_a_row(tmp_path: Path) -> None:
    rows = [Row(f"text {i}", i % 2, f"film {i // 4}", ((i, i + 2), (7, 9))[: i % 3]) for i in range(12)]
    (tmp_path / "some").mkdir()
    (tmp_path / "few").mkdir()
    build_words(ListSource({"train": rows}), tmp_path / "some", limit=6)
    corpus = Corpus(tmp_path / "some")
    chosen = [rows[position] for position in corpus.positions]
    # Each class has half of the six, evenly spread over its own six rows.
    assert corpus.positions.tolist() == [0, 1, 4, 5, 8, 9]
    assert [corpus.text(i) for i in range(6)] == [row.text for row in chosen]
    assert corpus.labels.tolist() == [row.label for row in chosen]
    assert [corpus.group(i) for i in range(6)] == [row.group for row in chosen]
    assert [tuple(corpus.rationale(i)) for i in range(6)] == [row.rationale for row in chosen]
    # It is as if the source had no other rows: the files are the same but for the positions.
    build_words(ListSource({"train": chosen}), tmp_path / "few")
    for file in (tmp_path / "few").iterdir():
        assert (file.read_bytes() == (tmp_path / "some" / file.name).read_bytes()) == (file.name != "positions.npy")


def test_a_limit_of_an_empty_split(tmp_path: Path) -> None:
    build_words(ListSource({"train": [Row("a", 0)], "test": []}), tmp_path, limit=2)
    assert {split: len(rows) for split, rows in Corpus(tmp_path).splits.items()} == {"train": 1, "test": 0}


class Endless(ListSource):
    """Makes rows as they are read."""

    def __init__(self, count: int) -> None:
        super().__init__({"train": []})
        self.count = count

    def read(self, split: str) -> Iterator[Row]:
        for i in range(self.count):
            yield Row(f"{i % 100} " + "x" * 300, i % 2)


@pytest.mark.parametrize("limit", [None, 10])
def test_memory_of_a_row_is_a_few_bytes(tmp_path: Path, limit: int | None) -> None:
    def peak(count: int) -> int:
        folder = tmp_path / str(count)
        folder.mkdir()
        tracemalloc.start()
        build_words(Endless(count), folder, limit=limit)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(10)
    assert (peak(1500) - peak(500)) / 1000 < 120


def test_rows_without_a_word_are_refused(tmp_path: Path) -> None:
    source = ListSource({"train": [Row("  ", 0), Row("", 1)]})
    assert_refused(lambda: build_words(source, tmp_path), "data", "missing", "token")


def test_progress_names_its_stage(tmp_path: Path) -> None:
    messages: list[tuple[str, int, int | None]] = []
    rows = [Row("a", 0)] * 1500
    build_words(ListSource({"train": rows}), tmp_path, progress=lambda *args: messages.append(args))
    assert messages == [("Reading train", 1000, None)]
