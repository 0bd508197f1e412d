"""`data=yelp`: reviews with stars, from the Open Dataset, the GluonNLP tutorial or `yelp_review_full`."""

from __future__ import annotations

import hashlib
import json
import tarfile
import zipfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from sentattn.config.types import Count, Fraction, Whole, checked
from sentattn.data.cache import Progress, cache_folder, no_progress, sample
from sentattn.data.corpus import Row, Source
from sentattn.data.datamodule import TextData
from sentattn.data.datasets.table import name_of
from sentattn.data.readers.archives import existing, reading, unpacked
from sentattn.data.readers.download import fetch
from sentattn.data.readers.tables import Options, Record, all_records, damaged, require_unicode, text_of
from sentattn.errors import DataError, Fault

KEY = "data.path"
ARCHIVE = "yelp_review_full_csv.tgz"
WHERE = (
    "data.path takes the Yelp Open Dataset's JSON lines (yelp_academic_dataset_review.json, or .json.gz), the GluonNLP "
    f"tutorial's ZIP, or yelp_review_full as {ARCHIVE}, as a folder of CSV or as a folder of parquet; leave it out to "
    "download yelp_review_full. data=table reads other tables."
)
SHOWN = 20


class YelpSource(Source):
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
            is_archive = path.is_file() and tarfile.is_tarfile(path)
            folder = unpacked(path, cache, KEY, WHERE, progress) if is_archive else path
            self._files = _find_files(folder, path) if folder.is_dir() else {"train": [path]}
        self.splits = tuple(self._files)

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
        files, found = self._files[split], set[str]()
        is_csv, is_parquet = ".csv" in files[0].suffixes, files[0].suffix == ".parquet"
        text, label = ("2", "1") if is_csv else ("text", "label" if is_parquet else "stars")
        labels = [str(number) for number in (range(5) if is_parquet else range(1, 6))]
        options = Options(header=not is_csv, keep_others=is_csv)
        is_zip = files[0].suffix.lower() == ".zip"
        for path, record in _read_zip(files[0]) if is_zip else all_records(files, [text, label], "", options):
            if any([*record.values.values()][2:]):
                message = f"{len(record.values)} columns instead of two, stars and text."
                raise damaged(f"{path}, {record.where}: {message}")
            if (name := name_of(record, "label", label, path)) not in labels:
                message = f"the stars must be one of {', '.join(labels)}, got {record.values[label]!r}."
                raise DataError(Fault(KEY, "unknown", f"{path}, {record.where}: {message}"))
            found.add(name)
            review = text_of(record, [text], path)
            if is_csv or is_parquet:  # a line break is written as a backslash and an n, a quote with a backslash
                review = review.replace("\\n", "\n").replace('\\"', '"')
            yield Row(review, labels.index(name))
        if found == {*labels[:2]} and (is_csv or is_parquet):
            advice = "data=table data.train=train.csv data.test=test.csv data.header=false data.label=1 data.text=2"
            message = f"all ratings are 1 or 2, as those of yelp_review_polarity, which are no stars; type {advice}."
            raise DataError(Fault(KEY, "range", f"{files[0]}: {message}"))


def _find_files(folder: Path, path: Path) -> dict[str, list[Path]]:
    """Finds `train` and `test` as CSV or parquet in a folder and its subfolders, or else a file of JSON."""
    tables = [
        {split: sorted(folder.rglob(f"{split}*.{ending}")) for split in ("train", "test")}
        for ending in ("csv", "parquet")
    ]
    found = [files for files in tables if all(files.values())]
    found += [{"train": [file]} for file in folder.rglob("*review*json*")]  # the Open Dataset has four others
    if len(found) == 1 and len({file.parent for files in found[0].values() for file in files}) == 1:
        return found[0]
    names = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if not file.is_dir())
    message = f"{path} must hold train and test once, as CSV or as parquet, or one JSON with reviews, got "
    message += f"{', '.join(names[:SHOWN]) or 'no file'}. To draw test rows from a single file type data.path=FILE."
    raise DataError(Fault(KEY, "conflict" if found else "missing", f"{message} {WHERE}"))


def _read_zip(path: Path) -> Iterator[tuple[Path, Record]]:
    """Reads a zip with one JSON object of arrays, `texts` and `labels`, which is in memory meanwhile."""
    try:
        with reading(path, KEY), zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".json") and not name.startswith("__MACOSX/")]
            if len(names) != 1:
                raise ValueError(f"it has {len(names)} files of JSON")
            content = json.loads(archive.read(names[0]))
        reviews = list(zip(content["texts"], content["labels"], strict=True))
    except DataError:
        raise
    except (ValueError, LookupError, TypeError, RuntimeError) as error:  # the last: encrypted, or nested too deeply
        raise damaged(f"{path} must hold one JSON object with arrays of texts and labels ({error}).") from error
    for number, (text, stars) in enumerate(reviews, start=1):
        require_unicode(text, f"{path}, review {number:,}")
        yield path, Record(f"review {number:,}", {"text": text, "stars": stars})


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
