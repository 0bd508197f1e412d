"""Downloads from a server on the loopback interface: verified, from mirrors, over bad connections, by two at once."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from file_server import Answer, Server, serving
from refusals import assert_refused

from sentattn.data.readers import download
from sentattn.data.readers.download import REGISTRY, RETRIES, STANFORD, URLS, fetch

NAME = "reviews.tar.gz"
CONTENT = gzip.compress(b"a film, a play; " * 1000) + bytes(range(256)) * 1000
OTHER = bytes(len(CONTENT))
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(CONTENT) as server:
        yield server


@pytest.fixture(autouse=True)
def waits(server: Server, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Registers the server's file, and returns the seconds that would have been waited between tries."""
    waits: list[float] = []
    monkeypatch.setitem(REGISTRY, NAME, SHA256)
    monkeypatch.setitem(URLS, NAME, f"{server.address}/official/{NAME}")
    monkeypatch.setattr(download, "TIMEOUT", (5.0, 0.3))
    monkeypatch.setattr("time.sleep", waits.append)
    return waits


def stored(cache: Path) -> set[str]:
    return {file.name for file in (cache / "downloads").iterdir() if file.suffix != ".lock"}


def assert_no_file(cache: Path, key: str, kind: str, *parts: str, mirror: str | None = None) -> None:
    """Asserts how a download is refused, and that it leaves no file."""
    assert_refused(lambda: fetch(NAME, folder=cache, mirror=mirror), key, kind, *parts)
    assert not (cache / "downloads").exists() or stored(cache) == set()


def test_a_file_is_downloaded_once(server: Server, tmp_path: Path) -> None:
    for _ in range(2):
        assert fetch(NAME, folder=tmp_path).read_bytes() == CONTENT
    assert server.requests == [f"/official/{NAME}"]
    assert stored(tmp_path) == {NAME}


