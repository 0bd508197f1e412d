"""Labelled texts: the interface of a data set, its tokenized corpus on disk, and its splits.

A corpus is a folder of memory-mapped arrays in which every word type has an id. Vocabulary, validation rows and text
length are applied when it is opened, so other values of these settings do not tokenize again.
"""

from __future__ import annotations

import hashlib
import json
import os
import reprlib
import tempfile
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from sentattn.data.batching import Batch
from sentattn.data.cache import Progress, cached, no_progress
from sentattn.data.pieces import PieceTokenizer
from sentattn.data.states import StateTable, StateTokenizer
from sentattn.data.tokenizer import (
    CHUNK,
    LINE_BREAK_TAG,
    PAD_ID,
    Span,
    Tokenizer,
    WordTypes,
    clipped,
    kept_positions,
    require_unicode,
)
from sentattn.errors import MALFORMED, DataError, Fault

FORMAT = 2
NO_GROUP = -1
"""Group number of a row without a group."""
Rows: TypeAlias = NDArray[np.int64]
Types: TypeAlias = WordTypes | PieceTokenizer | StateTokenizer
"""What splits texts into tokens and numbers these, or finds those of rows of states."""
META, WORDS, GROUPS, TOKENS, TEXTS = "meta.json", "words.json", "groups.json", "tokens.bin", "texts.bin"
ID_DIGITS = 16
FLAT_ROWS = 1000
"""Rows per chunk of `Split.flat`."""
CHUNK_BYTES = 1 << 22
"""Bytes of tokens that are renumbered at once."""


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled text.

    Attributes:
        text: The text, unchanged.
        label: Index of its class in `Source.labels`.
        group: Name of the rows that belong together, such as their film, or "".
        rationale: Character spans that decide the label, where they are known.
        key: What its id is a hash of; None for the text.
        tokens: Ids of its states; None for the tokens of the text.
        spans: The characters of the text that each of `tokens` stands for.
    """

    text: str
    label: int
    group: str = ""
    rationale: tuple[tuple[int, int], ...] = ()
    key: str | None = None
    tokens: tuple[int, ...] | None = None
    spans: tuple[tuple[int, int], ...] = ()


_values = attrgetter(*(field.name for field in fields(Row)))


class Source(ABC):
    """Labelled texts in their original order and splits.

    Attributes:
        labels: Names of the classes, by index. A source that infers them from its rows sets `labels` and `ordered`
            before it yields the first row.
        ordered: Whether the classes are steps of a scale, such as stars.
        splits: The original splits: `train`, and optionally `val` and `test`.
        notes: Messages about the data for the user.
        skipped: Number of rows without a label of each split that `read` has left out.
    """

    labels: tuple[str, ...]
    ordered: bool = False
    splits: tuple[str, ...]
    notes: tuple[str, ...] = ()
    skipped: Mapping[str, int] = {}

    @abstractmethod
    def fingerprint(self) -> str:
        """Returns a hash of the content, cheap enough for every start."""

    @abstractmethod
    def read(self, split: str) -> Iterator[Row]:
        """Yields the rows of an original split, in order.

        Raises:
            DataError: If the data is missing, damaged or unusable.
        """


class Corpus:
    """An opened corpus. The tokens of row i are `tokens[token_offsets[i]:token_offsets[i + 1]]`.

    Attributes:
        splits: Row numbers of each split of the source.
        skipped: Number of rows without a label of each split that were left out.
        classes: Names of the classes, by index.
        ordered: Whether the classes are steps of a scale.
        words: The word types, sorted, or the pieces of a subword tokenizer; a token is an index into them.
        labels: Class of each row.
        positions: Position of each row in its split, in the source's order.
        row_ids: First 16 hexadecimal digits of the SHA-256 of each row's text.
        tokens: Word types of all rows, concatenated.
        token_offsets: Start of each row in `tokens`, and the end of the last row.
        lengths: Number of tokens of each row.
        groups: Number of each row's group, `NO_GROUP` where it has none.

    Raises:
        Exception: One of `MALFORMED`, if a file is missing or has another size.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        contents = [json.loads((folder / name).read_text(encoding="utf-8")) for name in (META, WORDS, GROUPS)]
        meta = contents[0]
        self.words: list[str] = contents[1]
        self._group_names: list[str] = contents[2]
        for name, size in meta["bytes"].items():
            if (actual := (folder / name).stat().st_size) != size:
                raise ValueError(f"{name} has {actual} bytes instead of {size}")
        self.splits = {split: np.arange(*bounds) for split, bounds in meta["splits"].items()}
        self.skipped: dict[str, int] = meta.get("skipped", {})
        self.classes: tuple[str, ...] = tuple(meta["classes"])
        self.ordered: bool = meta["ordered"]
        # A plain array is faster to index than `np.memmap`.
        self._texts: NDArray[np.uint8] = np.asarray(np.memmap(folder / TEXTS, dtype=np.uint8, mode="r"))
        self.tokens: NDArray[np.int32] = np.asarray(np.memmap(folder / TOKENS, dtype=np.int32, mode="r"))
        self._arrays: dict[str, NDArray[Any]] = {file.stem: np.load(file) for file in folder.glob("*.npy")}
        self.labels: NDArray[np.int64] = self._arrays["labels"]
        self.positions: NDArray[np.int64] = self._arrays["positions"]
        self.row_ids: NDArray[np.bytes_] = self._arrays["row_ids"]
        self.token_offsets: NDArray[np.int64] = self._arrays["token_offsets"]
        self.lengths: NDArray[np.int64] = np.diff(self.token_offsets)

    def __reduce__(self) -> tuple[type[Corpus], tuple[Path]]:
        """Pickles the folder, not the arrays."""
        return Corpus, (self.folder,)

    def text(self, row: int) -> str:
        """Returns the text of a row as in the source."""
        start, end = self._arrays["text_offsets"][row : row + 2]
        return bytes(self._texts[start:end]).decode()

    def group(self, row: int) -> str:
        """Returns the group of a row, such as its film, or ""."""
        return self._group_names[int(self._arrays["row_groups"][row])]

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        numbers = [i if name else NO_GROUP for i, name in enumerate(self._group_names)]
        groups: NDArray[np.int64] = np.array(numbers, dtype=np.int64)[self._arrays["row_groups"]]
        return groups

    def rationale(self, row: int) -> list[Span]:
        """Returns the character spans that decide the label of a row; empty where they are unknown."""
        start, end = self._arrays["rationale_offsets"][row : row + 2]
        return [(int(first), int(last)) for first, last in self._arrays["rationales"][start:end]]

    @cached_property
    def _rows_by_text(self) -> dict[int, int]:
        return {hash(self.text(row)): row for row in range(len(self.labels))}

    def find_states(self, text: str) -> tuple[NDArray[np.int32], list[Span]] | None:
        """Returns ids and character spans of the tokens of a row of states by its text; None if there is none."""
        row = self._rows_by_text.get(hash(text))
        if row is None or self.text(row) != text:
            return None
        tokens = slice(*self.token_offsets[row : row + 2])
        return self.tokens[tokens], [(int(first), int(last)) for first, last in self._arrays["spans"][tokens]]


