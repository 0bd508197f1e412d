"""Yelp's reviews in every form, whole and damaged."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import fault_of
from yelp_forms import FORMS, REVIEWS, ROWS, json_lines, refusal, rows, table, write_file, write_tar, write_zip

from sentattn.data.corpus import Row
from sentattn.data.datasets.yelp import Yelp
from sentattn.data.readers.download import REGISTRY


@pytest.fixture(params=FORMS)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return FORMS[request.param](tmp_path, REVIEWS)


def test_every_form_gives_the_same_rows(written: Path) -> None:
    assert rows(written) == ROWS


def test_every_form_gives_the_same_splits(tmp_path: Path) -> None:
    prints, tested = set(), set()
    for name, write in FORMS.items():
        folder = tmp_path / name
        folder.mkdir()
        data = Yelp(path=str(write(folder, REVIEWS)), cache_dir=str(tmp_path / "cache"))
        data.prepare()
        prints.add(data.fingerprint)
        tested.add(tuple(data.split("test").texts(i) for i in range(4)))
        assert [len(data.split(split)) for split in ("train", "val", "test")] == [34, 2, 4]
    assert len(prints) == 1
    assert tested == {tuple(text for _, text in REVIEWS[-4:])}


@pytest.mark.parametrize("form", ["JSON lines", "CSV archive"])
def test_sizes_of_the_splits(tmp_path: Path, form: str) -> None:
    sizes = {"train_size": 10, "val_size": 5, "test_size": 3, "test_seed": 0}
    path, cache = str(FORMS[form](tmp_path, REVIEWS)), str(tmp_path / "cache")
    data = Yelp(path=path, cache_dir=cache, **sizes)
    assert [len(data.split(split)) for split in ("train", "val", "test")] == [10, 5, 3]
    assert np.bincount(data.split("train").labels).tolist() == [2] * 5
    fault = fault_of(lambda: Yelp(path=path, cache_dir=cache, **{**sizes, "train_size": 500_000}).prepare())
    assert fault.kind == "range"
    assert "data.train_size" in fault.message


def test_yelp_review_full_is_downloaded_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = FORMS["CSV archive"](tmp_path, REVIEWS)
    monkeypatch.setitem(REGISTRY, archive.name, hashlib.sha256(archive.read_bytes()).hexdigest())
    data = Yelp(mirror=str(tmp_path), cache_dir=str(tmp_path / "cache"))
    assert [data.split("test").texts(i) for i in range(4)] == [text for _, text in REVIEWS[-4:]]


# A text in which `\n` or `\"` is written literally cannot be distinguished from an escaped one.
@given(st.lists(st.text().filter(lambda text: "\\n" not in text and '\\"' not in text), min_size=1))
def test_texts_in_csv_round_trip(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = write_file(tmp_path_factory.getbasetemp(), "any.csv", table([(5, text) for text in texts]))
    assert rows(path) == [Row(text, 4) for text in texts]


def test_the_archive_of_zhang_et_al_escapes_quotes_twice(tmp_path: Path) -> None:
    assert rows(write_file(tmp_path, "train.csv", b'"1","a \\""new\\"" tire\\n\\nBad."\n')) == [
        Row('a "new" tire\n\nBad.', 0)
    ]


@pytest.mark.parametrize("rating", ["5", "5.0", '"5"'])
def test_stars_may_be_written_as_decimal_numbers_and_in_quotes(tmp_path: Path, rating: str) -> None:
    assert rows(write_file(tmp_path, "a.csv", f"{rating},fine".encode())) == [Row("fine", 4)]
    assert rows(write_file(tmp_path, "a.json", f'{{"stars": {rating}, "text": "fine"}}'.encode())) == [Row("fine", 4)]


def test_a_review_without_text_is_empty(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.json", b'{"stars": 1, "text": null}\n{"stars": 1, "text": ""}')
    assert rows(path) == [Row("", 0), Row("", 0)]


GOOD = {"stars": 4, "text": "good"}
LINES = {
    "half a star": ({**GOOD, "stars": 3.5}, "got 3.5."),
    "no star": ({**GOOD, "stars": 0}, "got 0."),
    "six stars": ({**GOOD, "stars": 6}, "got 6."),
    "stars that are none": ({**GOOD, "stars": None}, "got None."),
    "a truth value": ({**GOOD, "stars": True}, "got True."),
    "a list": ({**GOOD, "stars": [5]}, "got [5]."),
    "a number as text": ({**GOOD, "text": 7}, "must be a column of texts, got 7."),
    "no stars": ({"text": "good"}, "has no column 'stars'; it has 'text'"),
    "no text": ({"stars": 4}, "has no column 'text'; it has 'stars'"),
    "half a character": ({**GOOD, "text": "\ud83d"}, "holds half a character"),
}


@pytest.mark.parametrize("fault", LINES)
def test_a_faulty_review_is_reported_with_its_line(tmp_path: Path, fault: str) -> None:
    line, fragment = LINES[fault]
    path = write_file(tmp_path, "a.json", json_lines(REVIEWS[:2]) + json.dumps(line).encode() + b"\n")
    message = refusal(path)
    assert "a.json, line 3" in message
    assert fragment in message


@pytest.mark.parametrize("line", [b"stars: 4", b'{"stars": 4, "text": "cut o', b"[4, 5]"])
def test_a_line_that_is_no_json_is_reported(tmp_path: Path, line: bytes) -> None:
    message = refusal(write_file(tmp_path, "a.json", json_lines(REVIEWS[:16]) + line))
    assert "a.json, line 17" in message
    assert "JSON" in message


def test_bytes_that_are_not_utf8_are_reported_with_their_line(tmp_path: Path) -> None:
    latin = "Ein schöner Ort".encode("latin-1")
    lines = write_file(tmp_path, "a.json", json_lines(REVIEWS[:2]) + b'{"stars": 4, "text": "' + latin + b'"}\n')
    assert "a.json, line 3: byte 0xf6" in refusal(lines)
    in_csv = write_tar(tmp_path, {"train.csv": b'"1","one"\n"2","' + latin + b'"\n', "test.csv": table(REVIEWS)})
    assert "train.csv" in refusal(in_csv)
    assert "line 2: byte 0xf6" in refusal(in_csv)
    assert "is not UTF-8" in refusal(write_file(tmp_path, "b.json", json_lines(REVIEWS).decode().encode("utf-16")))


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (b'"5","good"\n"4","She said "wow" twice"\n', "line 2: "),
        (b'"5","good"\n"4","never closed\n', "line 2: "),
        (b'"5","good"\n"3.5","half"\n', "line 2: the stars must be one of 1, 2, 3, 4, 5, got '3.5'"),
        (b'"5","good"\n"4"\n', "line 2: 1 "),
        (b'"5","title","good"\n', "line 1: 3 "),
    ],
)
def test_a_damaged_csv_is_reported_with_its_line(tmp_path: Path, content: bytes, fragment: str) -> None:
    assert fragment in refusal(write_file(tmp_path, "a.csv", content))


@pytest.mark.parametrize(
    ("content", "kind", "fragment"),
    [
        ({"texts": ["a", "b"], "labels": [1]}, "damaged", "texts and labels"),
        ({"texts": ["a", "b"]}, "damaged", "texts and labels"),
        ({"texts": ["a", "b"], "labels": [5, 2.5]}, "unknown", "review 2: "),
        ({"texts": ["a", "b"], "labels": [5, [2]]}, "type", "review 2: "),
        ({"texts": ["a", 3], "labels": [5, 2]}, "type", "review 2: "),
        ({"texts": ["a", "\ud83d"], "labels": [5, 2]}, "damaged", "review 2 "),
        ([["a", 1]], "damaged", "texts and labels"),
        (b'{"texts": ["a", "b', "damaged", "column 17"),
        (b'{"texts": ["a"], "labels": [1]} {', "damaged", "column 33"),
        (b'{"texts": ["a"], "labels": [' + b"[" * 100_000, "damaged", ""),
        (b'{"texts": ["sch\xf6n"], "labels": [1]}', "damaged", "position 15"),
    ],
)
def test_a_faulty_object_is_reported(tmp_path: Path, content: object, kind: str, fragment: str) -> None:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    fault = fault_of(lambda: rows(write_zip(tmp_path, {"yelp_review_subset.json": data})))
    assert fault.kind == kind
    assert "yelp_review_subset" in fault.message
    assert fragment in fault.message


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf "])
def test_labels_may_stand_before_texts_after_a_byte_order_mark(tmp_path: Path, mark: bytes) -> None:
    content = {"labels": [1, 5], "from": [1, 2, 3], "year": 2018, "texts": ["a", "b"]}
    path = write_zip(tmp_path, {"a.json": mark + json.dumps(content, indent=1).encode()})
    assert rows(path) == [Row("a", 0), Row("b", 4)]


def test_a_damaged_parquet_is_refused_by_name(tmp_path: Path) -> None:
    file = next(FORMS["parquet folder"](tmp_path, REVIEWS).rglob("test-*.parquet"))
    file.write_bytes(file.read_bytes()[:-20])
    assert f"{file} cannot be read as parquet" in refusal(tmp_path / "hub")


def test_labels_of_parquet_start_from_zero(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"label": [4, 5], "text": ["a", "b"]}), tmp_path / "a.parquet")
    assert "a.parquet, row 2: " in refusal(tmp_path / "a.parquet")
    parquet.write_table(pyarrow.table({"stars": [4, 5], "text": ["a", "b"]}), tmp_path / "b.parquet")
    assert "'stars', 'text'" in refusal(tmp_path / "b.parquet")


@pytest.mark.parametrize("form", ["JSON lines", "ZIP", "CSV archive", "parquet folder"])
def test_a_failed_read_leaves_no_cache(tmp_path: Path, form: str) -> None:
    path = FORMS[form](tmp_path, [*REVIEWS, (7, "seven stars")])
    assert fault_of(Yelp(path=str(path), cache_dir=str(tmp_path / "cache")).prepare).kind == "unknown"
    left = {file.name.split("-")[0] for file in (tmp_path / "cache").iterdir() if file.suffix != ".lock"}
    assert left <= {"unpacked"}