def test_permissions_of_a_download_follow_the_umask(server: Server, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        assert fetch(NAME, folder=tmp_path).stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


def test_progress_counts_megabytes_from_zero_with_each_try(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server.content = bytes(2_500_000)
    server.answers = [Answer(cut=2_200_000), Answer()]
    monkeypatch.setitem(REGISTRY, NAME, hashlib.sha256(server.content).hexdigest())
    calls: list[tuple[str, int, int | None]] = []
    fetch(NAME, folder=tmp_path, progress=lambda *args: calls.append(args))
    assert {(stage, total) for stage, _, total in calls} == {(f"Downloading {NAME} (MB)", 2)}
    assert [done for _, done, _ in calls] in ([1, 2, 1, 2, 2], [1, 1, 2, 2])


def test_a_stored_file_that_has_changed_is_downloaded_again(server: Server, tmp_path: Path) -> None:
    file = fetch(NAME, folder=tmp_path)
    file.write_bytes(OTHER)
    assert fetch(NAME, folder=tmp_path).read_bytes() == CONTENT
    assert len(server.requests) == 2


def test_a_file_copied_by_hand_needs_no_server(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "downloads" / NAME
    (tmp_path / "downloads" / f"{NAME}.lock").mkdir(parents=True)  # as if the folder were read-only
    file.write_bytes(CONTENT)
    assert fetch(NAME, folder=tmp_path) == file
    assert server.requests == []


def test_another_checksum_is_refused(server: Server, tmp_path: Path) -> None:
    server.answers = [Answer(content=OTHER)]
    assert_no_file(tmp_path, "data.path", "damaged", SHA256)
    assert len(server.requests) == 1


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_mirror_is_an_address(server: Server, tmp_path: Path, slash: str) -> None:
    assert fetch(NAME, folder=tmp_path, mirror=f"{server.address}/copies{slash}").read_bytes() == CONTENT
    assert server.requests == [f"/copies/{NAME}"]


@pytest.mark.parametrize("mirror", ["{tmp}/copies", "~/copies/"])
def test_a_mirror_may_be_a_folder(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mirror: str) -> None:
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / NAME).write_bytes(CONTENT)
    monkeypatch.setenv("HOME", str(tmp_path))
    file = fetch(NAME, folder=tmp_path / "cache", mirror=mirror.format(tmp=tmp_path))
    assert file.resolve() == tmp_path / "copies" / NAME
    assert fetch(NAME, folder=tmp_path / "cache") == file
    assert server.requests == []
    (tmp_path / "copies" / NAME).unlink()
    assert fetch(NAME, folder=tmp_path / "cache").read_bytes() == CONTENT
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("mirror", "key", "kind", "fragment"),
    [
        ("{tmp}/none", "data.mirror", "not_found", "{tmp}/none/reviews.tar.gz"),
        ("{tmp}/empty", "data.mirror", "not_found", "data.mirror=ADDRESS_OR_FOLDER"),
        ("{tmp}/alike", "data.mirror", "not_found", "Did you mean 'review.tar.gz'?"),
        ("{tmp}/other", "data.path", "damaged", "If you trust it, type data.path={tmp}/other/" + NAME),
        ("ftp://here", "data.mirror", "not_found", "data.mirror=ADDRESS_OR_FOLDER"),
        ("http://[", "data.path", "network", "http://["),
        ("http://", "data.path", "network", "http://"),
    ],
)
def test_faulty_mirrors(tmp_path: Path, mirror: str, key: str, kind: str, fragment: str) -> None:
    for name, file in [("empty", None), ("alike", "review.tar.gz"), ("other", NAME)]:
        (tmp_path / name).mkdir()
        if file:
            (tmp_path / name / file).write_bytes(OTHER)
    mirror, fragment = mirror.format(tmp=tmp_path), fragment.format(tmp=tmp_path)
    assert_no_file(tmp_path / "cache", key, kind, fragment, mirror=mirror)


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("requests.get", full)
    assert_no_file(tmp_path, "data.cache_dir", "unwritable")


@pytest.mark.parametrize(
    "answers",
    [
        [Answer(cut=len(CONTENT) // 2)],
        [Answer(cut=0)],
        [Answer(stall=len(CONTENT) // 2)],
        [Answer(stall=-1)],
        [Answer(status=500), Answer(status=429)],
        [Answer(cut=1), Answer(status=0)],
    ],
)
def test_interrupted_requests_are_retried(
    server: Server, tmp_path: Path, waits: list[float], answers: list[Answer]
) -> None:
    server.answers = [*answers, Answer()]
    assert fetch(NAME, folder=tmp_path).read_bytes() == CONTENT
    assert len(server.requests) == len(answers) + 1
    assert len(waits) >= len(answers)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(Answer(cut=100), "ChunkedEncodingError"), (Answer(status=503), "HTTP status 503 Service Unavailable")],
)
def test_the_reason_is_reported_after_the_last_try(server: Server, tmp_path: Path, answer: Answer, reason: str) -> None:
    server.answers = [answer]
    assert_no_file(tmp_path, "data.path", "network", reason)
    assert len(server.requests) == 1 + RETRIES


@pytest.mark.parametrize("status", [403, 404, 410])
def test_missing_files_are_not_retried(server: Server, tmp_path: Path, status: int) -> None:
    server.answers = [Answer(status=status)]
    assert_no_file(tmp_path, "data.path", "network", f"HTTP status {status} ")
    assert len(server.requests) == 1


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "http://reviews.invalid"])
def test_without_a_network_nothing_is_retried(server: Server, tmp_path: Path, waits: list[float], address: str) -> None:
    parts = (f"{address}/{NAME}", f"{server.address}/official/{NAME}", "data.path=FILE", "data.mirror=")
    assert_no_file(tmp_path, "data.path", "network", *parts, mirror=address)
    assert waits == []


def test_archives_are_stored_compressed(server: Server, tmp_path: Path) -> None:
    server.answers = [Answer(encoding="gzip")]
    assert fetch(NAME, folder=tmp_path).read_bytes() == CONTENT
    assert len(server.requests) == 1


def test_an_interrupted_download_leaves_nothing(server: Server, tmp_path: Path) -> None:
    def interrupt(stage: str, done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(NAME, folder=tmp_path, progress=interrupt)
    assert stored(tmp_path) == set()
    assert fetch(NAME, folder=tmp_path).read_bytes() == CONTENT


def test_two_that_begin_at_once_download_once(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "TIMEOUT", (5.0, 30.0))
    monkeypatch.setattr("sentattn.data.cache.LOCK_TIMEOUT", 0.01)
    server.answers = [Answer(hold=True)]

    def report(stage: str, done: int, total: int | None) -> None:
        if stage.startswith("Waiting for another process"):
            server.go.set()

    with ThreadPoolExecutor() as pool:
        both = [pool.submit(fetch, NAME, folder=tmp_path, progress=report) for _ in range(2)]
    assert [one.result() for one in both] == [tmp_path / "downloads" / NAME] * 2
    assert len(server.requests) == 1


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_the_registry(name: str) -> None:
    assert URLS.get(name, STANFORD + name).startswith("https://")
    assert URLS.get(name, STANFORD + name).endswith(f"/{name}")
    assert len(bytes.fromhex(REGISTRY[name])) == 32
