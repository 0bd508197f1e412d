"""`python -m sentattn.cache`: entries with size and last use; deletion."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from filelock import FileLock

from sentattn.cache import main

DAY = 24 * 3600


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with states that were used now, and a corpus and vectors that were not used for 40 days."""
    states = tmp_path / "states-1"
    states.mkdir()
    (states / "meta.json").write_text('{"width": 4, "description": "some-encoder, layer -1"}')
    (states / "states-0.bin").write_bytes(b"0" * 3_000_000)
    corpus = tmp_path / "demo-1"
    corpus.mkdir()
    (corpus / "meta.json").write_text('{"format": 2, "splits": {}}')
    (corpus / "tokens.bin").write_bytes(b"0" * 100)
    (tmp_path / "demo-1.lock").touch()
    (tmp_path / "vectors-1.safetensors").write_bytes(b"0" * 10)
    old = time.time() - 40 * DAY
    for file in (corpus / "tokens.bin", tmp_path / "vectors-1.safetensors"):
        os.utime(file, (old, old))
    monkeypatch.setenv("SENTATTN_CACHE", str(tmp_path))
    return tmp_path


def names(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock")


def test_entries_are_listed_the_largest_first(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["states-1", "demo-1", "vectors-1.safetensors"]
    assert "3.0 MB" in lines[2]
    assert "some-encoder" in lines[2]


def test_delete_by_name(cache: Path) -> None:
    assert main(["delete=demo-1"]) == 0
    assert names(cache) == ["states-1", "vectors-1.safetensors"]
    assert not (cache / "demo-1.lock").exists()


def test_delete_all_whatever_the_clock_of_a_file_server_says(cache: Path) -> None:
    os.utime(cache / "states-1" / "states-0.bin", (time.time() + DAY, time.time() + DAY))
    assert main(["delete=all"]) == 0
    assert names(cache) == []


def test_an_entry_that_is_being_written_is_kept(cache: Path) -> None:
    with FileLock(cache / "states-1" / "states-0.bin.lock"):
        assert main(["delete=all"]) == 0
    assert names(cache) == ["states-1"]


@pytest.mark.parametrize("arguments", [["delete=nothing"], ["delete=states"], ["older=30d"]])
def test_refusals_delete_nothing(cache: Path, arguments: list[str]) -> None:
    assert main(arguments) == 2
    assert len(names(cache)) == 3


def test_an_empty_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"cache_dir={tmp_path / 'none'}"]) == 0
    assert "0 bytes" in capsys.readouterr().out
