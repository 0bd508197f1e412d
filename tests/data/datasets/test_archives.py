"""Files as streams, from archives or on their own."""

from __future__ import annotations

import bz2
import gzip
import tarfile
from pathlib import Path

import pytest
from yelp_forms import write_file, write_tar, write_zip

from sentattn.data.datasets.archives import container, opened, readable, tar_files
from sentattn.errors import DataError

HINT = "Give another."


def content(path: Path, member: str = "") -> bytes:
    with opened(path, member, HINT) as stream:
        assert stream.peek(1)
        return stream.read()


def test_a_file_is_what_its_content_is(tmp_path: Path) -> None:
    tar = write_tar(tmp_path, {"a/one.txt": b"1"}, "tar.json")
    files = {
        "plain": write_file(tmp_path, "plain.zip", b"text"),
        "gzip": write_file(tmp_path, "gzip.tgz", gzip.compress(b"text")),
        "zip": write_zip(tmp_path, {"a/one.txt": b"1"}, "zip.tar"),
        "tar": write_file(tmp_path, "bz2", bz2.compress(gzip.decompress(tar.read_bytes()))),
    }
    assert {kind: container(file) for kind, file in files.items()} == {kind: kind for kind in files}
    assert container(tar) == "tar"
    assert container(write_file(tmp_path, "empty.zip", b"")) == "plain"
    assert content(files["plain"]) == content(files["gzip"]) == b"text"
    assert content(files["zip"], "a/one.txt") == content(files["tar"], "one.txt") == content(tar, "one.txt") == b"1"


def test_damage_behind_a_member_is_told_as_well(tmp_path: Path) -> None:
    path = write_tar(tmp_path, {"one.txt": b"1", "two.txt": bytes(range(256)) * 1000})
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DataError, match=r"tgz cannot be read to its end \(.+\); it is damaged or .* Give another\."):
        content(path, "one.txt")


def test_a_file_that_cannot_be_opened_is_told_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none cannot be read \(No such file or directory\)\. Give another\."):
        content(tmp_path / "none")


def test_a_missing_member_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"tgz holds no two\.txt\. Give another\."):
        content(write_tar(tmp_path, {"one.txt": b"1"}), "two.txt")


@pytest.mark.parametrize("name", ["../one.txt", "/one.txt"])
def test_members_that_leave_the_archive_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="would leave the archive"):
        list(tar_files(write_tar(tmp_path, {name: b"1"}), HINT))


def test_faults_of_ours_are_not_taken_for_damage(tmp_path: Path) -> None:
    with pytest.raises(KeyError), readable(tmp_path, HINT):
        raise KeyError


def test_folders_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    (tmp_path / "inner").mkdir()
    write_file(tmp_path, "inner/one.txt", b"1")
    with tarfile.open(path, "w") as archive:
        archive.add(tmp_path / "inner", "inner")
    assert [(name, file.read()) for name, file in tar_files(path, HINT)] == [("inner/one.txt", b"1")]
