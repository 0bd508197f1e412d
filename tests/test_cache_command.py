"""`python -m sentattn.cache`: entries with size and last use; deletion."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from filelock import FileLock

from sentattn.cache import main

DAY = 24 * 3600
STATES, CORPUS = "states-0123456789abcdef", "demo-0123456789abcdef"
VECTORS = "vectors-0123456789abcdef.safetensors"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with states that were used now, and a corpus and vectors that were not used for 40 days."""
    states = tmp_path / STATES
    states.mkdir()
    (states / "meta.json").write_text('{"width": 4, "description": "some-encoder"}')
    (states / "states-0.bin").write_bytes(b"0" * 3_000_000)
    corpus = tmp_path / CORPUS
    corpus.mkdir()
    (corpus / "meta.json").write_text('{"format": 2, "splits": {}}')
    (corpus / "tokens.bin").write_bytes(b"0" * 100)
    (tmp_path / f"{CORPUS}.lock").touch()
    (tmp_path / VECTORS).write_bytes(b"0" * 10)
    old = time.time() - 40 * DAY
    for file in (corpus / "tokens.bin", tmp_path / VECTORS):
        os.utime(file, (old, old))
    monkeypatch.setenv("SENTATTN_CACHE", str(tmp_path))
    return tmp_path


def names(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock")


def test_entries_are_listed_the_largest_first(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:] if line[0] != " "] == [STATES, CORPUS, VECTORS]
    assert "3.0 MB" in lines[2]
    assert lines[2].endswith("some-encoder")
    (cache / STATES / "meta.json").write_text("[]")
    assert main([]) == 0
    assert STATES in capsys.readouterr().out


def test_delete_by_name(cache: Path) -> None:
    assert main([f"delete={CORPUS}"]) == 0
    assert names(cache) == [STATES, VECTORS]
    assert not (cache / f"{CORPUS}.lock").exists()


def test_what_a_process_writes_is_kept(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace = cache / f".{CORPUS}.ac1c43fad877224e"
    workspace.mkdir()
    with FileLock(cache / f"{CORPUS}.lock"):
        assert main(["delete=all"]) == 0
        assert names(cache) == [workspace.name, CORPUS]
    assert main(["delete=all"]) == 0
    assert names(cache) == []


def test_delete_all_whatever_the_clock_of_a_file_server_says(cache: Path) -> None:
    os.utime(cache / STATES / "states-0.bin", (time.time() + DAY, time.time() + DAY))
    assert main(["delete=all"]) == 0
    assert names(cache) == []


def test_an_entry_that_is_being_written_is_kept(cache: Path) -> None:
    with FileLock(cache / STATES / "states-0.bin.lock"):
        assert main(["delete=all"]) == 0
    assert names(cache) == [STATES]


@pytest.mark.parametrize("arguments", [["delete=nothing"], ["delete=states"], ["older=30d"]])
def test_refusals_delete_nothing(cache: Path, arguments: list[str]) -> None:
    assert main(arguments) == 2
    assert len(names(cache)) == 3


def test_an_empty_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"cache_dir={tmp_path / 'none'}"]) == 0
    assert "0 bytes" in capsys.readouterr().out


def test_files_that_are_no_entries_are_neither_listed_nor_deleted(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (cache / "thesis").mkdir()
    (cache / ".git").mkdir()
    (cache / "rows-2024.csv").touch()
    assert main([]) == 0
    assert "thesis" not in capsys.readouterr().out
    assert main(["delete=thesis"]) == 2
    assert main(["delete=all"]) == 0
    assert names(cache) == [".git", "rows-2024.csv", "thesis"]


def test_downloads_and_leftovers_of_killed_processes_are_entries(cache: Path) -> None:
    (cache / "downloads").mkdir()
    (cache / f".{CORPUS}.0123").mkdir()
    assert main(["delete=all"]) == 0
    assert names(cache) == []
