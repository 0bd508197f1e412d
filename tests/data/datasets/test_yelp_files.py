"""Where Yelp's reviews are found: files, folders and archives, whole and damaged."""

from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yelp_forms
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

from sentattn.data.datasets.yelp import YelpSource
from sentattn.errors import DataError


@pytest.fixture(params=FORMS)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return FORMS[request.param](tmp_path, REVIEWS)


def test_only_yelp_review_full_has_its_own_test_rows(written: Path) -> None:
    source = YelpSource(written, written.parent / "cache")
    assert source.splits in (("train",), ("train", "test"))
    assert ("test" in source.splits) == (written.suffix == ".tgz" or written.name in ("yelp_review_full_csv", "hub"))
    assert source.ordered
    assert source.labels[0] == "1 star"


def test_other_files_of_the_open_dataset_are_ignored(tmp_path: Path) -> None:
    others = {f"yelp_academic_dataset_{name}.json": b"{}" for name in ("business", "checkin", "tip", "user")}
    members = {**others, "yelp_academic_dataset_review.json": json_lines(REVIEWS)}
    for name, content in members.items():
        write_file(tmp_path, f"folder/{name}", content)
    assert rows(tmp_path / "folder") == ROWS


def test_fingerprint_follows_the_content(written: Path) -> None:
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
