"""Labelled texts: the interface of a data set, the tokenized corpus on disk, and its splits.

A corpus is a folder of memory-mapped arrays in which every word type has an id. Vocabulary, validation rows and text
length are applied when it is opened, so other values of these settings do not tokenize again.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from sentattn.data.batching import Batch
from sentattn.data.sampling import NO_GROUP
from sentattn.data.tokenizer import PAD_ID, Clip, clipped, kept_positions

FLAT_ROWS = 1000
"""Rows per chunk of `Split.flat`."""
FORMAT = 2
META, WORDS, GROUPS, TOKENS, TEXTS = "meta.json", "words.json", "groups.json", "tokens.bin", "texts.bin"


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled text.

    Attributes:
        text: The text, unchanged.
        label: Index of its class in `Source.labels`.
        group: Name of the rows that belong together, such as their film, or "".
        rationale: Character spans that decide the label, where they are known.
    """

    text: str
    label: int
    group: str = ""
    rationale: tuple[tuple[int, int], ...] = ()


class Source(ABC):
    """Labelled texts in their original order and splits.

    Attributes:
        labels: Names of the classes, by index. A source that infers them from its rows sets `labels` and `ordered`
            before it yields the first row.
        ordered: Whether the classes are steps of a scale, such as stars.
        splits: The original splits: `train`, and optionally `val` and `test`.
    """

    labels: tuple[str, ...]
    ordered: bool = False
    splits: tuple[str, ...]

    @abstractmethod
    def fingerprint(self) -> str:
        """Returns a hash of the content, cheap enough for every start."""

    @abstractmethod
    def read(self, split: str) -> Iterator[Row]:
        """Yields the rows of an original split, in order.

        Raises:
            DataError: If the data is missing, damaged or unusable.
        """


class DamagedCorpusError(Exception):
    """A stored corpus with a missing or changed file."""


class Corpus:
    """An opened corpus. The tokens of row i are `tokens[token_offsets[i]:token_offsets[i + 1]]`.

    Attributes:
        splits: Row numbers of each split of the source.
        classes: Names of the classes, by index.
        ordered: Whether the classes are steps of a scale.
        words: The word types, sorted; a token is an index into them.
        labels: Class of each row.
        positions: Position of each row in its split, in the source's order.
        row_ids: First 16 hexadecimal digits of the SHA-256 of each row's text.
        tokens: Word types of all rows, concatenated.
        token_offsets: Start of each row in `tokens`, and the end of the last row.
        lengths: Number of tokens of each row.

    Raises:
        DamagedCorpusError: If a file is missing or has another size.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            meta = _read_json(folder / META)
            for name, size in meta["bytes"].items():
                if (actual := (folder / name).stat().st_size) != size:
                    raise DamagedCorpusError(f"{name} has {actual} bytes instead of {size}")
            self.splits = {split: np.arange(*bounds) for split, bounds in meta["splits"].items()}
            self.classes: tuple[str, ...] = tuple(meta["classes"])
            self.ordered: bool = meta["ordered"]
            self.words: list[str] = _read_json(folder / WORDS)
            self._groups: list[str] = _read_json(folder / GROUPS)
            # A plain array is faster to index than `np.memmap`.
            self._texts: NDArray[np.uint8] = np.asarray(np.memmap(folder / TEXTS, dtype=np.uint8, mode="r"))
            self.tokens: NDArray[np.int32] = np.asarray(np.memmap(folder / TOKENS, dtype=np.int32, mode="r"))
            self._arrays: dict[str, NDArray[Any]] = {file.stem: np.load(file) for file in folder.glob("*.npy")}
            self.labels: NDArray[np.int64] = self._arrays["labels"]
            self.positions: NDArray[np.int64] = self._arrays["positions"]
            self.row_ids: NDArray[np.bytes_] = self._arrays["row_ids"]
            self.token_offsets: NDArray[np.int64] = self._arrays["token_offsets"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedCorpusError(str(error)) from error

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the folder, not the arrays."""
        return Corpus, (self.folder,)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.token_offsets)

    def text(self, row: int) -> str:
        """Returns the text of a row as in the source."""
        start, end = self._arrays["text_offsets"][row : row + 2]
        return bytes(self._texts[start:end]).decode()

    def group(self, row: int) -> str:
        """Returns the group of a row, such as its film, or ""."""
        return self._groups[int(self._arrays["row_groups"][row])]

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """Number of each row's group, `NO_GROUP` where it has none."""
        numbers = [i if name else NO_GROUP for i, name in enumerate(self._groups)]
        groups: NDArray[np.int64] = np.array(numbers, dtype=np.int64)[self._arrays["row_groups"]]
        return groups

    def rationale(self, row: int) -> list[tuple[int, int]]:
        """Returns the character spans that decide the label of a row; empty where they are unknown."""
        start, end = self._arrays["rationale_offsets"][row : row + 2]
        return [(int(first), int(last)) for first, last in self._arrays["rationales"][start:end]]


