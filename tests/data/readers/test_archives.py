"""Files as streams, from archives or on their own."""

from __future__ import annotations

import bz2
import errno
import gzip
import os
from pathlib import Path

import pytest
from refusals import fault_of
from yelp_forms import write_file, write_tar, write_zip

from sentattn.data.cache import no_progress
from sentattn.data.readers.archives import File, container, existing, reading, unpacked

HINT = "Give another."
KEY = "data.path"


def content(path: Path, member: str = "") -> bytes:
    with File(path, member).open(KEY, HINT) as stream:
        assert stream.peek(1)
        return stream.read()


def test_the_content_determines_the_format(tmp_path: Path) -> None:
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
    assert content(files["zip"], "a/one.txt") == b"1"
    for file in (files["tar"], tar):
        folder = unpacked(file, tmp_path / "cache", KEY, HINT, no_progress)
        assert (folder / "a" / "one.txt").read_bytes() == b"1"


def test_damage_after_the_last_member_is_reported(tmp_path: Path) -> None:
    path = write_tar(tmp_path, {"one.txt": b"1", "two.txt": bytes(range(256)) * 1000})
    path.write_bytes(path.read_bytes()[:-4])
    fault = fault_of(lambda: unpacked(path, tmp_path / "cache", KEY, HINT, no_progress))
    assert fault.kind == "damaged"
    assert fault.message.startswith(f"{path} cannot be read to its end (")
    assert fault.message.endswith(HINT)


def test_a_missing_file_is_reported_with_the_reason(tmp_path: Path) -> None:
    fault = fault_of(lambda: content(tmp_path / "none"))
    assert fault.kind == "unreadable"
    assert os.strerror(errno.ENOENT) in fault.message
    assert fault.message.endswith(HINT)


def test_a_missing_file_gets_a_suggestion(tmp_path: Path) -> None:
    write_file(tmp_path, "reviews.csv", b"")
    fault = fault_of(lambda: existing(tmp_path / "review.csv", KEY, HINT))
    assert (fault.key, fault.kind) == (KEY, "not_found")
    assert "'reviews.csv'? Give another." in fault.message


def test_other_exceptions_are_raised_unchanged(tmp_path: Path) -> None:
    with pytest.raises(KeyError), reading(tmp_path, KEY, HINT):
        raise KeyError
