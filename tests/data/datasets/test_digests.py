"""A file's digest: right, and worked out again only where the file has changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sentattn.data.datasets.digests import sha256

# printf abc | sha256sum
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_digest_is_worked_out_once_while_the_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    assert sha256(file) == ABC
    reads: list[Path] = []
    original = Path.open

    def counting(self: Path, *args: object, **options: object) -> object:
        reads.append(self)
        return original(self, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", counting)
    assert sha256(file) == ABC
    assert reads == []
    file.write_bytes(b"abd")
    os.utime(file, ns=(1, 1))
    assert sha256(file) != ABC
    assert reads[-1] == file


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sha256(tmp_path / "none")
