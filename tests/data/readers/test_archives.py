"""Files as streams, from archives or on their own."""

from __future__ import annotations

import bz2
import errno
import gzip
import os
from pathlib import Path

import pytest
from refusals import assert_refused
from yelp_forms import write_file, write_tar

from sentattn.data.cache import no_progress
from sentattn.data.readers.archives import open_file, reading, unpacked

HINT = "Give another."
KEY = "data.path"


def content(path: Path) -> bytes:
    with reading(path, KEY, HINT), open_file(path) as stream:
        return bytes(stream.read())


def test_a_tar_is_unpacked_whatever_its_name(tmp_path: Path) -> None:
    tar = write_tar(tmp_path, {"a/one.txt": b"1"}, "tar.json")
    for file in (tar, write_file(tmp_path, "bz2", bz2.compress(gzip.decompress(tar.read_bytes())))):
        folder = unpacked(file, tmp_path / "cache", KEY, HINT, no_progress)
        assert (folder / "a" / "one.txt").read_bytes() == b"1"


def test_a_missing_file_is_reported_with_the_reason(tmp_path: Path) -> None:
    assert_refused(lambda: content(tmp_path / "none"), KEY, "unreadable", os.strerror(errno.ENOENT), HINT)


def test_other_exceptions_are_raised_unchanged(tmp_path: Path) -> None:
    with pytest.raises(KeyError), reading(tmp_path, KEY, HINT):
        raise KeyError
