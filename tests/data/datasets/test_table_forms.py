"""The forms of a table: the same rows in every format, compression, encoding and number of files are one corpus."""

from __future__ import annotations

import bz2
import csv
import datetime
import gzip
import io
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq
from refusals import assert_refused, fault_of, faults_of, refused

from sentattn.data.corpus import Row
from sentattn.data.datasets.table import TableSource
from sentattn.data.readers.tables import Options, label_name, table_paths

NAMES = ("title", "body", "label")
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
Rows = list[tuple[str, str, Any]]


def write(path: Path, rows: Rows, encoding: str = "utf-8", *, header: bool = True) -> Path:
    """Writes rows as the ending and the compression of a name say."""
    ending, *_ = [s for s in path.suffixes if s not in (".gz", ".bz2", ".xz", ".zst")]
    objects = [dict(zip(NAMES, row, strict=True)) for row in rows]
    text = io.StringIO(newline="")
    if ending == ".parquet":
        pq.write_table(pa.table({name: [row[name] for row in objects] for name in NAMES}), path)
        return path
    if ending == ".json":
        json.dump(objects, text, indent=1, default=str)
    elif ending == ".jsonl":
        text.writelines(json.dumps(row, default=str) + "\n" for row in objects)
    else:
        writer = csv.writer(text, delimiter="\t" if ending == ".tsv" else ",", quoting=csv.QUOTE_ALL)
        writer.writerows([NAMES, *rows] if header else rows)
    content = text.getvalue().encode(encoding)
    pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(content))
    if path.suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as file:
            file.write(content)
    return path


def read(files: object, columns: Sequence[str] = NAMES, **options: Any) -> tuple[tuple[str, ...], list[Row]]:
    *text, label = columns
    source = TableSource({"train": files}, text=text, label=label, options=Options(**options))  # type: ignore[dict-item]
    rows = list(source.read("train"))
    return source.labels, rows


FORMS = ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.csv.gz", "a.tsv.bz2", "a.json.xz", "a.jsonl.zst"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("forms")


@settings(max_examples=25, deadline=None)
@given(
    labels=st.one_of(
        *(
            st.lists(kind, min_size=2, max_size=2, unique_by=label_name)
            for kind in (st.booleans(), st.dates(), st.datetimes(), st.integers(-9, 9))
        )
    ),
    texts=st.lists(st.tuples(TEXTS, TEXTS), min_size=2, max_size=9),
)
def test_every_form_is_the_same_corpus(folder: Path, labels: list[Any], texts: list[tuple[str, str]]) -> None:
    rows: Rows = [(title, body, labels[i % 2]) for i, (title, body) in enumerate(texts)]
    expected = read(write(folder / "a.csv", rows))
    assert [row.text for row in expected[1]] == ["\n".join(filter(None, row[:2])) for row in rows]
    for name in FORMS[1:]:
        assert read(write(folder / name, rows)) == expected, name
    parts = filter(None, (rows[:1], rows[1:2], rows[2:]))
    shards = [str(write(folder / f"part-{i}.csv", part)) for i, part in enumerate(parts)]
    assert read(shards) == expected
    assert read(write(folder / "bare.csv", rows, header=False), ("1", "2", "3"), header=False) == expected
    assert read(write(folder / "utf16.csv", rows, "utf-16"), encoding="utf-16") == expected


ROWS: Rows = [("Schön", "a", "good"), ("", "b", "bad"), ("c", "", "good")]


def test_files_of_a_pattern_are_sorted_and_those_of_a_list_are_not(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "c[1].csv"):
        write(tmp_path / name, ROWS)
    assert [path.name for path in table_paths(f"{tmp_path}/?.csv", "data.train")] == ["a.csv", "b.csv"]
    assert [path.name for path in table_paths([f"{tmp_path}/b.csv", f"{tmp_path}/a.*"], "k")] == ["b.csv", "a.csv"]
    assert [path.name for path in table_paths(str(tmp_path / "c[1].csv"), "k")] == ["c[1].csv"]
    assert_refused(lambda: table_paths(f"{tmp_path}/*.tsv", "data.train"), "data.train", "not_found")


