"""Tables in every format, as programs write them and as people break them."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq
from refusals import assert_refused
from table_files import write_sheet, write_table

from sentattn.data.readers import tables
from sentattn.data.readers.tables import ENDINGS, Options, Record, check, read_delimited, read_json, records
from sentattn.errors import DataError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
ROWS = [('Good, "really" good!', "5"), ("Schön;\naber lang", "3"), ("a\ttab", "1")]


def write(path: Path) -> Path:
    return write_table(path, ROWS, ("review", "stars"))


@pytest.mark.parametrize("ending", [*ENDINGS, ".Csv.GZ"])
def test_every_ending_gives_the_same_rows(tmp_path: Path, ending: str) -> None:
    found = records(write(tmp_path / f"my.reviews{ending}"), ["review", "stars"], options=Options(quotes=True))
    assert [tuple(record.values.values()) for record in found] == ROWS


@pytest.mark.parametrize(
    ("name", "kind", "fragment"),
    [
        ("reviws.csv", "not_found", "Did you mean 'reviews.csv'?"),
        ("nowhere/reviews.csv", "not_found", "nowhere"),
        ("book.ods", "unsupported", "Save a spreadsheet as .xlsx"),
        ("notes.txt", "unsupported", ".csv, .tsv, .jsonl"),
        ("table.parquet.gz", "unsupported", "table.parquet.gz"),
        ("folder.csv", "unsupported", "folder.csv"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, kind: str, fragment: str) -> None:
    write(tmp_path / "reviews.csv")
    (tmp_path / "folder.csv").mkdir()
    for other in ("book.ods", "notes.txt", "table.parquet.gz"):
        (tmp_path / other).touch()
    assert_refused(lambda: list(records(tmp_path / name, ["review"])), "", kind, fragment)


COLUMNS = ("review", "stars")
OTHERS = Options(keep_others=True)


def read(content: str | bytes, columns: Sequence[str] = COLUMNS, delimiter: str = ",", **options: Any) -> list[Record]:
    stream = io.BytesIO(content if isinstance(content, bytes) else content.encode())
    return list(read_delimited(stream, "table", columns, options=Options(**options), delimiter=delimiter))


def values(content: str | bytes, **settings: Any) -> list[list[str]]:
    return [list(record.values.values()) for record in read(content, **settings)]


@given(
    rows=st.lists(st.tuples(TEXTS, TEXTS, TEXTS).filter(any)),
    sign=st.sampled_from(",;|\t"),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    mark=st.sampled_from(["", "\ufeff"]),
)
def test_csv_rows_round_trip(rows: list[tuple[str, ...]], sign: str, end: str, mark: str) -> None:
    file = io.StringIO(newline="")
    # A minimum of quotes would leave those away that a line end other than `end` needs.
    writer = csv.writer(file, delimiter=sign, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("review", "stars", "place"), *rows])
    found = values(mark + file.getvalue(), columns=["place", "review"], quotes=True)
    assert found == [[row[2], row[0]] for row in rows]


def test_semicolons_are_found_in_the_header() -> None:
    content = '\ufeffreview;stars;note\r\n"gut; aber\r\nlang";4,5;\r\n;;\r\n"sagt ""gut""";1;x\r\n'
    assert read(content) == [
        Record("line 2", {"review": "gut; aber\r\nlang", "stars": "4,5"}),
        Record("line 5", {"review": 'sagt "gut"', "stars": "1"}),
    ]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("1;a film, number 0\n2;good, or not, or both\n", [["1", "a film, number 0"], ["2", "good, or not, or both"]]),
        ("1;Guter Film, aber lang\n2;Schlecht\n", [["1", "Guter Film, aber lang"], ["2", "Schlecht"]]),
        ("1,good; bad\n2,bad\n", [["1", "good; bad"], ["2", "bad"]]),
        ('1,"good, ""or"" not"\n2,"bad; worse"\n', [["1", 'good, "or" not'], ["2", "bad; worse"]]),
        ("sep=;\n1;a film, number 0\n2;a film, number 1\n", [["1", "a film, number 0"], ["2", "a film, number 1"]]),
    ],
)
def test_the_delimiter_without_a_header_splits_all_rows_alike(content: str, rows: list[list[str]]) -> None:
    assert values(content, columns=["1", "2"], header=False) == rows


def test_two_delimiters_that_split_rows_without_a_header_are_refused() -> None:
    content = "1;a film, number 0\n2;a film, number 1\n"
    assert_refused(lambda: read(content, columns=["1", "2"], header=False), "", "conflict", "','", "';'", "sep=")
    tabs = values("1\tgood, or not\n2\tbad, or not\n", columns=["1", "2"], header=False, delimiter="\t")
    assert tabs == [["1", "good, or not"], ["2", "bad, or not"]]


