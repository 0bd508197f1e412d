"""The format of a table by the ending of its name."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from sentattn.data.datasets.formats import ENDINGS, records
from sentattn.errors import DataError

ROWS = [('Good, "really" good!', "5"), ("Schön;\naber lang", "3"), ("a\ttab", "1")]


def write(path: Path) -> Path:
    """Writes `ROWS` in the format of the ending."""
    name = path.name.lower()
    file = io.StringIO(newline="")
    if ".json" in name or ".ndjson" in name:
        file.writelines(json.dumps({"review": text, "stars": stars}) + "\n" for text, stars in ROWS)
    else:
        csv.writer(file, delimiter="\t" if ".tsv" in name else ",").writerows([("review", "stars"), *ROWS])
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"review": [text for text, _ in ROWS], "stars": [stars for _, stars in ROWS]}), path)
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(file.getvalue().encode()))
    else:
        path.write_bytes(file.getvalue().encode())
    return path


@pytest.mark.parametrize("ending", [*ENDINGS, ".csv.gz", ".tsv.gz", ".jsonl.gz", ".json.gz", ".CSV", ".Csv.GZ"])
def test_every_ending_gives_the_same_rows(tmp_path: Path, ending: str) -> None:
    found = records(write(tmp_path / f"my.reviews{ending}"), ["review", "stars"])
    assert [tuple(record.values.values()) for record in found] == ROWS


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("reviws.csv", r"reviws\.csv: there is no such file\. Did you mean 'reviews\.csv'\?"),
        ("nowhere/reviews.csv", r"reviews\.csv: there is no such file\.$"),
        ("book.xlsx", r"book\.xlsx is a spreadsheet; save it as CSV \(UTF-8\) and give that\."),
        (
            "notes.txt",
            r"notes\.txt has an unknown ending; legal are \.csv, \.tsv, .*, \.parquet, and \.gz behind \.csv, \.tsv",
        ),
        ("table.parquet.gz", "unknown ending"),
        ("folder.csv", r"folder\.csv is a folder; name one file in it\."),
    ],
)
def test_what_is_no_table(tmp_path: Path, name: str, sentence: str) -> None:
    write(tmp_path / "reviews.csv")
    (tmp_path / "folder.csv").mkdir()
    for other in ("book.xlsx", "notes.txt", "table.parquet.gz"):
        (tmp_path / other).touch()
    with pytest.raises(DataError, match=sentence):
        list(records(tmp_path / name, ["review"]))


@pytest.mark.parametrize("harm", [lambda content: content[:-20], lambda content: b"no gzip"])
def test_a_damaged_archive_is_named(tmp_path: Path, harm: object) -> None:
    path = write(tmp_path / "reviews.csv.gz")
    path.write_bytes(harm(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(DataError, match=r"reviews\.csv\.gz cannot be read to its end \("):
        list(records(path, ["review"]))