def test_fingerprint_of_several_files_follows_their_content_and_how_they_are_read(tmp_path: Path) -> None:
    one, two = (str(write(tmp_path / name, ROWS[i:])) for i, name in enumerate(("a.csv", "b.csv")))

    def fingerprint(files: object, **options: Any) -> str:
        return TableSource({"train": files}, text="body", label="label", options=Options(**options)).fingerprint()  # type: ignore[dict-item]

    assert fingerprint([one]) == fingerprint(one)
    assert fingerprint([one, two]) == fingerprint(f"{tmp_path}/*.csv")
    others = [fingerprint([one, two]), fingerprint([two, one]), fingerprint(one), fingerprint(one, encoding="latin-1")]
    assert len({*others, fingerprint(one, header=False)}) == 5
    before = fingerprint([one, two])
    write(Path(two), ROWS)
    assert fingerprint([one, two]) != before


@pytest.mark.parametrize(
    ("second", "kind"), [("", "missing"), ("title,body,label\n", "missing"), ("label\nx\n", "missing")]
)
def test_each_file_must_have_the_columns_and_rows(tmp_path: Path, second: str, kind: str) -> None:
    (tmp_path / "second.csv").write_text(second)
    first = write(tmp_path / "first.csv", ROWS)
    fault = fault_of(lambda: read([str(first), str(tmp_path / "second.csv")], ("title", "label")))
    assert fault.kind == kind
    assert fault.message.startswith(str(tmp_path / "second.csv"))


@pytest.mark.parametrize(
    ("name", "content", "options", "kind", "part"),
    [
        ("a.json", '["a", "b"]', {}, "damaged", "row 1"),
        ("a.json", '[{"title": "a", "label": "x"}, 3]', {}, "damaged", "row 2"),
        ("a.json", '[{"title": "a",\n "label": ]', {}, "damaged", "line 2"),
        ("a.json", '{\n"data": [{"title": "a", "label": "x"}]}', {}, "damaged", "line 1"),
        ("a.json", '{"data": [{"title": "a", "label": "x"}]}', {}, "missing", "'data'"),
        ("a.json", '[{"title": "a", "label": ["x"]}]', {}, "type", "row 1"),
        ("a.json", "[]", {}, "missing", "no row"),
        ("a.csv", "title,label\nSch\xf6n,x\n", {}, "damaged", "line 2: byte 0xf6"),
        ("a.csv", "title,label\nSch\xf6n,x\n", {"encoding": "utf-16"}, "damaged", "a.csv cannot be read"),
        ("a.csv", "title,label\na,x\n", {"encoding": "lattin1"}, "unknown", "Did you mean 'latin1'"),
        ("a.csv", "title,label\na,x\n", {"encoding": "rot13"}, "unknown", "utf-8"),
        ("a.csv.zst", "no zstd", {}, "damaged", "a.csv.zst"),
        ("a.csv.xz", "no xz", {}, "damaged", "a.csv.xz"),
        ("a.parquet.zst", "", {}, "unsupported", ".parquet"),
    ],
)
def test_faulty_files_are_named(
    tmp_path: Path, name: str, content: str, options: dict[str, Any], kind: str, part: str
) -> None:
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    fault = faults_of(lambda: read(tmp_path / name, ("title", "label"), **options))[0]
    assert fault.kind == kind
    assert part in fault.message


def test_a_damaged_end_of_zstd_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv.zst", ROWS * 1000)
    path.write_bytes(path.read_bytes()[:-5])
    assert fault_of(lambda: read(path)).kind == "damaged"


def test_columns_without_a_header_are_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ROWS, header=False)
    assert read(path, ("2", "3"), header=False)[1] == [Row("a", 1), Row("b", 0), Row("", 1)]
    assert refused(lambda: read(path, ("7", "3"), header=False)) == [("", "missing")]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (datetime.date(2026, 1, 5), "2026-01-05"),
        (datetime.datetime(2026, 1, 5), "2026-01-05"),
        ("2026-01-05 00:00:00", "2026-01-05"),
        (datetime.datetime(2026, 1, 5, 10, 30), "2026-01-05 10:30:00"),
        (datetime.datetime(2026, 1, 5, tzinfo=datetime.UTC), "2026-01-05 00:00:00+00:00"),
    ],
)
def test_dates_have_one_spelling(value: object, name: str) -> None:
    assert label_name(value) == name
