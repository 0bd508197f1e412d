"""`data=yelp`: reviews with stars, from the Open Dataset, the GluonNLP tutorial or `yelp_review_full`."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import TextIOWrapper
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from sentattn.config.types import Count, Fraction, Whole, checked
from sentattn.data.cache import Progress, cache_folder, no_progress, sample
from sentattn.data.corpus import Row, Source
from sentattn.data.datamodule import TextData
from sentattn.data.datasets.table import TableSource, name_of
from sentattn.data.readers.archives import File, container, existing, reading, unpacked
from sentattn.data.readers.download import fetch
from sentattn.data.readers.tables import Options, Record, damaged, require_unicode
from sentattn.errors import DataError, Fault

KEY = "data.path"
ARCHIVE = "yelp_review_full_csv.tgz"
WHERE = (
    "data.path takes the Yelp Open Dataset's JSON lines (yelp_academic_dataset_review.json, or .json.gz), the GluonNLP "
    f"tutorial's ZIP, or yelp_review_full as {ARCHIVE}, as a folder of CSV or as a folder of parquet; leave it out to "
    "download yelp_review_full. data=table reads other tables."
)
# train.csv, or train-00000-of-00001.parquet
TABLE = re.compile(r"(train|test)([-_.].*)?\.(csv|parquet)")
JSON = re.compile(r"(?!\.).*\.(json|jsonl|ndjson)(\.gz)?")
SHOWN = 20


class YelpSource(TableSource):
    """Reviews with one to five stars; the rows are the same in every format.

    Args:
        path: The Open Dataset's JSON lines; the tutorial's ZIP; or `yelp_review_full` (Zhang et al.
            2015) as an archive or a folder of CSV, or as a folder of parquet. Only the last has test rows.
        cache: The folder in which an archive is unpacked, once.
        progress: Called while it is unpacked.

    Raises:
        DataError: If the path holds none of them.
    """

    labels = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
    ordered = True

    def __init__(self, path: str | Path, cache: Path, progress: Progress = no_progress) -> None:
        self._path = path = existing(Path(path), KEY, WHERE)
        with reading(path, KEY, WHERE):
            kind = "folder" if path.is_dir() else container(path)
            folder = unpacked(path, cache, KEY, WHERE, progress) if kind == "tar" else path
            files = _find_files(folder, path) if folder.is_dir() else {"train": [str(path)]}
        first, self._is_zip = files["train"][0], kind == "zip"
        is_csv, self._is_parquet = ".csv" in Path(first).suffixes, first.endswith(".parquet")
        text, label = ("2", "1") if is_csv else ("text", "label" if self._is_parquet else "stars")
        with _about_path():
            options = Options(header=not is_csv, keep_others=is_csv)
            super().__init__({} if self._is_zip else files, text=text, label=label, options=options)
        if self._is_zip:
            self._files, self.splits = {"train": [path]}, ("train",)
        self._owner = "Yelp"

    def fingerprint(self) -> str:
        """Returns a hash over size, time and both ends of each file, since hashing 5 GB takes too long."""
        digest = hashlib.sha256()
        for file in [self._path] if self._path.is_file() else chain.from_iterable(self._files.values()):
            with reading(file, KEY, WHERE):
                size, time, ends = sample(file)
            digest.update(f"{size} {time}\n".encode() + ends)
        return digest.hexdigest()

    def read(self, split: str) -> Iterator[Row]:
        """Yields the reviews in the order of the files."""
        found, is_table = set[int](), self._label != "stars"
        with _about_path():
            for row in super().read(split):
                found.add(row.label)
                # Tables of `yelp_review_full` write a line break as a backslash and an n, and a quote with a backslash.
                text = row.text.replace("\\n", "\n").replace('\\"', '"') if is_table else row.text
                yield Row(text, row.label)
        if found == {0, 1} and is_table:
            advice = "data=table data.train=train.csv data.test=test.csv data.header=false data.label=1 data.text=2"
            message = f"all ratings are 1 or 2, as those of yelp_review_polarity, which are no stars; type {advice}."
            raise DataError(Fault(KEY, "range", f"{self._files[split][0]}: {message}"))

    def _find_classes(self) -> None:
        first = 0 if self._is_parquet else 1
        self._indices = {str(first + index): index for index in range(len(self.labels))}

    def _labelled(self, split: str) -> Iterator[tuple[Path, Record, str]]:
        return self._records(split)  # no review is without stars

    def _records(self, split: str) -> Iterator[tuple[Path, Record, str]]:
        if self._is_zip:
            for record in _read_zip(self._path):
                yield self._path, record, name_of(record, "label", self._label, self._path)
            return
        for path, record, name in super()._records(split):
            if any([*record.values.values()][2:]):
                raise damaged(f"{path}, {record.where}: {len(record.values)} columns instead of two, stars and text.")
            yield path, record, name


@contextmanager
def _about_path() -> Iterator[None]:
    """Ends the faults of a table with the files that `data.path` takes."""
    try:
        yield
    except DataError as error:
        raise DataError(*(replace(f, key=KEY, message=f"{f.message} {WHERE}") for f in error.faults)) from error


def _find_files(folder: Path, path: Path) -> dict[str, list[str]]:
    """Finds `train` and `test` as CSV or parquet in a folder or its subfolders, or else a file of JSON."""
    tables: dict[tuple[Path, str], dict[str, list[str]]] = {}
    names = sorted(file for file in (*folder.glob("*"), *folder.glob("*/*")) if not file.is_dir())
    for file in names:
        if match := TABLE.fullmatch(file.name):
            tables.setdefault((file.parent, match[3]), {}).setdefault(match[1], []).append(str(file))
    if len(tables) == 1 and {"train", "test"} <= {*(splits := next(iter(tables.values())))}:
        return {split: splits[split] for split in ("train", "test")}
    found = [file for file in names if JSON.fullmatch(file.name)]
    found = [file for file in found if len(found) == 1 or "review" in file.name]  # the Open Dataset has four others
    if len(found) == 1 and not tables:
        return {"train": [str(found[0])]}
    got = ", ".join(str(file.relative_to(folder)) for file in names[:SHOWN]) or "no file"
    message = f"{path} must hold train and test once, as CSV or as parquet, or one JSON with reviews, got {got}. "
    message += f"To draw test rows from a single file type data.path=FILE. {WHERE}"
    raise DataError(Fault(KEY, "conflict" if len(tables) > 1 or len(found) > 1 else "missing", message))


def _read_zip(path: Path) -> Iterator[Record]:
    """Reads a zip with one JSON object of arrays, `texts` and `labels`, which is in memory meanwhile."""
    with reading(path, KEY), zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if JSON.fullmatch(PurePosixPath(name).name)]
    if len(names) != 1:
        raise DataError(Fault(KEY, "missing", f"{path} must hold one JSON, got {', '.join(names[:SHOWN]) or 'none'}."))
    file = File(path, names[0])
    try:
        with file.open(KEY) as stream:
            content = json.load(TextIOWrapper(stream, encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise damaged(f"{file} must be one JSON object in UTF-8 ({error}).") from error
    texts, labels = (array if isinstance(array := content.get(key), list) else [] for key in ("texts", "labels"))
    if len(texts) != len(labels) or not texts:
        raise damaged(f"{file} holds {len(texts):,} texts and {len(labels):,} labels instead of a label for each text.")
    for number, (text, stars) in enumerate(zip(texts, labels, strict=True), start=1):
        require_unicode(text, f"{file}, review {number:,}")
        yield Record(f"review {number:,}", {"text": text, "stars": stars})


class Yelp(TextData):
    """Yelp's reviews with one to five stars.

    Args:
        path: The Open Dataset's JSON lines, the GluonNLP tutorial's ZIP, or `yelp_review_full` as an
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
        path = self.path or fetch(ARCHIVE, folder=folder, mirror=self.mirror, progress=progress)
        return YelpSource(path, folder, progress)
