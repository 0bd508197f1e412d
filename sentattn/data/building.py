"""From a source's rows to a corpus on disk, in two passes over the texts: find all words, then number them."""

from __future__ import annotations

import hashlib
import json
import pickle
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np

from sentattn.data import spacy_words
from sentattn.data.corpus import GROUPS, TEXTS, TOKENS, WORDS, seal
from sentattn.data.datasets.base import Row, Source
from sentattn.data.splitting import spread
from sentattn.data.text import CHUNK, Rules, backend, word_types
from sentattn.errors import DataError

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Is told the stage, how much of it is done, and how much there is (None: not known)."""

ID_DIGITS = 16


def build(
    source: Source, folder: Path, *, rules: Rules, lowercase: bool, limit: int | None, progress: Progress
) -> None:
    """Reads a source and writes its corpus into an empty folder.

    Args:
        source: What is read.
        folder: Where the files go.
        rules: Whose rules say what a word is.
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
            rows = _told(source.read(split), f"Reading {split}", progress)
            for position, row in enumerate(rows) if limit is None else _limited(rows, limit, folder):
                file.write(columns.add(position, row))
            splits[split] = (before, len(columns))
    columns.save(folder)
    if rules == "words":
        _store_tokens(folder, folder / TEXTS, columns.text_offsets, rules, lowercase, progress)
    else:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            offsets = _split_by_spacy(folder, columns.text_offsets, Path(file.name), progress)
            _store_tokens(folder, Path(file.name), offsets, rules, lowercase, progress)
    seal(folder, splits, classes=source.labels, ordered=source.ordered)


class _Columns:
    """What is stored of the rows beside texts and tokens, some 50 bytes a row."""

    def __init__(self) -> None:
        self.text_offsets = array("q", [0])
        self._labels = array("q")
        self._positions = array("q")
        self._row_ids = bytearray()
        self._row_groups = array("i")
        self._groups: dict[str, int] = {}
        self._rationales = array("i")
        self._rationale_offsets = array("q", [0])

    def __len__(self) -> int:
        return len(self._labels)

    def add(self, position: int, row: Row) -> bytes:
        """Takes a row up and returns its text in UTF-8."""
        text = row.text.encode()
        self.text_offsets.append(self.text_offsets[-1] + len(text))
        self._labels.append(row.label)
        self._positions.append(position)
        self._row_ids += hashlib.sha256(text).hexdigest()[:ID_DIGITS].encode()
        self._row_groups.append(self._groups.setdefault(row.group, len(self._groups)))
        self._rationales.extend(chain.from_iterable(row.rationale))
        self._rationale_offsets.append(len(self._rationales) // 2)
        return text

    def save(self, folder: Path) -> None:
        arrays = {
            "labels": np.asarray(self._labels),
            "positions": np.asarray(self._positions),
            "row_ids": np.frombuffer(self._row_ids, dtype=f"S{ID_DIGITS}"),
            "row_groups": np.asarray(self._row_groups),
            "text_offsets": np.asarray(self.text_offsets),
            "rationales": np.asarray(self._rationales).reshape(-1, 2),
            "rationale_offsets": np.asarray(self._rationale_offsets),
        }
        for name, column in arrays.items():
            np.save(folder / f"{name}.npy", column)
        _write_json(folder / GROUPS, list(self._groups))


def _split_by_spacy(folder: Path, offsets: array[int], file: Path, progress: Progress) -> array[int]:
    """Writes all texts' words, one a line, and returns where each text's are: spaCy is too slow for two passes."""
    split_offsets = array("q", [0])
    with file.open("wb") as stream:
        for texts in _stored_texts(folder / TEXTS, offsets, "Splitting into words", progress):
            for text in texts:
                stream.write(spacy_words.joined(text, spacy_words.spans(text)).encode())
                split_offsets.append(stream.tell())
    return split_offsets


def _store_tokens(
    folder: Path, texts: Path, offsets: array[int], rules: Rules, lowercase: bool, progress: Progress
) -> None:
    """Writes the words and every row's tokens."""
    chunks = _stored_texts(texts, offsets, "Finding words", progress)
    words = word_types(chunks, rules=rules, lowercase=lowercase)
    if not words:
        raise DataError("No row of the data holds a word or a sign to read.")
    numbering = backend({word: number for number, word in enumerate(words)}, rules=rules, lowercase=lowercase)
    token_offsets = array("q", [0])
    with (folder / TOKENS).open("wb") as file:
        for chunk in _stored_texts(texts, offsets, "Tokenizing", progress):
            for one in numbering.encode_batch_fast(chunk, add_special_tokens=False):
                array("i", one.ids).tofile(file)
                token_offsets.append(token_offsets[-1] + len(one))
    np.save(folder / "token_offsets.npy", np.asarray(token_offsets))
    _write_json(folder / WORDS, words)


def _stored_texts(file: Path, offsets: array[int], stage: str, progress: Progress) -> Iterator[list[str]]:
    """Yields the texts in chunks, from the file: a large corpus need not fit into memory."""
    with file.open("rb") as stream:
        for first in range(0, len(offsets) - 1, CHUNK):
            bounds = offsets[first : first + CHUNK + 1]
            yield [stream.read(end - start).decode() for start, end in pairwise(bounds)]
            progress(stage, first + len(bounds) - 1, len(offsets) - 1)


def _told(rows: Iterable[Row], stage: str, progress: Progress) -> Iterator[Row]:
    for done, row in enumerate(rows, start=1):
        yield row
        if done % CHUNK == 0:
            progress(stage, done, None)


def _limited(rows: Iterable[Row], limit: int, folder: Path) -> Iterator[tuple[int, Row]]:
    """Yields `limit` rows with their positions, each class in its share, evenly spread.

    Which ones these are is known only when all labels are; until then all rows wait in a file.
    """
    labels, starts = array("q"), array("q")
    with tempfile.TemporaryFile(dir=folder) as file:
        for row in rows:
            labels.append(row.label)
            starts.append(file.tell())
            pickle.dump(row, file)
        for position in spread(np.asarray(labels), limit):
            file.seek(starts[position])
            yield int(position), pickle.load(file)  # noqa: S301 - it was written above


def _write_json(file: Path, content: list[str]) -> None:
    file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
