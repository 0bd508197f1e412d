"""Corpora are built once, by one process, whole or not at all."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from list_source import ListSource
from refusals import assert_refused, refused
from safetensors import SafetensorError

from sentattn.data.cache import cache_folder, cached, no_progress, sha256, usable
from sentattn.data.corpus import Corpus, Row, open_corpus
from sentattn.data.tokenizer import WordTypes
from sentattn.errors import DataError, Fault

ROWS = {"train": [Row("good film", 1), Row("bad film", 0)]}
FORK = multiprocessing.get_context("fork")


class Slow(ListSource):
    """Tells a process that it is read, and takes its time."""

    def __init__(self, sender: Connection, seconds: float) -> None:
        super().__init__(ROWS)
        self.sender, self.seconds = sender, seconds

    def read(self, split: str) -> Iterator[Row]:
        self.sender.send("reading")
        time.sleep(self.seconds)
        return super().read(split)


class Counted(ListSource):
    """Counts how often it is read."""

    reads = 0

    def read(self, split: str) -> Iterator[Row]:
        self.reads += 1
        return super().read(split)


def opened(source: ListSource, cache: Path, lowercase: bool = True, **settings: Any) -> tuple[Corpus, list[str]]:
    return open_corpus(source, cache, name="given", types=WordTypes(lowercase=lowercase), **settings)


def build(cache: Path, seconds: float, sender: Connection) -> None:
    corpus, _ = opened(Slow(sender, seconds), cache)
    sender.send(corpus.text(0))


def start(cache: Path, seconds: float) -> tuple[ForkProcess, Connection]:
    """Starts a process that builds a corpus; returns it with what it sends."""
    receiver, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=build, args=(cache, seconds, sender))
    process.start()
    sender.close()
    return process, receiver


def heard(process: ForkProcess, receiver: Connection) -> list[str]:
    """Waits for the end of a process; returns what it has sent."""
    process.join(60)
    assert process.exitcode == 0
    words = []
    with suppress(EOFError):
        while True:
            words.append(receiver.recv())
    return words


def corpora(cache: Path) -> list[Path]:
    return [path for path in cache.iterdir() if path.is_dir()]


def test_other_content_and_settings_have_other_corpora(tmp_path: Path) -> None:
    opened(ListSource(ROWS), tmp_path)
    opened(ListSource({"train": [Row("other", 0)]}), tmp_path)
    opened(ListSource(ROWS), tmp_path, lowercase=False)
    assert opened(ListSource(ROWS), tmp_path, limit=1)[0].lengths.tolist() == [2]
    assert len(corpora(tmp_path)) == 4


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "tokens.bin").unlink(),
        lambda folder: _cut(folder / "tokens.bin"),
        lambda folder: _cut(folder / "labels.npy"),
        lambda folder: (folder / "labels.npy").write_bytes(bytes((folder / "labels.npy").stat().st_size)),
        lambda folder: (folder / "meta.json").unlink(),
        lambda folder: (folder / "meta.json").write_text("[]"),
        lambda folder: _cut(folder / "meta.json"),
    ],
)
def test_a_damaged_corpus_is_built_again(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    source = Counted(ROWS)
    built, [first] = opened(source, tmp_path)
    assert str(built.folder) in first
    harm(built.folder)
    corpus, notes = opened(source, tmp_path)
    assert source.reads == 2
    assert corpus.text(0) == "good film"
    assert [f"{corpus.folder} was damaged" in note for note in notes] == [True]
    assert opened(source, tmp_path)[1] == []
    assert source.reads == 2


def test_a_failed_build_leaves_no_corpus(tmp_path: Path) -> None:
    class Failing(ListSource):
        def read(self, split: str) -> Iterator[Row]:
            yield Row("good", 1)
            raise DataError(Fault("rest", "missing", "The rest is missing."))

    assert refused(lambda: opened(Failing(ROWS), tmp_path)) == [("rest", "missing")]
    assert corpora(tmp_path) == []


def test_two_processes_build_once(tmp_path: Path) -> None:
    both = [start(tmp_path, 0.5), start(tmp_path, 0.5)]
    assert sorted(heard(*each) for each in both) == [["good film"], ["reading", "good film"]]
    assert len(corpora(tmp_path)) == 1


def test_a_killed_build_is_not_used(tmp_path: Path) -> None:
    killed, receiver = start(tmp_path, 60)
    assert receiver.recv() == "reading"
    killed.kill()
    killed.join()
    assert [path.name[0] for path in corpora(tmp_path)] == ["."]
    assert heard(*start(tmp_path, 0)) == ["reading", "good film"]
    assert [path.name[:6] for path in corpora(tmp_path)] == ["given-"]


def test_waiting_for_another_process_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentattn.data.cache.LOCK_TIMEOUT", 0.01)
    messages: list[str] = []
    folder = opened(ListSource(ROWS), tmp_path)[0].folder
    (folder / "meta.json").unlink()
    lock = FileLock(tmp_path / f"{folder.name}.lock")
    lock.acquire()

    def report(stage: str, done: int, total: int | None) -> None:
        messages.append(stage)
        lock.release()

    opened(ListSource(ROWS), tmp_path, progress=report)
    assert messages[0].startswith("Waiting for another process")


def test_an_unusable_cache_folder_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    opening = partial(opened, ListSource(ROWS), tmp_path / "file" / "cache")
    assert_refused(opening, "data.cache_dir", "unwritable", "data.cache_dir=FOLDER")


def test_a_corpus_is_pickled_as_its_folder(tmp_path: Path) -> None:
    corpus, _ = opened(ListSource({"train": [Row("word " * 10000, 0)]}), tmp_path)
    pickled = pickle.dumps(corpus)
    assert len(pickled) < 1000
    loaded = pickle.loads(pickled)
    assert isinstance(loaded, Corpus)
    assert loaded.lengths.tolist() == [10000]


def test_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    for name in ("SENTATTN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder(None) == Path("/home/someone/.cache/sentattn")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder(None) == Path("/xdg/sentattn")
    monkeypatch.setenv("SENTATTN_CACHE", "/fast")
    assert cache_folder(None) == Path("/fast")
    assert cache_folder("~/mine") == Path("/home/someone/mine")


# printf abc | sha256sum
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_digest_is_computed_once_while_the_file_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    assert sha256(file) == ABC
    monkeypatch.setattr("hashlib.file_digest", lambda *_: pytest.fail("computed again"))
    assert sha256(file) == ABC
    monkeypatch.undo()
    file.write_bytes(b"abd")
    os.utime(file, ns=(1, 1))
    assert sha256(file) != ABC


@pytest.mark.parametrize(("umask", "rights"), [(0o002, 0o775), (0o077, 0o700)])
def test_permissions_of_a_corpus_follow_the_umask(umask: int, rights: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        corpus, _ = opened(ListSource(ROWS), tmp_path / "cache")
    finally:
        os.umask(before)
    assert corpus.folder.stat().st_mode & 0o777 == rights
    assert {file.stat().st_mode & 0o777 for file in corpus.folder.iterdir()} == {rights & 0o666}


def test_a_full_disk_is_reported_alike_by_all_libraries(tmp_path: Path) -> None:
    @usable(tmp_path)
    def write(error: Exception) -> None:
        raise error

    reason = os.strerror(errno.ENOSPC)
    for error in (OSError(errno.ENOSPC, reason), SafetensorError(reason)):
        assert_refused(partial(write, error), "data.cache_dir", "unwritable", reason)


def test_an_entry_that_vanishes_when_it_is_written_is_refused_with_its_folder(tmp_path: Path) -> None:
    assert refused(lambda: cached(tmp_path / "entry", lambda: None, Path.touch, no_progress)) == [
        ("data.cache_dir", "unwritable")
    ]
