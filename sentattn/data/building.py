"""From a source's rows to a corpus on disk, in two passes over the texts: find all words, then number them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sentattn.data.corpus import GROUPS, TEXTS, TOKENS, WORDS, seal
from sentattn.data.sources.base import Row, Source
from sentattn.data.splitting import spread
from sentattn.data.text import CHUNK, backend, chunks, word_types
from sentattn.errors import DataError

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Is told the stage, how much of it is done, and how much there is (None: not known)."""


def build(source: Source, folder: Path, *, lowercase: bool, limit: int | None, progress: Progress) -> None:
    """Reads a source and writes its corpus into an empty folder.

    Args:
        source: What is read.
        folder: Where the files go.
        lowercase: Whether words are told apart in lower case only.
        limit: Most rows of each split, or None.
        progress: Is told how far the work is.

    Raises:
        DataError: If the data is missing or damaged, or no row holds a word.
    """
    splits: dict[str, tuple[int, int]] = {}
    columns = _Columns()
    with (folder / TEXTS).open("wb") as file:
        for split in source.splits:
            before = len(columns)
            for position, row in _limited(source.read(split), limit):
                file.write(columns.add(position, row))
                if len(columns) % CHUNK == 0:
                    progress(f"Reading {split}", len(columns) - before, None)
            splits[split] = (before, len(columns))
    columns.save(folder)
    _store_tokens(folder, columns.text_sizes, lowercase, progress)
    seal(folder, splits)


class _Columns:
    """What is stored of the rows beside texts and tokens."""

    def __init__(self) -> None:
        self.text_sizes: list[int] = []
        self._labels: list[int] = []
        self._positions: list[int] = []
        self._row_ids: list[str] = []
        self._row_groups: list[int] = []
        self._groups: dict[str, int] = {}
        self._rationales: list[tuple[tuple[int, int], ...]] = []

    def __len__(self) -> int:
        return len(self._labels)

    def add(self, position: int, row: Row) -> bytes:
        """Takes a row up and returns its text in UTF-8."""
        text = row.text.encode()
        self.text_sizes.append(len(text))
        self._labels.append(row.label)
        self._positions.append(position)
        self._row_ids.append(hashlib.sha256(text).hexdigest()[:16])
        self._row_groups.append(self._groups.setdefault(row.group, len(self._groups)))
        self._rationales.append(row.rationale)
        return text

    def save(self, folder: Path) -> None:
        arrays = {
            "labels": np.array(self._labels, dtype=np.int64),
            "positions": np.array(self._positions, dtype=np.int64),
            "row_ids": np.array(self._row_ids, dtype="S16"),
            "row_groups": np.array(self._row_groups, dtype=np.int32),
            "text_offsets": _offsets(self.text_sizes),
            "rationales": np.array(list(chain.from_iterable(self._rationales)), dtype=np.int32).reshape(-1, 2),
            "rationale_offsets": _offsets([len(spans) for spans in self._rationales]),
        }
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        _write_json(folder / GROUPS, list(self._groups))


def _store_tokens(folder: Path, text_sizes: Sequence[int], lowercase: bool, progress: Progress) -> None:
    """Writes the words and every row's tokens."""

    def texts(stage: str) -> Iterator[list[str]]:
        return _stored_texts(folder / TEXTS, text_sizes, lambda done: progress(stage, done, len(text_sizes)))

    words = word_types(texts("Finding words"), lowercase=lowercase)
    if not words:
        raise DataError("No row of the data holds a word or a sign to read.")
    numbering = backend({word: number for number, word in enumerate(words)}, lowercase=lowercase)
    lengths: list[int] = []
    with (folder / TOKENS).open("wb") as file:
        for chunk in texts("Tokenizing"):
            encoded = [one.ids for one in numbering.encode_batch_fast(chunk, add_special_tokens=False)]
            np.fromiter(chain.from_iterable(encoded), dtype=np.int32).tofile(file)
            lengths.extend(map(len, encoded))
    np.save(folder / "token_offsets.npy", _offsets(lengths))
    _write_json(folder / WORDS, words)


def _stored_texts(file: Path, sizes: Sequence[int], tell: Callable[[int], None]) -> Iterator[list[str]]:
    """Yields the texts in chunks, from the file: a large corpus need not fit into memory."""
    done = 0
    with file.open("rb") as stream:
        for chunk in chunks(sizes, CHUNK):
            yield [stream.read(size).decode() for size in chunk]
            done += len(chunk)
            tell(done)


def _limited(rows: Iterable[Row], limit: int | None) -> Iterator[tuple[int, Row]]:
    """Yields rows with their positions: all, or `limit` of them, each class in its share, evenly spread."""
    if limit is None:
        yield from enumerate(rows)
        return
    everything = list(rows)
    for position in spread(np.array([row.label for row in everything], dtype=np.int64), limit):
        yield int(position), everything[position]


def _offsets(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _write_json(file: Path, content: list[str]) -> None:
    file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