def test_rows_of_empty_fields_are_kept_where_all_rows_count(tmp_path: Path) -> None:
    assert values('review\ngood\n""\n\nbad\n', columns=["review"], keep_others=True) == [["good"], [""], ["bad"]]
    assert values("review,stars\na,5\n,\nb,4\n,\n", keep_others=True) == [["a", "5"], ["", ""], ["b", "4"], ["", ""]]
    rows = [("review", "stars"), ("a", "5"), (None, None), ("b", "4"), (None, None)]
    sheet = write_sheet(tmp_path / "book.xlsx", rows)
    found = records(sheet, ["review"], options=OTHERS)
    assert [record.values["review"] for record in found] == ["a", "", "b"]


@pytest.mark.parametrize(
    ("content", "settings", "rows"),
    [
        # A name of a column has the delimiter of other tables, or a line break.
        ("a;b,c\nx;y,z\n", {"columns": ["b,c"]}, [["y,z"]]),
        ('"review;stars",review\nx,y\n', {"columns": ["review"]}, [["y"]]),
        ('"review\n(English)",stars\nx,1\n', {"columns": ["stars"]}, [["1"]]),
        # Empty columns at the end are ignored, and one that is not read may be missing.
        ("review,stars,,\na,5,,,,\nb,4\n,,,\n", {}, [["a", "5"], ["b", "4"]]),
        ("review,stars,note\na,5\n", {}, [["a", "5"]]),
        # A quote inside a field is plain.
        ('review,stars\nok,3\nso "good",5\n', {}, [["ok", "3"], ['so "good"', "5"]]),
        ('review\tstars\na "b", c\t5\n"a\tb"\t1\n', {"delimiter": "\t"}, [['a "b", c', "5"], ["a\tb", "1"]]),
    ],
)
def test_forms_of_tables(content: str, settings: dict[str, Any], rows: list[list[str]]) -> None:
    assert values(content, **settings) == rows


@pytest.mark.parametrize("line", ["sep=;", "SEP=;\r", '"sep=;"'])
def test_the_delimiter_that_excel_names_is_obeyed(line: str) -> None:
    content = f"{line}\nreview,stars;stars\ngood, so good;5\n"
    assert read(content, columns=["stars"]) == [Record("line 3", {"stars": "5"})]
    assert read(f"{line}\ngood, so good;5\n", columns=["1"], header=False) == [Record("line 2", {"1": "good, so good"})]


def test_delimiter_and_byte_order_mark_of_a_csv(tmp_path: Path) -> None:
    for name, content, found in (
        ("a.csv", "\ufeffreview;stars\n", (";", True)),
        ("b.csv.gz", "\ufeffsep=|\nreview|stars\n", ("|", True)),
        ("c.csv", "review,stars\n", (",", False)),
    ):
        data = content.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        assert tables.dialect(tmp_path / name, ["review"]) == found


def test_cells_of_a_sheet_are_texts(tmp_path: Path) -> None:
    day = datetime(2026, 1, 5)
    sheet = [("review", "stars", "day"), (), ("good", 5.0, day), (10, 4.5, None), ("NA", True, day), (None, None, None)]
    path = write_sheet(tmp_path / "book.xlsx", sheet)
    found = list(records(path, ["review", "stars", "day"]))
    assert [record.where for record in found] == ["line 3", "line 4", "line 5"]
    assert [[*record.values.values()] for record in found] == [
        ["good", "5", "2026-01-05 00:00:00"],
        ["10", "4.5", ""],
        ["NA", "True", "2026-01-05 00:00:00"],
    ]
    assert next(records(path, ["2"], options=Options(header=False))) == Record("line 1", {"2": "stars"})
    assert_refused(lambda: list(records(path, ["reviews"])), "", "missing", "Did you mean 'review'?")


@pytest.mark.parametrize("content", [b"", b"junk", None])
def test_a_damaged_sheet_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = write_sheet(tmp_path / "book.xlsx", ROWS)
    path.write_bytes(path.read_bytes()[:2000] if content is None else content)
    assert_refused(lambda: list(records(path, ["review"])), "", "damaged", "book.xlsx")


def test_a_sheet_without_a_cell_is_refused(tmp_path: Path) -> None:
    assert_refused(
        lambda: list(records(write_sheet(tmp_path / "book.xlsx", []), ["review"])), "", "missing", "is empty"
    )