class Split(Dataset[Batch]):
    """The rows of a split, clipped. An item is a whole batch, so that no Python loop runs over rows or tokens.

    Args:
        corpus: All rows.
        rows: Row numbers of the split, in order.
        ids: Id of each word type of the corpus; None where a token is its id.
        tokenizer: The tokenizer, which says how rows are clipped and which special tokens are around them.
        states: The states of the tokens of `data=states`, which batches then have.

    Attributes:
        gather_states: Returns the states of a frozen encoder for some rows, (B, length, E), which batches then have.
        labels: Class of each row.
        lengths: Number of tokens of each row after clipping.
        whole_lengths: Number of tokens of each row before it.
        row: Position of each row in its split of the source.
        row_id: A hash of each row's text.
        group: The group of each row, such as its film, or "".
    """

    def __init__(
        self,
        corpus: Corpus,
        rows: NDArray[np.int64],
        *,
        ids: NDArray[np.int64] | None,
        tokenizer: Tokenizer,
        states: StateTable | None = None,
    ) -> None:
        self._corpus = corpus
        self._rows = rows
        self._starts = corpus.token_offsets[rows]
        self._whole_lengths = corpus.lengths[rows]
        self._ids = ids
        self._states = states
        self._prefix, self._suffix = tokenizer.prefix, tokenizer.suffix
        around = len(self._prefix) + len(self._suffix)
        self._max_length = None if tokenizer.max_length is None else tokenizer.max_length - around
        self._clip = tokenizer.clip
        self.gather_states: Callable[[NDArray[np.int64], int], torch.Tensor] | None = None
        self.labels = corpus.labels[rows]
        self.lengths = clipped(self._whole_lengths, self._max_length) + around
        self.whole_lengths = self._whole_lengths + around
        self.row = corpus.positions[rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: Sequence[int] | NDArray[np.int64] | int) -> Batch:
        """Returns rows as one batch, padded to the longest of them."""
        rows_B = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        tokens_BL, mask_BL = self.tokens(rows_B)
        tokens, mask, labels, indices = map(torch.from_numpy, (tokens_BL, mask_BL, self.labels[rows_B], rows_B))
        states = None
        if self._states is not None:
            states = self._states.look_up(tokens_BL)
        elif self.gather_states is not None:
            states = self.gather_states(rows_B, tokens_BL.shape[1])
        return Batch(tokens, mask, labels, indices, self.lengths[rows_B], states)

    def tokens(self, rows_B: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Returns the padded ids of rows, and the mask of the real tokens, both (B, L)."""
        positions_BL, mask_BL = kept_positions(self._whole_lengths[rows_B], self._max_length, self._clip)
        types_BL = self._corpus.tokens[self._starts[rows_B, None] + positions_BL]
        tokens_BL = np.where(mask_BL, types_BL if self._ids is None else self._ids[types_BL], PAD_ID)
        if len(self._prefix) or len(self._suffix):
            return _surround(tokens_BL, mask_BL, self._prefix, self._suffix)
        return tokens_BL, mask_BL

    def flat(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the ids of all rows, concatenated, and the start of each row with the end of the last."""
        offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        tokens = np.empty(offsets[-1], dtype=np.int64)
        for start in range(0, len(self), FLAT_ROWS):
            rows = np.arange(start, min(start + FLAT_ROWS, len(self)))
            tokens_BL, mask_BL = self.tokens(rows)
            tokens[offsets[start] : offsets[rows[-1] + 1]] = tokens_BL[mask_BL]
        return tokens, offsets

    @cached_property
    def row_id(self) -> list[str]:
        return [row_id.decode() for row_id in self._corpus.row_ids[self._rows]]

    @cached_property
    def group(self) -> list[str]:
        return [self._corpus.group(row) for row in self._rows]

    def texts(self, i: int) -> str:
        """Returns the text of row `i` of the split."""
        return self._corpus.text(self._rows[i])

    def rationale(self, i: int) -> list[tuple[int, int]]:
        """Returns the character spans that decide the label of row `i`; empty where they are unknown."""
        return self._corpus.rationale(self._rows[i])


def cut_texts(splits: Collection[Split], max_length: int | None) -> list[str]:
    """Returns a message where texts are longer than is read: how many, and what share of all tokens is read."""
    whole_N, read_N = (np.concatenate([*map(attrgetter(name), splits)]) for name in ("whole_lengths", "lengths"))
    cut, share = np.count_nonzero(read_N < whole_N), read_N.sum() / max(1, whole_N.sum())
    text = f"data.max_length={max_length} cuts {cut:,} of {len(read_N):,} texts: {share:.1%} of the tokens are read."
    return [text] if cut else []


def _surround(
    tokens_BL: NDArray[np.int64], mask_BL: NDArray[np.bool_], prefix: NDArray[np.int32], suffix: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns padded rows and their mask with special tokens before and after the tokens of each."""
    rows, length = tokens_BL.shape
    first, around = len(prefix), len(prefix) + len(suffix)
    lengths_B1 = mask_BL.sum(axis=1, keepdims=True)
    whole_BL = np.full((rows, length + around), PAD_ID, dtype=np.int64)
    whole_BL[:, :first] = prefix
    whole_BL[:, first : first + length] = tokens_BL
    np.put_along_axis(whole_BL, first + lengths_B1 + np.arange(len(suffix)), suffix[None].astype(np.int64), axis=1)
    return whole_BL, np.arange(length + around) < lengths_B1 + around


def open_corpus(
    source: Source,
    cache: Path,
    *,
    name: str,
    types: Types,
    limit: int | None = None,
    progress: Progress = no_progress,
) -> tuple[Corpus, list[str]]:
    """Opens the corpus of a source; builds it first if it is not in the cache.

    Args:
        source: Labelled texts.
        cache: The folder of all corpora.
        name: The beginning of the name of the corpus's folder.
        types: What tokens are; it has read nothing yet.
        limit: Most rows of each split, or None.
        progress: Called with the progress of the work.

    Returns:
        The corpus, and notes for the user on how it was built.

    Raises:
        DataError: If the data is missing or damaged, the source has other types, or the cache cannot be written.
    """
    _require(isinstance(source, Source), "source()", "must return a sentattn.data.corpus.Source", source)
    splits, legal = getattr(source, "splits", None), 'must name the splits, such as ("train", "test")'
    is_splits = isinstance(splits, tuple | list) and splits and {*splits} <= {"train", "val", "test"}
    _require(is_splits, f"{type(source).__name__}.splits", legal, splits)
    content = [FORMAT, source.fingerprint(), list(source.splits), LINE_BREAK_TAG, *types.identity, limit]
    folder = cache / f"{name}-{hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]}"
    notes = list(source.notes)

    def read() -> Corpus | None:
        try:
            return Corpus(folder)
        except MALFORMED:
            return None

    def write(fresh: Path) -> None:
        damaged = f"The tokenized corpus in {folder} was damaged and has been rebuilt."
        notes.append(damaged if folder.exists() else f"The tokenized corpus is cached in {folder}.")
        fresh.mkdir()
        build(source, fresh, types=types, limit=limit, progress=progress)

    corpus = cached(folder, read, write, progress)
    skipped = (f"Skipped {rows:,} rows of {split} without a label." for split, rows in corpus.skipped.items() if rows)
    return corpus, [*notes, *skipped]


def _require(condition: object, subject: str, legal: str, value: object) -> None:
    """Refuses an attribute or a row of a user's source that has another type or range."""
    if not condition:
        raise DataError(Fault("data", "type", f"{subject} {legal}, got {reprlib.repr(value)}."))


def build(source: Source, folder: Path, *, types: Types, limit: int | None, progress: Progress) -> None:
    """Reads a source and writes its corpus, whose words are `types`, into an empty folder.

    Raises:
        DataError: If the data is missing or damaged, or no row holds a word.
    """
    owner = type(source).__name__
    splits: dict[str, tuple[int, int]] = {}
    columns = {name: array("q") for name in ("labels", "positions")}  # in all about 50 bytes per row
    columns |= {name: array("q", [0]) for name in ("text_offsets", "token_offsets", "rationale_offsets")}
    columns |= {name: array("i") for name in ("row_groups", "rationales", "spans")}
    labels, text_offsets, rationales = columns["labels"], columns["text_offsets"], columns["rationales"]
    row_ids, groups = bytearray(), dict[str, int]()
    with (folder / TEXTS).open("wb") as file, (folder / TOKENS).open("wb") as tokens_file:
        for split in source.splits:
            before = len(labels)
            read = _checked(source.read(split), owner)
            rows = enumerate(read) if limit is None else _limited(read, limit, folder)
            for done, (position, row) in enumerate(rows, start=1):
                text = row.text.encode()
                file.write(text)
                text_offsets.append(text_offsets[-1] + len(text))
                if row.tokens is None:
                    assert not isinstance(types, StateTokenizer), "rows of states have their ids"
                    tokens = types.read(row.text)
                else:
                    tokens = array("i", row.tokens)
                columns["spans"].extend(chain.from_iterable(row.spans))
                tokens.tofile(tokens_file)
                columns["token_offsets"].append(columns["token_offsets"][-1] + len(tokens))
                labels.append(row.label)
                columns["positions"].append(position)
                key = text if row.key is None else row.key.encode()
                row_ids += hashlib.sha256(key).hexdigest()[:ID_DIGITS].encode()
                columns["row_groups"].append(groups.setdefault(row.group, len(groups)))
                rationales.extend(chain.from_iterable(row.rationale))
                columns["rationale_offsets"].append(len(rationales) // 2)
                if done % CHUNK == 0:
                    progress(f"Reading {split}", done, None)
            names, legal = getattr(source, "labels", None), "must be the names of two or more classes"
            is_names = isinstance(names, tuple | list) and len(names) > 1 and {*map(type, names)} == {str}
            _require(is_names, f"{owner}.labels", legal, names)
            unknown = next((label for label in labels[before:] if not 0 <= label < len(source.labels)), None)
            legal = f"must be the index of a class, 0 to {len(source.labels) - 1}"
            _require(unknown is None, f"The label of a row of {owner}", legal, unknown)
            splits[split] = (before, len(labels))
    for name, column in columns.items():
        np.save(folder / f"{name}.npy", np.asarray(column).reshape((-1, 2) if name in ("rationales", "spans") else -1))
    np.save(folder / "row_ids.npy", np.frombuffer(row_ids, dtype=f"S{ID_DIGITS}"))
    _write_json(folder / GROUPS, list(groups))
    words = _sort_types(folder / TOKENS, types.numbers) if isinstance(types, WordTypes) else types.pieces
    _write_json(folder / WORDS, words)
    sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
    meta = {"format": FORMAT, "splits": splits, "classes": source.labels, "ordered": source.ordered, "bytes": sizes}
    meta["skipped"] = dict(source.skipped)
    _write_json(folder / META, meta)


def _checked(rows: Iterable[Row], owner: str) -> Iterator[Row]:
    """Yields the rows of a user's source; refuses what is none."""
    legal = "must have a text, the index of its class, and the name of its group or an empty text"
    for row in rows:
        is_row = isinstance(row, Row) and isinstance(row.label, int | np.integer)
        _require(is_row and isinstance(row.text, str) and isinstance(row.group, str), f"A row of {owner}", legal, row)
        require_unicode(row.text + row.group)
        yield row


def _sort_types(tokens: Path, numbers: Mapping[str, int]) -> list[str]:
    """Renumbers the word types in the file of tokens in alphabetical order; returns the words in this order."""
    if not numbers:
        raise DataError(Fault("data", "missing", "No row of the data contains a token."))
    words = sorted(numbers)
    ranks = np.empty(len(words), dtype=np.int32)
    ranks[[numbers[word] for word in words]] = np.arange(len(words))
    with tokens.open("r+b") as file:
        while len(chunk := np.frombuffer(file.read(CHUNK_BYTES), dtype=np.int32)):
            file.seek(-chunk.nbytes, os.SEEK_CUR)
            file.write(ranks[chunk].tobytes())
    return words


def _limited(rows: Iterable[Row], limit: int, folder: Path) -> Iterator[tuple[int, Row]]:
    """Yields `limit` rows with their positions, stratified by class and evenly spread.

    The choice depends on all labels, so all rows are in a temporary file first: a source is slower to read twice.
    """
    labels, starts = array("q"), array("q")
    with tempfile.TemporaryFile(dir=folder) as file:
        for row in rows:
            labels.append(row.label)
            starts.append(file.tell())
            file.write(json.dumps(_values(row), default=int).encode() + b"\n")
        for position in spread(np.asarray(labels), limit):
            file.seek(starts[position])
            yield int(position), Row(*json.loads(file.readline()))


def _write_json(file: Path, content: object) -> None:
    file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def apportion(sizes: Rows, total: int) -> Rows:
    """Divides `total` in proportion to `sizes` by largest remainder; no share exceeds its size."""
    total = min(total, int(sizes.sum()))
    exact = sizes * total / max(1, sizes.sum())
    shares: Rows = np.floor(exact).astype(np.int64)
    missing = total - int(shares.sum())
    shares[np.argsort(shares - exact, kind="stable")[:missing]] += 1
    return shares


def spread(labels: Rows, total: int) -> Rows:
    """Returns `total` positions in ascending order, stratified by class and evenly spread over each class."""
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    shares = apportion(np.array([len(rows) for rows in members]), total)
    spread_rows = [rows[np.arange(n) * len(rows) // max(1, n)] for rows, n in zip(members, shares, strict=True)]
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *spread_rows]))
