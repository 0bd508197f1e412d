"""CSV, TSV and JSON lines, as programs write them and as people break them."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import fault_of

from sentattn.data.readers import text_tables
from sentattn.data.readers.text_tables import Record, read_delimited, read_json_arrays, read_json_lines
from sentattn.errors import DataError

COLUMNS = ("review", "stars")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def read(content: str | bytes, columns: Sequence[str] | None = COLUMNS, delimiter: str = ",") -> list[Record]:
    stream = io.BytesIO(content if isinstance(content, bytes) else content.encode())
    return list(read_delimited(stream, "table", columns, delimiter=delimiter))


def values(content: str | bytes, **settings: Any) -> list[list[str]]:
    return [list(record.values.values()) for record in read(content, **settings)]


@given(
    rows=st.lists(st.tuples(TEXTS, TEXTS, TEXTS).filter(any)),
    sign=st.sampled_from(",;|\t"),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    mark=st.sampled_from(["", "\ufeff"]),
)
def test_rows_that_csv_writes_come_back(rows: list[tuple[str, ...]], sign: str, end: str, mark: str) -> None:
    file = io.StringIO(newline="")
    # A minimum of quotes would leave those away that a line end other than `end` needs.
    writer = csv.writer(file, delimiter=sign, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("review", "stars", "place"), *rows])
    assert values(mark + file.getvalue(), columns=["place", "review"]) == [[row[2], row[0]] for row in rows]


@given(rows=st.lists(st.tuples(TEXTS, TEXTS).filter(any), min_size=1))
def test_rows_without_a_header_come_back(rows: list[tuple[str, ...]]) -> None:
    file = io.StringIO(newline="")
    csv.writer(file).writerows(rows)
    found = read(file.getvalue(), columns=None)
    assert [record.values for record in found] == [{"0": first, "1": second} for first, second in rows]


def test_a_spreadsheets_semicolons_are_found_in_the_header() -> None:
    content = '\ufeffreview;stars;note\r\n"gut; aber\r\nlang";4,5;\r\n;;\r\n"sagt ""gut""";1;x\r\n'
    assert read(content) == [
        Record("line 2", {"review": "gut; aber\r\nlang", "stars": "4,5"}),
        Record("line 5", {"review": 'sagt "gut"', "stars": "1"}),
    ]


def test_a_name_may_hold_the_delimiter_of_another_table() -> None:
    assert values("a;b,c\nx;y,z\n", columns=["b,c"]) == [["y,z"]]
    assert values('"review;stars",review\nx,y\n', columns=["review"]) == [["y"]]


def test_a_header_may_have_line_breaks() -> None:
    assert values('"review\n(English)",stars\nx,1\n', columns=["stars"]) == [["1"]]


def test_empty_columns_at_the_end_do_not_matter() -> None:
    assert values("review,stars,,\na,5,,,,\nb,4\n,,,\n") == [["a", "5"], ["b", "4"]]


def test_a_column_that_is_not_read_may_be_missing_at_the_end() -> None:
    assert values("review,stars,note\na,5\n") == [["a", "5"]]


def test_tsv_has_plain_quotes_inside_its_fields() -> None:
    assert values('review\tstars\nso "good", so cheap\t5\n"a\tb"\t1\n', delimiter="\t") == [
        ['so "good", so cheap', "5"],
        ["a\tb", "1"],
    ]


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
    fault = fault_of(lambda: read(content))
    assert fault.kind == "damaged"
    assert fault.message.startswith(f"table, line {line}: ")


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_table_is_refused(content: str) -> None:
    assert fault_of(lambda: read(content)).kind == "missing"


def test_a_quote_inside_a_field_without_quotes_is_plain() -> None:
    assert values('review,stars\nok,3\nso "good",5\n') == [["ok", "3"], ['so "good"', "5"]]


def test_rows_before_the_damage_are_given() -> None:
    rows = read_delimited(io.BytesIO(b'review,stars\nok,3\n"so good,5\n'), "table", COLUMNS)
    assert next(rows).values == {"review": "ok", "stars": "3"}
    with pytest.raises(DataError, match="line 3"):
        next(rows)


def test_a_quote_that_is_never_closed_does_not_take_the_whole_file_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tables, "MAX_CHARACTERS", 1000)
    stream = io.BytesIO(b'review,stars\n"so good,5\n' + b"bad,1\n" * 1_000_000)
    with pytest.raises(DataError, match=r"table, line 2: field larger than field limit"):
        list(read_delimited(stream, "table", COLUMNS))
    assert stream.tell() < 100_000


def test_a_line_without_an_end_is_not_taken_in_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tables, "MAX_CHARACTERS", 1000)
    stream = io.BytesIO(b"review,stars\n" + b"bad," * 1_000_000)
    with pytest.raises(DataError, match=r"table, line 2 is longer than 1,000 characters"):
        list(read_delimited(stream, "table", COLUMNS))
    assert stream.tell() < 100_000