def test_the_packages_of_a_sheet_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "book.xlsx").touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert_refused(lambda: list(records(tmp_path / "book.xlsx", ["a"])), "", "package", "openpyxl", "sentattn[excel]")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('review,stars\n"a\nb",3\n5, "so, good"\n', 4),
        ('review,stars\n"ok\nok",3\n"so "good" it is",5\n', 4),
        ('review,stars\nok,3\n"so good,5\nbad,1\n', 3),
        ("review,stars\ngood, but slow,5\n", 2),
        ("review,stars\nok,3\n\ngood\nbut slow,5\n", 4),
        (b"review,stars\nok,3\nsch\xf6n,5\n", 3),
        ("review,stars\nok,3\n".encode("utf-16"), 1),
    ],
)
def test_damage_names_the_line(content: str | bytes, line: int) -> None:
    assert_refused(lambda: read(content), "", "damaged", f"table, line {line}: ")


@pytest.mark.parametrize("text", ['"good', 'good "', '"good" it said', 'a "good" one', '""', 'good""'])
def test_quotes_of_a_tsv_can_be_text(text: str) -> None:
    content = f"review\tstars\n{text}\t5\nbad\t1\n"
    assert values(content, delimiter="\t", quotes=False) == [[text, "5"], ["bad", "1"]]


@pytest.mark.parametrize("closing", ['fine, "', '" fine', "fine"])
def test_a_row_of_a_tsv_does_not_go_on_to_another_line_unasked(closing: str) -> None:
    content = f'review\tstars\nok\t3\n"good\t5\nso\t4\n{closing}\t1\n'
    assert_refused(lambda: read(content, delimiter="\t"), "", "damaged", "table, line 3: ")


def test_quotes_around_a_text_of_a_tsv_are_none_of_it() -> None:
    content = 'review\tstars\n"he said ""good"""\t5\n"two\nlines"\t1\n'
    assert values(content, delimiter="\t", quotes=True) == [['he said "good"', "5"], ["two\nlines", "1"]]
    first, _ = content.split('"two')
    assert values(first, delimiter="\t") == [['he said "good"', "5"]]


def test_an_open_quote_is_found_without_reading_the_whole_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_CHARACTERS", 1000)
    stream = io.BytesIO(b'review,stars\n"open quote,5\n' + b"bad,1\n" * 1_000_000)
    assert_refused(lambda: list(read_delimited(stream, "table", COLUMNS, delimiter=",")), "", "damaged", "line 2")
    assert stream.tell() < 100_000


@pytest.mark.parametrize(
    ("header", "kind", "fragment"),
    [
        ("reviw,date,stars", "missing", "'reviw', 'date', 'stars'"),
        ("reviews;note", "missing", "Did you mean 'reviews'?"),
        ("Good food,5", "missing", "'Good food', '5'"),
        ("review,stars,review", "conflict", "2 columns 'review'"),
        (",".join(f"c{i}" for i in range(30)), "missing", "'c19', ..."),
    ],
)
def test_missing_columns_are_refused(header: str, kind: str, fragment: str) -> None:
    assert_refused(lambda: read(f"{header}\nx,1\n", ["review"]), "", kind, fragment)


def test_names_of_columns_are_found_in_both_encodings_of_a_letter() -> None:
    composed, apart = "Gef\u00fchl", "Gefu\u0308hl"  # of a file from macOS
    for name, header in product((composed, apart), (composed, apart)):
        assert [record.values for record in read(f"{header},stars\ngut,1\n", [name])] == [{name: "gut"}]


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_subnormal=False), TEXTS)


def read_lines(content: str | bytes, **options: Any) -> list[Record]:
    stream = io.BytesIO(content if isinstance(content, bytes) else content.encode())
    return list(read_json(stream, "table", COLUMNS, "", Options(**options)))


@given(
    rows=st.lists(st.fixed_dictionaries({"review": VALUES, "stars": VALUES, "note": VALUES})),
    escaped=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\n\n"]),
)
def test_json_objects_round_trip(rows: list[dict[str, Any]], escaped: bool, end: str) -> None:
    content = "".join(json.dumps(row, ensure_ascii=escaped) + end for row in rows)
    found = read_lines(content)
    assert [record.values for record in found] == [{"review": row["review"], "stars": row["stars"]} for row in rows]
    assert [record.where for record in found] == [
        f"line {len(end.split()) + i * end.count(chr(10)) + 1}" for i in range(len(rows))
    ]
    assert [record.values for record in read_lines(content, keep_others=True)] == rows


@pytest.mark.parametrize("before", ["", "\n", " \n\t", "\ufeff\r\n\r\n  "])
@pytest.mark.parametrize("indent", [None, 2])
def test_white_space_may_stand_before_an_array(before: str, indent: int | None) -> None:
    rows = [{"review": "good", "stars": 5}, {"review": "bad", "stars": 1}]
    found = read_lines(before + json.dumps(rows, indent=indent))
    assert [(record.where, record.values) for record in found] == [("row 1", rows[0]), ("row 2", rows[1])]


