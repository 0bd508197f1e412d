"""`data=yelp`: reviews with stars, from the Open Dataset, the GluonNLP tutorial or `yelp_review_full`."""

from __future__ import annotations

import hashlib
import json
import os
import re
import reprlib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BufferedReader, TextIOWrapper
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from sentattn.config.types import Count, Fraction, Whole, checked
from sentattn.data.cache import Progress, cache_folder, sample
from sentattn.data.corpus import Row, Source
from sentattn.data.datamodule import TextData
from sentattn.data.readers.archives import File, container, existing, reading
from sentattn.data.readers.download import fetch
from sentattn.data.readers.tables import delimited_rows, read_json, read_parquet, require_unicode, text_lines
from sentattn.errors import DataError, Fault

Review: TypeAlias = tuple[str, object, object]
"""Line or row of a review, its text and its rating, as in the file."""

KEY = "data.path"
ARCHIVE = "yelp_review_full_csv.tgz"
WHERE = (
    "data.path takes the Yelp Open Dataset's JSON lines (yelp_academic_dataset_review.json, or .gz), the GluonNLP "
    f"tutorial's ZIP, or yelp_review_full as {ARCHIVE}, as a folder of CSV or as a folder of parquet; leave it out to "
    "download yelp_review_full. data=table reads other tables."
)
# train.csv, or train-00000-of-00001.parquet
TABLE = re.compile(r"(train|test)([-_.].*)?\.(csv|parquet)")
JSON = re.compile(r"(?!\.).*\.(json|jsonl|ndjson)(\.gz)?")
# Byte-order marks, white space, and the zeros of UTF-16, which the readers refuse with a clear message.
SKIPPED = re.compile(rb"^(\xef\xbb\xbf|\xff\xfe|\xfe\xff)?\s*|\0")
SHOWN = 20

STARS = range(1, 6)
OF_STARS: Mapping[object, int] = {form: n - 1 for n in STARS for form in (n, str(n), f"{n}.0")}
"""The class of each way to write a number of stars; 5.0 equals 5."""
OF_LABELS: Mapping[object, int] = {label: label for label in range(len(STARS))}


class YelpSource(Source):
    """Reviews with one to five stars; the rows are the same in every format.

    Args:
        path: The Open Dataset's JSON lines; the tutorial's ZIP, or the JSON in it; or `yelp_review_full` (Zhang et al.
            2015) as an archive or a folder of CSV, or as a folder of parquet. Only the last has test rows.

    Raises:
        DataError: If the path holds none of them.
    """

    labels = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
    ordered = True

    def __init__(self, path: str | Path) -> None:
        self._files = _find_files(existing(Path(path), KEY, WHERE))
        self.splits = tuple(self._files)

    def fingerprint(self) -> str:
        """Returns a hash over size, time and both ends of each file, since hashing 5 GB takes too long."""
        digest = hashlib.sha256()
        for file in chain.from_iterable(self._files.values()):
            with reading(file.path, KEY, WHERE):
                size, time, ends = sample(file.path)
            digest.update(f"{file.member} {size} {time}\n".encode() + ends)
        return digest.hexdigest()

    def read(self, split: str) -> Iterator[Row]:
        """Yields the reviews in the order of the files."""
        found, is_table = set[int](), False
        for file in self._files[split]:
            with file.open(KEY, WHERE) as stream:
                reader, classes = _reader(stream.peek(), file)
                is_table = is_table or reader in (_read_csv, _read_parquet)
                for place, text, rating in reader(stream, file):
                    where = f"{file}, {place}"
                    if text is not None and not isinstance(text, str):
                        raise _error("type", f"{where}: the text must be a string, got {reprlib.repr(text)}.")
                    found.add(label := _label(rating, classes, where))
                    yield Row(text or "", label)
        if is_table and found == {0, 1}:
            advice = "data=table data.train=train.csv data.test=test.csv data.header=false data.label=1 data.text=2"
            message = f"all ratings are 1 or 2, as those of yelp_review_polarity, which are no stars; type {advice}."
            raise _error("range", f"{self._files[split][0]}: {message}")


def _find_files(path: Path) -> dict[str, list[File]]:
    """Returns the files of each split: `train`, and `test` if the data has test rows."""
    with reading(path, KEY, WHERE):
        if path.is_dir():
            return _in_folder(path)
        match container(path):
            case "tar":
                return {split: [File(path, f"{split}.csv")] for split in ("train", "test")}
            case "zip":
                with zipfile.ZipFile(path) as archive:
                    return {"train": [File(path, _only_json(archive.namelist(), path))]}
            case _:
                return {"train": [File(path)]}


def _in_folder(folder: Path) -> dict[str, list[File]]:
    """Finds `train` and `test` as CSV or parquet in a folder or its subfolders, or else a file of JSON lines."""
    tables: dict[tuple[Path, str], dict[str, list[File]]] = {}
    for root in (folder, *sorted(inner for inner in folder.iterdir() if inner.is_dir())):
        for file in sorted(root.iterdir()):
            if match := TABLE.fullmatch(file.name):
                tables.setdefault((root, match[3]), {}).setdefault(match[1], []).append(File(file))
    if not tables:
        return {"train": [File(folder / _only_json(sorted(os.listdir(folder)), folder))]}
    splits = next(iter(tables.values()))
    if len(tables) > 1 or len(splits) < 2:
        files = [str(file.path) for of_folder in tables.values() for file in chain.from_iterable(of_folder.values())]
        advice = f"To draw test rows from a single file type data.path={files[0]}."
        message = f"data.path={folder} must hold train and test once, got {', '.join(files[:SHOWN])}. {advice}"
        raise _error("conflict" if len(tables) > 1 else "missing", message)
    return {split: splits[split] for split in ("train", "test")}


