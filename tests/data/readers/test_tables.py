"""Tables by the ending of their name, and parquet."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq
from refusals import fault_of

from sentattn.data.readers.tables import ENDINGS, check, records
from sentattn.errors import DataError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
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
    ("name", "kind", "fragment"),
    [
        ("reviws.csv", "not_found", "there is no such file or folder. Did you mean 'reviews.csv'?"),
        ("nowhere/reviews.csv", "not_found", "there is no such file or folder."),
        ("book.xlsx", "unsupported", "Save a spreadsheet as CSV (UTF-8)."),
        ("notes.txt", "unsupported", ".csv, .tsv, .jsonl, .ndjson, .json, .parquet, and .gz after .csv, "),
        ("table.parquet.gz", "unsupported", ""),
        ("folder.csv", "unsupported", "must be one file"),
    ],
)
def test_what_is_no_table(tmp_path: Path, name: str, kind: str, fragment: str) -> None:
    write(tmp_path / "reviews.csv")
    (tmp_path / "folder.csv").mkdir()
    for other in ("book.xlsx", "notes.txt", "table.parquet.gz"):
        (tmp_path / other).touch()
    fault = fault_of(lambda: list(records(tmp_path / name, ["review"])))
    assert fault.kind == kind
    assert fragment in fault.message


@pytest.mark.parametrize("harm", [lambda content: content[:-20], lambda content: b"no gzip"])
def test_a_damaged_archive_is_named(tmp_path: Path, harm: object) -> None:
    path = write(tmp_path / "reviews.csv.gz")
    path.write_bytes(harm(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(DataError, match=r"reviews\.csv\.gz cannot be read to its end \("):
        list(records(path, ["review"]))


@pytest.fixture(scope="module")
def parquet_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parquet") / "table.parquet"


@given(
    rows=st.lists(st.tuples(st.none() | TEXTS, st.none() | st.integers(-(2**63), 2**63 - 1), TEXTS)),
    group=st.integers(1, 10),
)
def test_rows_that_pyarrow_writes_come_back(parquet_path: Path, rows: list[tuple[Any, ...]], group: int) -> None:
    review, stars, note = ([row[i] for row in rows] for i in range(3))
    types = [("review", pa.string()), ("stars", pa.int64()), ("a.b", pa.string())]
    table = pa.table({"review": review, "stars": stars, "a.b": note}, schema=pa.schema(types))
    pq.write_table(table, parquet_path, row_group_size=group)
    found = list(records(parquet_path, ["stars", "a.b"]))
    assert [record.values for record in found] == [{"stars": s, "a.b": n} for s, n in zip(stars, note, strict=True)]
    assert [record.where for record in found] == [f"row {number}" for number in range(1, len(rows) + 1)]
    assert [record.values for record in records(parquet_path, None)] == table.to_pylist()


@pytest.mark.parametrize(("kind", "numbers"), [(pa.float32(), np.float32), (pa.float16(), np.float16)])
def test_numbers_of_few_bits_keep_their_short_form(kind: pa.DataType, numbers: type, tmp_path: Path) -> None:
    values = [0.1, 2.5, 3.0, None, 1e-3, 700.0]
    column = pa.array([None if value is None else numbers(value) for value in values], kind)
    pq.write_table(pa.table({"label": column, "exact": pa.array([0.1] * 6)}), tmp_path / "short.parquet")
    found = [record.values for record in records(tmp_path / "short.parquet", ["label", "exact"])]
    assert found == [{"label": value, "exact": 0.1} for value in values]


def test_rows_are_counted_through_all_pieces(tmp_path: Path) -> None:
    path = tmp_path / "long.parquet"
    pq.write_table(pa.table({"review": [str(i) for i in range(2500)]}), path, row_group_size=700)
    found = list(records(path, ["review"]))
    assert [record.where for record in found] == [f"row {int(record.values['review']) + 1}" for record in found]
    assert len(found) == 2500


def test_labels_of_pandas_categories_are_their_names(tmp_path: Path) -> None:
    path = tmp_path / "categories.parquet"
    pq.write_table(pa.table({"label": pa.array(["good", "bad", "good"]).dictionary_encode()}), path)
    assert [record.values["label"] for record in records(path, ["label"])] == ["good", "bad", "good"]


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"reviews": ["a"], "stars": [1]}), path)
    with pytest.raises(DataError, match=r"no column 'review'; it has 'reviews', 'stars'\. Did you mean 'reviews'\?"):
        list(records(path, ["review"]))


@pytest.mark.parametrize("keep", [0, 3, 100, -10])
def test_a_damaged_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"review": ["a"] * 100}), path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"table\.parquet cannot be read as parquet \("):
        list(records(path, ["review"]))


def settings(**changed: object) -> dict[str, object]:
    target = "sentattn.data.datasets.table.Table"
    return {"_target_": target, "name": "table", "text": "review", "label": "stars", **changed}


def faults(data: dict[str, object], split: str | None = None) -> list[tuple[str, str]]:
    try:
        check(data, split=split)
    except DataError as error:
        return [(fault.key, fault.kind) for fault in error.faults]
    return []


def test_settings_of_a_table_are_checked_with_the_beginning_of_its_files(tmp_path: Path) -> None:
    files = {ending: str(write(tmp_path / f"reviews{ending}")) for ending in (".csv", ".jsonl", ".parquet")}
    for file in files.values():
        assert faults(settings(train=file, test=file)) == []
        assert faults(settings(train=file, text="text")) == [("data.train", "missing")]
    csv_file, missing = files[".csv"], str(tmp_path / "none.csv")
    assert faults(settings()) == faults(settings(test=csv_file)) == [("data.train", "missing")]
    assert faults(settings(test=csv_file), "test") == faults(settings(train=missing, test=csv_file), "test") == []
    assert faults(settings(train=missing, val=missing, val_size=3, classes=["bad"], label="review")) == [
        ("data.classes", "range"),
        ("data.text", "conflict"),
        ("data.val_size", "no_effect"),
        ("data.train", "not_found"),
        ("data.val", "not_found"),
    ]
    assert faults({"_target_": "sentattn.data.datasets.imdb.Imdb", "path": missing}) == []


def test_faults_of_a_table_are_reported_without_torch(tmp_path: Path) -> None:
    program = f"""
import sys
from sentattn import train
assert train.main(["data=table", "data.train={write(tmp_path / "reviews.csv")}", "data.text=revew"]) == 2
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "Did you mean 'review'?" in done.stderr
