"""Yelp's reviews in every form, in files, folders and archives, whole and damaged."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yelp_forms
from hypothesis import given
from hypothesis import strategies as st
from refusals import fault_of
from yelp_forms import (
    FORMS,
    REVIEWS,
    ROWS,
    json_arrays,
    json_lines,
    refusal,
    rows,
    table,
    write_file,
    write_tar,
    write_zip,
)

from sentattn.data.corpus import Row
from sentattn.data.datasets.yelp import Yelp, YelpSource
from sentattn.data.readers.download import REGISTRY
from sentattn.errors import DataError

WITH_TEST_ROWS = ("CSV folder", "CSV archive", "parquet folder")


def test_every_form_gives_the_same_rows_and_splits(tmp_path: Path) -> None:
    prints, tested = set(), set()
    for name, write in FORMS.items():
        folder = tmp_path / name
        folder.mkdir()
        path = write(folder, REVIEWS)
        assert rows(path) == ROWS
        data = Yelp(path=str(path), cache_dir=str(tmp_path / "cache"))
        data.prepare()
        prints.add(data.fingerprint)
        tested.add(tuple(data.split("test").texts(i) for i in range(4)))
        assert [len(data.split(split)) for split in ("train", "val", "test")] == [34, 2, 4]
        assert ("test" in YelpSource(path, tmp_path / "cache").splits) == (name in WITH_TEST_ROWS)
        assert (data.labels[0], data.ordered) == ("1 star", True)
    assert len(prints) == 1
    assert tested == {tuple(text for _, text in REVIEWS[-4:])}


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


@pytest.mark.parametrize(
    ("changed", "fragment"),
    [
        ({"stars": 3.5}, "got 3.5."),
        ({"stars": 0}, "got 0."),
        ({"stars": 6}, "got 6."),
        ({"stars": None}, "got None."),
        ({"stars": True}, "got True."),
        ({"text": 7}, "must be a column of texts, got 7."),
    ],
)
def test_a_faulty_review_is_reported_with_its_line(tmp_path: Path, changed: dict[str, object], fragment: str) -> None:
    line = json.dumps({"stars": 4, "text": "good", **changed}).encode()
    message = refusal(write_file(tmp_path, "a.json", json_lines(REVIEWS[:2]) + line + b"\n"))
    assert "a.json, line 3" in message
    assert fragment in message


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
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


def test_labels_of_parquet_start_from_zero(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"label": [4, 5], "text": ["a", "b"]}), tmp_path / "a.parquet")
    assert "a.parquet, row 2: " in refusal(tmp_path / "a.parquet")
    parquet.write_table(pyarrow.table({"stars": [4, 5], "text": ["a", "b"]}), tmp_path / "b.parquet")
    assert "'stars', 'text'" in refusal(tmp_path / "b.parquet")


def test_other_files_of_the_open_dataset_are_ignored(tmp_path: Path) -> None:
    others = {f"yelp_academic_dataset_{name}.json": b"{}" for name in ("business", "checkin", "tip", "user")}
    members = {**others, "yelp_academic_dataset_review.json": json_lines(REVIEWS)}
    for name, content in members.items():
        write_file(tmp_path, f"folder/{name}", content)
    assert rows(tmp_path / "folder") == ROWS


@pytest.mark.parametrize("form", FORMS)
def test_fingerprint_follows_the_content(form: str, tmp_path: Path) -> None:
    written = FORMS[form](tmp_path, REVIEWS)
    before = YelpSource(written, written.parent / "cache").fingerprint()
    assert before == YelpSource(written, written.parent / "cache").fingerprint()
    file = next(file for file in ([written] if written.is_file() else written.rglob("*")) if file.is_file())
    times = file.stat().st_mtime_ns
    if file.suffix == ".tgz":
        yelp_forms.write_csv_archive(file.parent, REVIEWS[::-1])
    else:
        file.write_bytes(file.read_bytes().replace(b"Number 1.", b"Number 2.") + b" ")
    os.utime(file, ns=(times, times))
    assert before != YelpSource(written, written.parent / "cache").fingerprint()


def test_an_archive_without_the_reviews_is_refused(tmp_path: Path) -> None:
    assert "got readme.txt" in refusal(write_tar(tmp_path, {"readme.txt": b"hello"}))
    assert "0 files of JSON" in refusal(write_zip(tmp_path, {"readme.txt": b"hello"}))
    two = {"review_a.json": json_lines(REVIEWS), "review_b.json": json_lines(REVIEWS)}
    assert "2 files of JSON" in refusal(write_zip(tmp_path, two))
    assert "train and test once" in refusal(write_tar(tmp_path, {"a/train.csv": table(REVIEWS)}))


def test_an_archive_is_unpacked_once_and_inside_the_cache(tmp_path: Path) -> None:
    archive, cache = yelp_forms.write_csv_archive(tmp_path, REVIEWS), tmp_path / "cache"
    stages: list[str] = []
    for _ in range(2):
        source = YelpSource(archive, cache, lambda stage, *_: stages.append(stage))
        assert [row for split in source.splits for row in source.read(split)] == ROWS
    assert stages == ["Unpacking yelp_review_full_csv.tgz"]
    for name in ("../train.csv", "a/../../train.csv"):
        harmful = write_tar(tmp_path, {name: table(REVIEWS), "test.csv": table(REVIEWS)}, "harmful.tgz")
        fault = fault_of(lambda: YelpSource(harmful, cache))  # noqa: B023 - it is called at once
        assert (fault.key, fault.kind) == ("data.path", "damaged")
        assert {file.parent.name for file in tmp_path.rglob("train.csv")} == {"yelp_review_full_csv"}


HARM: dict[str, Callable[[bytes], bytes]] = {
    "cut in half": lambda content: content[: len(content) // 2],
    "the end cut off": lambda content: content[:-6],
    "a byte changed": lambda content: content[: len(content) // 2] + b"\xff\xff" + content[len(content) // 2 + 2 :],
}


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("form", ["ZIP", "CSV archive", "JSON lines, gzip"])
def test_a_damaged_archive_is_refused_by_name(tmp_path: Path, form: str, harm: str) -> None:
    path = FORMS[form](tmp_path, [(stars, f"{text} {os.urandom(200).hex()}") for stars, text in REVIEWS])
    path.write_bytes(HARM[harm](path.read_bytes()))
    assert str(path) in refusal(path)


def test_files_without_reviews_are_refused(tmp_path: Path) -> None:
    assert "a.csv, line 1: " in refusal(write_file(tmp_path, "a.csv", b"stars,text\n5,good\n"))
    assert "b.json holds no row" in refusal(write_file(tmp_path, "b.json", b""))
    assert "b.json.gz holds no row" in refusal(write_file(tmp_path, "b.json.gz", gzip.compress(b"")))
    assert "b.gz must be a file with one of these endings" in refusal(write_file(tmp_path, "b.gz", gzip.compress(b"")))


def test_a_folder_has_one_complete_data_set(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "got no file" in refusal(tmp_path / "empty")
    yelp_forms.write_csv_folder(tmp_path / "twice", REVIEWS)
    yelp_forms.write_parquet_folder(tmp_path / "twice" / "more", REVIEWS)
    write_file(tmp_path / "twice", "train.parquet", b"PAR1")
    assert "train and test once" in refusal(tmp_path / "twice")
    write_file(tmp_path, "half/train.csv", table(REVIEWS))
    message = refusal(tmp_path / "half")
    assert "got train.csv" in message
    assert "data.path=FILE" in message


def test_an_encrypted_or_unknown_zip_is_reported(tmp_path: Path) -> None:
    path = write_zip(tmp_path, {"a.json": json_arrays(REVIEWS)})
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        directory = archive.start_dir
    content[8:10] = content[directory + 10 : directory + 12] = (9).to_bytes(2, "little")  # Deflate64, as of Windows
    path.write_bytes(content)
    assert str(path) in refusal(path)


def test_ratings_of_two_classes_are_no_stars(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / f"{split}.csv").write_text('"1","bad"\n"2","good"\n' * 3)
    source = YelpSource(tmp_path, tmp_path / "cache")
    with pytest.raises(DataError) as error:
        list(source.read("train"))
    assert (error.value.faults[0].key, error.value.faults[0].kind) == ("data.path", "range")