@pytest.mark.parametrize(
    ("header", "kind", "fragment"),
    [
        ("reviw,date,stars", "missing", "'review'; it has 'reviw', 'date', 'stars'. Did you mean 'reviw'?"),
        ("reviews;note", "missing", "it has 'reviews', 'note'. Did you mean 'reviews'?"),
        ("Good food,5", "missing", "it has 'Good food', '5'."),
        ("review,stars,review", "conflict", "2 columns 'review'"),
        (",".join(f"c{i}" for i in range(30)), "missing", "'c19', ..."),
    ],
)
def test_columns_that_are_not_there(header: str, kind: str, fragment: str) -> None:
    fault = fault_of(lambda: read(f"{header}\nx,1\n"))
    assert fault.kind == kind
    assert fragment in fault.message


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_subnormal=False), TEXTS)


def read_lines(content: str | bytes, columns: Sequence[str] | None = COLUMNS) -> list[Record]:
    stream = io.BytesIO(content if isinstance(content, bytes) else content.encode())
    return list(read_json_lines(stream, "table", columns))


@given(
    rows=st.lists(st.fixed_dictionaries({"review": VALUES, "stars": VALUES, "note": VALUES})),
    escaped=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\n\n"]),
)
def test_objects_that_json_writes_come_back(rows: list[dict[str, Any]], escaped: bool, end: str) -> None:
    content = "".join(json.dumps(row, ensure_ascii=escaped) + end for row in rows)
    found = read_lines(content)
    assert [record.values for record in found] == [{"review": row["review"], "stars": row["stars"]} for row in rows]
    assert [record.where for record in found] == [
        f"line {len(end.split()) + i * end.count(chr(10)) + 1}" for i in range(len(rows))
    ]
    assert [record.values for record in read_lines(content, None)] == rows


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
def test_a_line_that_is_no_json_object_is_named(line: str | bytes) -> None:
    content = b'{"review": "a", "stars": 1}\n\n' + (line if isinstance(line, bytes) else line.encode())
    fault = fault_of(lambda: read_lines(content))
    assert fault.kind == "damaged"
    assert fault.message.startswith("table, line 3")


def test_a_line_without_the_key_is_named() -> None:
    with pytest.raises(
        DataError, match=r"table, line 2 has no column 'stars'; it has 'review', 'star'\. Did you mean 'star'"
    ):
        read_lines('{"review": "a", "stars": 1}\n{"review": "b", "star": 1}\n')


SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
ITEMS = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=4,
)


def items(text: str | bytes) -> list[tuple[str, Any]]:
    raw = text if isinstance(text, bytes) else text.encode()
    return list(read_json_arrays(io.BufferedReader(io.BytesIO(raw)), "file.json"))


@given(
    content=st.dictionaries(TEXTS, st.lists(ITEMS, max_size=4) | ITEMS, max_size=4),
    indent=st.sampled_from([None, 2]),
    ascii_only=st.booleans(),
)
def test_items_are_those_of_the_arrays(content: dict[str, Any], indent: int | None, ascii_only: bool) -> None:
    def shallow(item: Any) -> Any:
        return type(item)() if isinstance(item, dict | list) else item

    raw = json.dumps(content, indent=indent, ensure_ascii=ascii_only).encode()
    arrays = {key: value for key, value in content.items() if isinstance(value, list)}
    assert items(raw) == [(key, shallow(item)) for key, array in arrays.items() for item in array]


def test_a_byte_order_mark_and_space_around_do_not_matter() -> None:
    assert items(b'\xef\xbb\xbf {"a" : [ 1 , 2 ] }\r\n') == [("a", 1), ("a", 2)]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "after item 0 of ''"),
        ("[1, 2", "after item 0 of ''"),
        ('{"a": [1, 2', "after item 2 of 'a'"),
        ('{"a": ["one", "tw', "after item 1 of 'a'"),
        ('{"a": ["one" "two"]}', "after item 1 of 'a'"),
        ('{"a": [1, 2,]}', "after item 2 of 'a'"),
        ('{"a": [1, 2]', "after item 2 of 'a'"),
        ('{"a": [1, 2]} {', "after item 2 of 'a'"),
        ('{"a": [1], "b": [x]}', "after item 0 of 'b'"),
        (b'{"a": ["one", "sch\xf6n"]}', "after item 1 of 'a'"),
        ('{"a": [' + "[" * 1_000_000, "after item 1 of 'a'"),
        ('{"a": ["one", "' + "two" * 1_000_000, "after item 1 of 'a'"),
    ],
)
def test_damage_is_reported_with_its_place(monkeypatch: pytest.MonkeyPatch, text: str | bytes, place: str) -> None:
    monkeypatch.setattr(text_tables, "MAX_CHARACTERS", 1 << 20)
    fault = fault_of(lambda: items(text))
    assert (fault.key, fault.kind) == ("", "damaged")
    assert fault.message.startswith("file.json is no whole JSON object in UTF-8 (")
    assert place in fault.message


def test_memory_does_not_grow_with_the_arrays() -> None:
    def peak(count: int) -> int:
        raw = io.BufferedReader(io.BytesIO(json.dumps({"texts": ["x" * 100] * count}).encode()))
        tracemalloc.start()
        for _ in read_json_arrays(raw, "file.json"):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(100)
    assert peak(50_000) < 1.5 * peak(5_000)
