"""The tokenized corpus on disk: flat memory-mapped arrays that every process shares.

All words have an id here, whatever the vocabulary: which of them a model knows, which rows validate
and how long a text may be are settled when the corpus is opened, so other settings never tokenize again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    """A stored corpus that lacks a file, or in which one is not as it was written."""


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
        DamagedCorpusError: If it is not whole.
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
            # Views as plain arrays spare each access the bookkeeping of `np.memmap`.
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
        """Hands another process the folder, not the arrays."""
        return Corpus, (self.folder,)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each row."""
        return np.diff(self.token_offsets)

    def text(self, row: int) -> str:
        """Returns the text of a row as it stands in the source."""
        start, end = self._text_offsets[row : row + 2]
        return bytes(self._texts[start:end]).decode()

    def group(self, row: int) -> str:
        """Returns what a row shares with others (a film), or ""."""
        return self._groups[int(self._row_groups[row])]

    def rationale(self, row: int) -> list[tuple[int, int]]:
        """Returns the character spans that decide the label of a row, where they are known."""
        spans = self._rationales[self._rationale_offsets[row] : self._rationale_offsets[row + 1]]
        return [(int(start), int(end)) for start, end in spans]


def _require_sizes(folder: Path, sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        found = (folder / name).stat().st_size
        if found != size:
            raise DamagedCorpusError(f"{name} has {found} bytes instead of {size}")


def seal(folder: Path, splits: Mapping[str, tuple[int, int]], *, classes: Sequence[str], ordered: bool) -> None:
    """Writes, last of all, what makes the files in a folder a corpus.

    Args:
        folder: Where the other files are.
        splits: First row of each split, and the row after its last.
        classes: Names of the classes, by index.
        ordered: Whether they are steps of a scale.
    """
    sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
    meta = {"format": FORMAT, "splits": splits, "classes": classes, "ordered": ordered, "bytes": sizes}
    (folder / META).write_text(json.dumps(meta, ensure_ascii=False), encoding="utf-8")