def _read_json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


class Split(Dataset[Batch]):
    """The rows of a split, clipped. An item is a whole batch, so that no Python loop runs over rows or tokens.

    Args:
        corpus: All rows.
        rows: Row numbers of the split, in order.
        ids: Id of each word type of the corpus.
        max_length: Most tokens per row; None keeps all.
        clip: Which tokens of a longer row are kept.

    Attributes:
        labels: Class of each row.
        lengths: Number of tokens of each row after clipping.
        row: Position of each row in its split of the source.
    """

    def __init__(
        self, corpus: Corpus, rows: NDArray[np.int64], *, ids: NDArray[np.int64], max_length: int | None, clip: Clip
    ) -> None:
        self._corpus = corpus
        self._rows = rows
        self._starts = corpus.token_offsets[rows]
        self._whole_lengths = corpus.lengths[rows]
        self._ids = ids
        self._max_length = max_length
        self._clip = clip
        self.labels = corpus.labels[rows]
        self.lengths = clipped(self._whole_lengths, max_length)
        self.row = corpus.positions[rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: Sequence[int] | NDArray[np.int64] | int) -> Batch:
        """Returns rows as one batch, padded to the longest of them."""
        rows_B = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        positions_BL, mask_BL = kept_positions(self._whole_lengths[rows_B], self._max_length, self._clip)
        types_BL = self._corpus.tokens[self._starts[rows_B, None] + positions_BL]
        tokens_BL = np.where(mask_BL, self._ids[types_BL], PAD_ID)
        tokens, mask, labels, indices = map(torch.from_numpy, (tokens_BL, mask_BL, self.labels[rows_B], rows_B))
        return Batch(tokens, mask, labels, indices, self.lengths[rows_B])

    def flat(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the ids of all rows, concatenated, and the start of each row with the end of the last."""
        offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        tokens = np.empty(offsets[-1], dtype=np.int64)
        for start in range(0, len(self), FLAT_ROWS):
            rows = np.arange(start, min(start + FLAT_ROWS, len(self)))
            tokens_BL, mask_BL, *_ = self[rows]
            tokens[offsets[start] : offsets[rows[-1] + 1]] = tokens_BL[mask_BL].numpy()
        return tokens, offsets

    @cached_property
    def row_id(self) -> list[str]:
        """A hash of each row's text."""
        return [row_id.decode() for row_id in self._corpus.row_ids[self._rows]]

    @cached_property
    def group(self) -> list[str]:
        """The group of each row, such as its film, or ""."""
        return [self._corpus.group(row) for row in self._rows]

    def texts(self, i: int) -> str:
        """Returns the text of row `i` of the split."""
        return self._corpus.text(self._rows[i])

    def rationale(self, i: int) -> list[tuple[int, int]]:
        """Returns the character spans that decide the label of row `i`; empty where they are unknown."""
        return self._corpus.rationale(self._rows[i])
