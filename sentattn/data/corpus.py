"""The tokenized corpus on disk: flat memory-mapped arrays that all processes share; and its splits.

Every word type has an id here. Vocabulary, validation rows and text length are applied when the corpus is opened, so a
change of these settings does not tokenize again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sentattn.data.text import clipped

FORMAT = 2
META, WORDS, GROUPS = "meta.json", "words.json", "groups.json"
TOKENS, TEXTS = "tokens.bin", "texts.bin"
ARRAYS = (
    "labels",
    "positions",
    "row_ids",
    "row_groups",
    "token_offsets",
    "text_offsets",
    "rationales",
    "rationale_offsets",
)


class DamagedCorpusError(Exception):
    """A stored corpus with a missing or changed file."""


class Corpus:
    """An opened corpus; row i of it has `tokens[token_offsets[i]:token_offsets[i + 1]]`, and so on.

    Args:
        folder: Where it is stored.

    Attributes:
        splits: For each of the source's splits the rows it has.
        classes: Names of the classes, by index.
        ordered: Whether the classes are steps of a scale.
        words: The word types, sorted; a token is an index into them.
        labels: Class of each row.
        positions: Position of each row in its split, in the source's order.
        row_ids: First 16 hexadecimal digits of the SHA-256 of each row's text.
        tokens: Word types of all rows, one after another.

    Raises:
        DamagedCorpusError: If it is incomplete.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            meta = json.loads((folder / META).read_text(encoding="utf-8"))
            _require_sizes(folder, meta["bytes"])
            self.splits = {split: np.arange(*bounds) for split, bounds in meta["splits"].items()}
            self.classes: tuple[str, ...] = tuple(meta["classes"])
            self.ordered: bool = meta["ordered"]
            self.words: list[str] = json.loads((folder / WORDS).read_text(encoding="utf-8"))
            self._groups: list[str] = json.loads((folder / GROUPS).read_text(encoding="utf-8"))
            # Plain arrays avoid the overhead of `np.memmap` at each access.
            self._texts: NDArray[np.uint8] = np.asarray(np.memmap(folder / TEXTS, dtype=np.uint8, mode="r"))
            self.tokens: NDArray[np.int32] = np.asarray(np.memmap(folder / TOKENS, dtype=np.int32, mode="r"))
            arrays: dict[str, NDArray[Any]] = {name: np.load(folder / f"{name}.npy") for name in ARRAYS}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedCorpusError(str(error)) from error
        self.labels: NDArray[np.int64] = arrays["labels"]
        self.positions: NDArray[np.int64] = arrays["positions"]
        self.row_ids: NDArray[np.bytes_] = arrays["row_ids"]
        self.token_offsets: NDArray[np.int64] = arrays["token_offsets"]
        self._row_groups = arrays["row_groups"]
        self._text_offsets = arrays["text_offsets"]
        self._rationales = arrays["rationales"]
        self._rationale_offsets = arrays["rationale_offsets"]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the folder, not the arrays."""
        return Corpus, (self.folder,)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each row."""
        return np.diff(self.token_offsets)

    def text(self, row: int) -> str:
        """Returns the text of a row as in the source."""
        start, end = self._text_offsets[row : row + 2]
        return bytes(self._texts[start:end]).decode()

    def group(self, row: int) -> str:
        """Returns the group of a row (its film), or ""."""
        return self._groups[int(self._row_groups[row])]

    def rationale(self, row: int) -> list[tuple[int, int]]:
        """Returns the character spans that decide the label of a row; empty where they are unknown."""
        spans = self._rationales[self._rationale_offsets[row] : self._rationale_offsets[row + 1]]
        return [(int(start), int(end)) for start, end in spans]


def _require_sizes(folder: Path, sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        actual = (folder / name).stat().st_size
        if actual != size:
            raise DamagedCorpusError(f"{name} has {actual} bytes instead of {size}")


def seal(folder: Path, splits: Mapping[str, tuple[int, int]], *, classes: Sequence[str], ordered: bool) -> None:
    """Writes the metadata of a corpus, after all its other files.

    Args:
        folder: The folder of the corpus.
        splits: First row of each split, and the row after its last.
        classes: Names of the classes, by index.
        ordered: Whether the classes are steps of a scale.
    """
    sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
    meta = {"format": FORMAT, "splits": splits, "classes": classes, "ordered": ordered, "bytes": sizes}
    (folder / META).write_text(json.dumps(meta, ensure_ascii=False), encoding="utf-8")


class Split:
    """Some rows of a corpus.

    Args:
        corpus: All rows.
        rows: Rows of the split, in its order.
        max_length: Most tokens of a row that are read.

    Attributes:
        labels: Class of each row.
        lengths: Number of tokens of each row that are read.
        row: Position of each row in the source's own split and order.
    """

    def __init__(self, corpus: Corpus, rows: NDArray[np.int64], max_length: int | None) -> None:
        self._corpus = corpus
        self._rows = rows
        self.labels = corpus.labels[rows]
        self.lengths = clipped(corpus.lengths[rows], max_length)
        self.row = corpus.positions[rows]

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def row_id(self) -> list[str]:
        """A hash of each row's text."""
        return [row_id.decode() for row_id in self._corpus.row_ids[self._rows]]

    @cached_property
    def group(self) -> list[str]:
        """The group of each row (its film), or ""."""
        return [self._corpus.group(row) for row in self._rows]

    def texts(self, i: int) -> str:
        """Returns the text of row `i` of the split."""
        return self._corpus.text(self._rows[i])

    def rationale(self, i: int) -> list[tuple[int, int]]:
        """Returns the character spans that decide the label of row `i`; empty where they are unknown."""
        return self._corpus.rationale(self._rows[i])