def _only_json(names: Sequence[str], place: Path) -> str:
    """Returns the only file with reviews; the Open Dataset has four other files next to it."""
    candidates = [name for name in names if JSON.fullmatch(PurePosixPath(name).name)]
    candidates = [name for name in candidates if len(candidates) == 1 or "review" in PurePosixPath(name).name]
    if len(candidates) != 1:
        message = f"{place} must hold one JSON with reviews, got {', '.join(names[:SHOWN]) or 'no file'}. {WHERE}"
        raise _error("conflict" if candidates else "missing", message)
    return candidates[0]


def _label(value: object, classes: Mapping[object, int], where: str) -> int:
    label = classes.get(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    if label is None:
        legal = "1, 2, 3, 4 or 5 stars" if classes is OF_STARS else "a label from 0 to 4"
        advice = "Delete the row, or use data=table data.label=COLUMN, which makes a class of each value."
        raise _error("range", f"{where}: the rating must be {legal}, got {reprlib.repr(value)}. {advice}")
    return label


def _read_lines(stream: BufferedReader, file: File) -> Iterator[Review]:
    for where, values in read_json(stream, str(file), ("stars", "text"), WHERE):
        yield where, values["text"], values["stars"]


def _read_csv(stream: BufferedReader, file: File) -> Iterator[Review]:
    for number, fields in delimited_rows(text_lines(stream, str(file)), str(file)):
        if len(fields) < 2 or any(fields[2:]):
            message = f"{file}, line {number}: {len(fields)} columns instead of two, stars and text. {WHERE}"
            raise _error("damaged", message)
        yield f"line {number}", _unescaped(fields[1]), fields[0]


def _read_parquet(_: BufferedReader, file: File) -> Iterator[Review]:
    if file.member or container(file.path) != "plain":
        raise _error("unsupported", f"{file} is parquet inside an archive; unpack it.")
    for where, values in read_parquet(file.path, ("label", "text"), WHERE):
        text = values["text"]
        yield where, _unescaped(text) if isinstance(text, str) else text, values["label"]


def _read_arrays(stream: BufferedReader, file: File) -> Iterator[Review]:
    """Reads one JSON object of arrays, `texts` and `labels`; the whole file is in memory meanwhile."""
    try:
        content = json.load(TextIOWrapper(stream, encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise _error("damaged", f"{file} must be one JSON object in UTF-8 ({error}). {WHERE}") from error
    texts, labels = (array if isinstance(array := content.get(key), list) else [] for key in ("texts", "labels"))
    if len(texts) != len(labels) or not texts:
        counts = f"{len(texts):,} texts and {len(labels):,} labels instead of a label for each text"
        raise _error("damaged", f"{file} holds {counts}. {WHERE}")
    for number, (text, rating) in enumerate(zip(texts, labels, strict=True), start=1):
        require_unicode(text, f"{file}, review {number:,}")
        yield f"review {number:,}", text, rating


Reader: TypeAlias = Callable[[BufferedReader, File], Iterator[Review]]
FORMATS: tuple[tuple[re.Pattern[bytes], Reader, Mapping[object, int]], ...] = (
    (re.compile(rb"PAR1"), _read_parquet, OF_LABELS),
    (re.compile(rb'\{\s*"(texts|labels)"\s*:'), _read_arrays, OF_STARS),
    (re.compile(rb"\{"), _read_lines, OF_STARS),
    (re.compile(rb'"?-?\d+(\.\d+)?"?\s*,'), _read_csv, OF_STARS),
)
"""Of each format: its beginning, after what `SKIPPED` removes; its reader; and the class of each rating."""


def _reader(head: bytes, file: File) -> tuple[Reader, Mapping[object, int]]:
    """Returns the reader of a file by its beginning, and the class of each rating."""
    content = SKIPPED.sub(b"", head)
    for beginning, reader, classes in FORMATS:
        if beginning.match(content):
            return reader, classes
    start = head[:SHOWN].decode(errors="replace")
    raise _error("unsupported", f"{file} holds no reviews in a known format; it begins with {start!r}. {WHERE}")


def _unescaped(text: str) -> str:
    r"""Returns a text of `yelp_review_full` with its escapes replaced: `\n` is a line break, `\"` a quote."""
    return text.replace("\\n", "\n").replace('\\"', '"')


def _error(kind: str, message: str) -> DataError:
    return DataError(Fault(KEY, kind, message))


class Yelp(TextData):
    """Yelp's reviews with one to five stars.

    Args:
        path: The Open Dataset's JSON lines, the GluonNLP tutorial's ZIP or the JSON in it, or `yelp_review_full` as an
            archive or folder of CSV or as a folder of parquet; null downloads the last.
        val_size: Training rows set aside for validation: their number, or a share below 1.
        split_seed: Seed of the selection of validation rows.
        test_size: Test rows, their number or a share below 1; null for the test rows of `yelp_review_full`, or else a
            tenth of all rows, at most 10,000.
        test_seed: Seed of the selection of test rows, stratified by class; null for the last rows.
        settings: Those of `TextData`.
    """

    @checked
    def __init__(
        self,
        *,
        name: str = "yelp",
        path: str | None = None,
        val_size: Count | Fraction = 0.05,
        split_seed: Whole = 0,
        test_size: Count | Fraction | None = None,
        test_seed: Whole | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(name=name, **settings)
        self.path, self.val_size, self.split_seed = path, val_size, split_seed
        self.test_size, self.test_seed = test_size, test_seed

    def source(self, progress: Progress) -> Source:
        """Returns the reviews at `path`; downloads them if it is null."""
        folder = cache_folder(self.cache_dir)
        return YelpSource(self.path or fetch(ARCHIVE, folder=folder, mirror=self.mirror, progress=progress))
