"""Writes the same reviews in each form in which people have Yelp's."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from refusals import fault_of

from sentattn.data.corpus import Row
from sentattn.data.datasets.yelp import YelpSource

Reviews: TypeAlias = Sequence[tuple[int, str]]
"""Stars and text of each review; the last tenth is for testing."""


WRITTEN = [
    'She said "wow",\ntwice.',
    "Ein schöner Ort…\r\n\n¯\\_(ツ)_/¯",
    "etc.\\\nand so on",
    " spaces, and a tab\t",
    "\U0001f355 5/5",
]
REVIEWS: Reviews = [(i % 5 + 1, f"{WRITTEN[i % len(WRITTEN)]} Number {i}.") for i in range(40)]
ROWS = [Row(text, stars - 1) for stars, text in REVIEWS]


def json_lines(reviews: Reviews) -> bytes:
    lines = (json.dumps({"stars": float(stars), "date": "2014-05-09", "text": text}) for stars, text in reviews)
    return "".join(f"{line}\n" for line in lines).encode()


def json_arrays(reviews: Reviews) -> bytes:
    return json.dumps({"texts": [text for _, text in reviews], "labels": [stars for stars, _ in reviews]}).encode()


def table(reviews: Reviews) -> bytes:
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows((stars, text.replace("\n", "\\n")) for stars, text in reviews)
    return written.getvalue().encode()


def splits(reviews: Reviews) -> dict[str, Reviews]:
    test = len(reviews) // 10
    return {"train": reviews[:-test], "test": reviews[-test:]}


def write_file(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def write_zip(folder: Path, members: Mapping[str, bytes], name: str = "yelp_review_subset.zip") -> Path:
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return folder / name


def write_tar(folder: Path, members: Mapping[str, bytes], name: str = "yelp_review_full_csv.tgz") -> Path:
    with tarfile.open(folder / name, "w:gz") as archive:
        for member, content in members.items():
            header = tarfile.TarInfo(member)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return folder / name


def write_csv_folder(folder: Path, reviews: Reviews) -> Path:
    for split, rows in splits(reviews).items():
        write_file(folder, f"yelp_review_full_csv/{split}.csv", table(rows))
    return folder / "yelp_review_full_csv"


def write_csv_archive(folder: Path, reviews: Reviews) -> Path:
    parts = {f"yelp_review_full_csv/{split}.csv": table(rows) for split, rows in splits(reviews).items()}
    return write_tar(folder, {"yelp_review_full_csv/readme.txt": b"not a review", **parts})


def write_parquet_folder(folder: Path, reviews: Reviews) -> Path:
    """As on the Hugging Face hub: labels from 0, texts escaped as in the CSV, training rows in two files."""
    import pyarrow
    from pyarrow import parquet

    parts = splits(reviews)
    half = len(parts["train"]) // 2
    files = {
        "train-00000-of-00002": parts["train"][:half],
        "train-00001-of-00002": parts["train"][half:],
        "test-00000-of-00001": parts["test"],
    }
    inner = folder / "hub" / "yelp_review_full"
    inner.mkdir(parents=True)
    for name, rows in files.items():
        labels, texts = [stars - 1 for stars, _ in rows], [text.replace("\n", "\\n") for _, text in rows]
        parquet.write_table(pyarrow.table({"label": labels, "text": texts}), inner / f"{name}.parquet")
    return folder / "hub"


FORMS: dict[str, Callable[[Path, Reviews], Path]] = {
    "JSON lines": lambda folder, reviews: write_file(folder, "reviews.json", json_lines(reviews)),
    "JSON lines by another name": lambda folder, reviews: write_file(folder, "reviews.jsonl", json_lines(reviews)),
    "JSON lines, gzip": lambda folder, reviews: write_file(
        folder, "reviews.json.gz", gzip.compress(json_lines(reviews))
    ),
    "the Open Dataset's folder": lambda folder, reviews: (
        write_file(folder, "open/yelp_academic_dataset_review.json", json_lines(reviews)).parent
    ),
    "ZIP": lambda folder, reviews: write_zip(folder, {"yelp_review_subset.json": json_arrays(reviews)}),
    "CSV folder": write_csv_folder,
    "CSV archive": write_csv_archive,
    "parquet folder": write_parquet_folder,
}


def rows(path: Path) -> list[Row]:
    """Reads all splits, one after another."""
    source = YelpSource(path, path.parent / "cache")
    return [row for split in source.splits for row in source.read(split)]


def refusal(path: Path) -> str:
    """Returns the one message that refuses a file."""
    return fault_of(lambda: rows(path)).message