@pytest.mark.parametrize(
    "line",
    [
        "no json at all",
        '{"review": "cut',
        '[{"review": "a"},',
        '["a", 1]',
        "[" * 100_000,
        f'{{"review": "a", "stars": {"1" * 5000}}}',
        '{"review": "\\ud83d", "stars": 1}',
        b'{"review": "sch\xf6n", "stars": 1}',
    ],
)
def test_damaged_lines_of_json_are_reported(line: str | bytes) -> None:
    content = b'{"review": "a", "stars": 1}\n\n' + (line if isinstance(line, bytes) else line.encode())
    assert_refused(lambda: read_lines(content), "", "damaged", "table, line 3")


def test_a_line_without_the_key_is_reported() -> None:
    content = '{"review": "a", "stars": 1}\n{"review": "b", "star": 1}\n'
    assert_refused(lambda: read_lines(content), "", "missing", "line 2", "Did you mean 'star'?")


def test_other_columns_are_kept_on_request() -> None:
    stream = io.BytesIO(b"review,note,stars,note,note (2)\na,b,5,c,d\n")
    (record,) = read_delimited(stream, "table", COLUMNS, "", OTHERS, delimiter=",")
    assert record.values == {"review": "a", "note": "b", "stars": "5", "note (3)": "c", "note (2)": "d"}


@pytest.fixture(scope="module")
def parquet_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parquet") / "table.parquet"


@given(
    rows=st.lists(st.tuples(st.none() | TEXTS, st.none() | st.integers(-(2**63), 2**63 - 1), TEXTS)),
    group=st.integers(1, 10),
)
def test_parquet_rows_round_trip(parquet_path: Path, rows: list[tuple[Any, ...]], group: int) -> None:
    review, stars, note = ([row[i] for row in rows] for i in range(3))
    types = [("review", pa.string()), ("stars", pa.int64()), ("a.b", pa.string())]
    table = pa.table({"review": review, "stars": stars, "a.b": note}, schema=pa.schema(types))
    pq.write_table(table, parquet_path, row_group_size=group)
    found = list(records(parquet_path, ["stars", "a.b"]))
    assert [record.values for record in found] == [{"stars": s, "a.b": n} for s, n in zip(stars, note, strict=True)]
    assert [record.where for record in found] == [f"row {number}" for number in range(1, len(rows) + 1)]
    assert [record.values for record in records(parquet_path, ["stars"], "", OTHERS)] == table.to_pylist()


@pytest.mark.parametrize(("kind", "numbers"), [(pa.float32(), np.float32), (pa.float16(), np.float16)])
def test_numbers_of_float16_and_float32_keep_their_short_form(kind: pa.DataType, numbers: type, tmp_path: Path) -> None:
    values = [0.1, 2.5, 3.0, None, 1e-3, 700.0]
    column = pa.array([None if value is None else numbers(value) for value in values], kind)
    pq.write_table(pa.table({"label": column, "exact": pa.array([0.1] * 6)}), tmp_path / "short.parquet")
    found = [record.values for record in records(tmp_path / "short.parquet", ["label", "exact"])]
    assert found == [{"label": value, "exact": 0.1} for value in values]


def test_rows_are_numbered_across_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "long.parquet"
    pq.write_table(pa.table({"review": [str(i) for i in range(2500)]}), path, row_group_size=700)
    found = list(records(path, ["review"]))
    assert [record.where for record in found] == [f"row {int(record.values['review']) + 1}" for record in found]
    assert len(found) == 2500


@pytest.mark.parametrize("keep", [0, 3, 100, -10])
def test_a_damaged_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"review": ["a"] * 100}), path)
    path.write_bytes(path.read_bytes()[:keep])
    assert_refused(lambda: list(records(path, ["review"])), "", "damaged", "table.parquet")


def settings(**changed: object) -> dict[str, object]:
    target = "sentattn.data.datasets.table.Table"
    return {"_target_": target, "name": "table", "text": "review", "label": "stars", **changed}


def faults(data: dict[str, object], split: str | None = None) -> list[tuple[str, str]]:
    try:
        check(data, split=split)
    except DataError as error:
        return [(fault.key, fault.kind) for fault in error.faults]
    return []


def test_settings_of_a_table_are_checked_with_its_first_rows(tmp_path: Path) -> None:
    files = {ending: str(write(tmp_path / f"reviews{ending}")) for ending in (".csv", ".jsonl", ".parquet")}
    for file in files.values():
        assert faults(settings(train=file, test=file)) == []
        assert faults(settings(train=file, text="text")) == [("data.train", "missing")]
        assert faults(settings(train=file, text=["review", "body"])) == [("data.train", "missing")]
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
    assert faults(settings(train=csv_file, text=["review", "stars"])) == [("data.text", "conflict")]
    assert faults(settings(train=csv_file, text=["review", "review"])) == [("data.text", "conflict")]
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
