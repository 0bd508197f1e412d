"""Files as streams, from archives or on their own."""

from __future__ import annotations

import bz2
import errno
import gzip
import os
from pathlib import Path

import pytest
from refusals import assert_refused, fault_of
from yelp_forms import write_file, write_tar

from sentattn.data.cache import no_progress
from sentattn.data.readers.archives import existing, open_file, reading, unpacked

HINT = "Give another."
KEY = "data.path"


def content(path: Path) -> bytes:
    with reading(path, KEY, HINT), open_file(path) as stream:
        return bytes(stream.read())


def test_the_ending_determines_the_compression(tmp_path: Path) -> None:
    for name, packed in (("a", b"text"), ("a.GZ", gzip.compress(b"text")), ("a.bz2", bz2.compress(b"text"))):
        assert content(write_file(tmp_path, name, packed)) == b"text"


def test_a_tar_is_unpacked_whatever_its_name(tmp_path: Path) -> None:
    tar = write_tar(tmp_path, {"a/one.txt": b"1"}, "tar.json")
    for file in (tar, write_file(tmp_path, "bz2", bz2.compress(gzip.decompress(tar.read_bytes())))):
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
    assert_refused(lambda: content(tmp_path / "none"), KEY, "unreadable", os.strerror(errno.ENOENT), HINT)


def test_a_missing_file_gets_a_suggestion(tmp_path: Path) -> None:
    write_file(tmp_path, "reviews.csv", b"")
    fault = fault_of(lambda: existing(tmp_path / "review.csv", KEY, HINT))
    assert (fault.key, fault.kind) == (KEY, "not_found")
    assert "'reviews.csv'? Give another." in fault.message


def test_other_exceptions_are_raised_unchanged(tmp_path: Path) -> None:
    with pytest.raises(KeyError), reading(tmp_path, KEY, HINT):
        raise KeyError
