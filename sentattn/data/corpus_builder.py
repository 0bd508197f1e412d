"""Builds a tokenized corpus on disk from the rows of a source."""

from __future__ import annotations

import hashlib
import json
import os
import reprlib
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from sentattn.data.cache import Progress, cached, no_progress
from sentattn.data.corpus import FORMAT, GROUPS, META, TEXTS, TOKENS, WORDS, Corpus, DamagedCorpusError, Row, Source
from sentattn.data.sampling import spread
from sentattn.data.tokenizer import BASIC_ENGLISH, CHUNK, LINE_BREAK, TOKEN, Normalize, Rules, WordTypes, spacy_version
from sentattn.errors import DataError, Fault

ID_DIGITS = 16
CHUNK_BYTES = 1 << 22
"""Bytes of tokens that are renumbered at once."""


def open_corpus(
    source: Source,
    cache: Path,
    *,
    name: str,
    rules: Rules = "words",
    lowercase: bool = True,
    normalize: Normalize = None,
    limit: int | None = None,
    progress: Progress = no_progress,
) -> tuple[Corpus, list[str]]:
    """Opens the corpus of a source; builds it first if it is not in the cache.

    Args:
        source: Labelled texts.
        cache: The folder of all corpora.
        name: The beginning of the name of the corpus's folder.
        rules: Tokenization rules.
        lowercase: Whether words are lowercased.
        normalize: Normalization of words.
        limit: Most rows of each split, or None.
        progress: Called with the progress of the work.

    Returns:
        The corpus, and notes for the user on how it was built.

    Raises:
        DataError: If the data is missing or damaged, or the cache cannot be written.
    """
    _require_splits(source)
    tokens = f"spaCy {spacy_version()}" if rules == "spacy" else {"words": TOKEN, "basic_english": BASIC_ENGLISH}[rules]
    content = [FORMAT, source.fingerprint(), list(source.splits), LINE_BREAK, tokens, lowercase, normalize, limit]
    folder = cache / f"{name}-{hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]}"
    notes: list[str] = []

    def read() -> Corpus | None:
        try:
            return Corpus(folder)
        except DamagedCorpusError:  # or it is missing
            return None

    def write(fresh: Path) -> None:
        damaged = f"The tokenized corpus in {folder} was damaged and has been rebuilt."
        notes.append(damaged if folder.exists() else f"The tokenized corpus is cached in {folder}.")
        fresh.mkdir()
        types = WordTypes(rules=rules, lowercase=lowercase, normalize=normalize)
        build(source, fresh, types=types, limit=limit, progress=progress)

    return cached(folder, read, write, progress), notes


def _require_splits(source: object) -> None:
    """Refuses a source whose class does not name its splits."""
    if not isinstance(source, Source):
        raise _type_error("source()", "must return a sentattn.data.corpus.Source", source)
    splits = getattr(source, "splits", None)
    if not isinstance(splits, tuple | list) or not splits or not {*splits} <= {"train", "val", "test"}:
        raise _type_error(f"{type(source).__name__}.splits", 'must name the splits, such as ("train", "test")', splits)


def _require_classes(source: Source, labels: Sequence[int]) -> None:
    """Refuses names of classes that are no strings or fewer than two, and labels outside their range."""
    names, owner = getattr(source, "labels", None), type(source).__name__
    if not isinstance(names, tuple | list) or len(names) < 2 or not all(isinstance(name, str) for name in names):
        raise _type_error(f"{owner}.labels", "must be the names of two or more classes", names)
    indices = np.asarray(labels)
    if len(unknown := indices[(indices < 0) | (indices >= len(names))]):
        legal = f"must be the index of a class, 0 to {len(names) - 1}"
        raise _type_error(f"The label of a row of {owner}", legal, int(unknown[0]))


def _type_error(subject: str, legal: str, value: object) -> DataError:
    return DataError(Fault("data", "type", f"{subject} {legal}, got {reprlib.repr(value)}."))


def build(source: Source, folder: Path, *, types: WordTypes, limit: int | None, progress: Progress) -> None:
    """Reads a source and writes its corpus, whose words are `types`, into an empty folder.

    Raises:
        DataError: If the data is missing or damaged, or no row holds a word.
    """
    splits: dict[str, tuple[int, int]] = {}
    columns = {name: array("q") for name in ("labels", "positions")}  # in all about 50 bytes per row
    columns |= {name: array("q", [0]) for name in ("text_offsets", "token_offsets", "rationale_offsets")}
    columns |= {name: array("i") for name in ("row_groups", "rationales")}
    labels, text_offsets, rationales = columns["labels"], columns["text_offsets"], columns["rationales"]
    row_ids, groups = bytearray(), dict[str, int]()
    with (folder / TEXTS).open("wb") as file, (folder / TOKENS).open("wb") as tokens_file:
        for split in source.splits:
            before = len(labels)
            rows = _with_progress(source.read(split), f"Reading {split}", progress)
            for position, row in enumerate(rows) if limit is None else _limited(rows, limit, folder):
                is_row = isinstance(row, Row) and isinstance(row.text, str) and isinstance(row.label, int | np.integer)
                if not is_row:
                    legal = "must have a text and the index of its class"
                    raise _type_error(f"A row of {type(source).__name__}", legal, row)
                text = row.text.encode()
                file.write(text)
                text_offsets.append(text_offsets[-1] + len(text))
                tokens = types.read(row.text)
                tokens.tofile(tokens_file)
                columns["token_offsets"].append(columns["token_offsets"][-1] + len(tokens))
                labels.append(row.label)
                columns["positions"].append(position)
                row_ids += hashlib.sha256(text).hexdigest()[:ID_DIGITS].encode()
                columns["row_groups"].append(groups.setdefault(row.group, len(groups)))
                rationales.extend(chain.from_iterable(row.rationale))
                columns["rationale_offsets"].append(len(rationales) // 2)
            _require_classes(source, labels[before:])
            splits[split] = (before, len(labels))
    for name, column in columns.items():
        np.save(folder / f"{name}.npy", np.asarray(column).reshape((-1, 2) if column is rationales else -1))
    np.save(folder / "row_ids.npy", np.frombuffer(row_ids, dtype=f"S{ID_DIGITS}"))
    _write_json(folder / GROUPS, list(groups))
    _write_json(folder / WORDS, _sort_types(folder / TOKENS, types.numbers))
    sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
    meta = {"format": FORMAT, "splits": splits, "classes": source.labels, "ordered": source.ordered, "bytes": sizes}
    _write_json(folder / META, meta)


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


def _with_progress(rows: Iterable[Row], stage: str, progress: Progress) -> Iterator[Row]:
    for done, row in enumerate(rows, start=1):
        yield row
        if done % CHUNK == 0:
            progress(stage, done, None)


def _limited(rows: Iterable[Row], limit: int, folder: Path) -> Iterator[tuple[int, Row]]:
    """Yields `limit` rows with their positions, stratified by class and evenly spread.

    The choice depends on all labels, so all rows are written to a temporary file first.
    """
    labels, starts = array("q"), array("q")
    with tempfile.TemporaryFile(dir=folder) as file:
        for row in rows:
            labels.append(row.label)
            starts.append(file.tell())
            file.write(json.dumps([row.text, row.label, row.group, row.rationale]).encode() + b"\n")
        for position in spread(np.asarray(labels), limit):
            file.seek(starts[position])
            text, label, group, rationale = json.loads(file.readline())
            yield int(position), Row(text, label, group=group, rationale=rationale)


def _write_json(file: Path, content: object) -> None:
    file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
