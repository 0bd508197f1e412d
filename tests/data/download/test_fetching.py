"""Downloads from a server on the loopback interface: whole, cut, stalled, wrong, mirrored."""

from __future__ import annotations

import gzip
import hashlib
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_server import Answer, Server, serving
from hypothesis import given, settings
from hypothesis import strategies as st

from sentattn.data.download import checksums, transfer
from sentattn.data.download.fetching import fetch
from sentattn.data.download.registry import REMOTE, Remote
from sentattn.data.download.transfer import Patience
from sentattn.errors import DataError

NAME = "reviews.tar.gz"
CONTENT = gzip.compress(b"a film, a play; " * 1000) + bytes(range(256)) * 1000
SIZE, HALF = len(CONTENT), len(CONTENT) // 2
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NO_WAITS = Patience(waits=(0.0, 0.0))
IMPATIENT = Patience(silence=0.5, waits=(0.0,))


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(CONTENT) as server:
        yield server


@pytest.fixture(autouse=True)
def remote(server: Server, monkeypatch: pytest.MonkeyPatch) -> Remote:
    remote = Remote(f"{server.address}/official/{NAME}", SIZE, SHA256, "data.path")
    monkeypatch.setitem(REMOTE, NAME, remote)
    return remote


def left(cache: Path) -> set[str]:
    """Names of the files in the folder of downloads, without those of locks and checks."""
    return {file.name for file in (cache / "downloads").iterdir() if file.suffix not in (".lock", ".verified")}


def get(cache: Path, patience: Patience = NO_WAITS) -> bytes:
    return fetch(NAME, folder=cache, patience=patience).read_bytes()


def refusal(cache: Path, **how: object) -> str:
    with pytest.raises(DataError) as caught:
        fetch(NAME, folder=cache, **{"patience": NO_WAITS, **how})  # type: ignore[arg-type]
    return str(caught.value)


def test_a_file_comes_whole_and_once(server: Server, tmp_path: Path) -> None:
    assert get(tmp_path) == get(tmp_path) == CONTENT
    assert server.asked == [(f"/official/{NAME}", None)]
    assert left(tmp_path) == {NAME}


def test_progress_is_told_in_megabytes(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server.content = bytes(2_500_000)
    digest = hashlib.sha256(server.content).hexdigest()
    monkeypatch.setitem(REMOTE, NAME, Remote(f"{server.address}/{NAME}", 2_500_000, digest, "data.path"))
    told: list[tuple[str, int, int | None]] = []
    fetch(NAME, folder=tmp_path, progress=lambda *args: told.append(args))
    assert {(stage, total) for stage, _, total in told} == {(f"Downloading {NAME} (MB)", 2)}
    assert sorted({done for _, done, _ in told}) == [0, 1, 2]


def test_a_file_at_hand_is_checked_once_and_again_when_it_has_changed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "downloads" / NAME
    file.parent.mkdir()
    file.write_bytes(CONTENT)
    assert fetch(NAME, folder=tmp_path) == file
    with monkeypatch.context() as patch:
        patch.setattr(checksums, "_sha256", lambda file: pytest.fail("checked again"))
        assert fetch(NAME, folder=tmp_path) == file
    assert server.asked == []
    file.write_bytes(bytes(SIZE))
    assert get(tmp_path) == CONTENT
    assert len(server.asked) == 1


def test_a_cut_connection_is_taken_up_where_it_was_cut(server: Server, tmp_path: Path) -> None:
    server.answers = [Answer(cut=HALF), Answer()]
    assert get(tmp_path) == CONTENT
    assert [part for _, part in server.asked] == [None, f"bytes={HALF}-"]
    assert left(tmp_path) == {NAME}


def test_what_came_before_the_last_try_is_kept_for_the_next_start(
    server: Server, remote: Remote, tmp_path: Path
) -> None:
    server.answers = [Answer(cut=100)]
    sentence = refusal(tmp_path)
    assert sentence.startswith(f"{NAME} cannot be downloaded from 127.0.0.1:")
    assert f"the connection was cut. The 300 of {SIZE:,} bytes that came are kept" in sentence
    assert f"Fetch {remote.address} by hand and type data.path=FILE" in sentence
    assert left(tmp_path) == {f"{NAME}.part"}
    server.answers = [Answer()]
    assert get(tmp_path) == CONTENT
    assert [part for _, part in server.asked] == [None, "bytes=100-", "bytes=200-", "bytes=300-"]


def test_a_server_without_ranges_starts_again(server: Server, tmp_path: Path) -> None:
    server.answers = [Answer(cut=HALF), Answer(ranges=False)]
    assert get(tmp_path) == CONTENT
    assert [part for _, part in server.asked] == [None, f"bytes={HALF}-"]


ANSWERS = st.builds(
    Answer, cut=st.integers(0, SIZE), ranges=st.booleans(), says_length=st.booleans(), piece=st.integers(10_000, SIZE)
)


@settings(max_examples=25)
@given(answers=st.lists(ANSWERS, max_size=4))
def test_whatever_befalls_the_connection_the_file_is_right(answers: list[Answer]) -> None:
    with serving(CONTENT) as server, tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setitem(REMOTE, NAME, Remote(f"{server.address}/{NAME}", SIZE, SHA256, "data.path"))
        server.answers = [*answers, Answer()]
        assert get(Path(folder), Patience(waits=(0.0,) * 4)) == CONTENT


def test_waits_grow(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers = [Answer(status=503)]
    told: list[str] = []
    waits: list[float] = []
    monkeypatch.setattr(transfer.time, "sleep", waits.append)
    with pytest.raises(DataError, match="it answers 503 Service Unavailable"):
        fetch(NAME, folder=tmp_path, progress=lambda stage, done, total: told.append(stage))
    assert waits == [1, 2, 4, 8]
    assert told[0] == f"Downloading {NAME} (MB): it answers 503 Service Unavailable; trying again in 1 s"


def test_a_fault_of_the_server_may_pass(server: Server, tmp_path: Path) -> None:
    server.answers = [Answer(status=500), Answer(status=429), Answer()]
    assert get(tmp_path) == CONTENT


def test_a_server_that_hangs_up_before_it_answers_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.answers = [Answer(status=0), Answer()]
    assert get(tmp_path) == CONTENT


@pytest.mark.parametrize("status", [403, 404, 410])
def test_a_missing_file_is_not_asked_for_again(server: Server, tmp_path: Path, status: int) -> None:
    server.answers = [Answer(status=status)]
    assert f"it answers {status} " in refusal(tmp_path)
    assert len(server.asked) == 1
    assert left(tmp_path) == set()


def test_another_checksum_is_refused_after_a_second_try(server: Server, tmp_path: Path) -> None:
    server.answers = [Answer(content=bytes(SIZE))]
    sentence = refusal(tmp_path)
    assert f"is not the official {NAME}" in sentence
    assert SHA256 in sentence
    assert hashlib.sha256(bytes(SIZE)).hexdigest() in sentence
    assert "fetch it by hand and type data.path=FILE" in sentence
    assert [part for _, part in server.asked] == [None, None]
    assert left(tmp_path) == set()


def test_a_damaged_part_is_fetched_from_its_start(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "downloads" / f"{NAME}.part"
    part.parent.mkdir()
    part.write_bytes(bytes(HALF))
    assert get(tmp_path) == CONTENT
    assert [part for _, part in server.asked] == [f"bytes={HALF}-", None]


@pytest.mark.parametrize("content", [CONTENT + b"x", CONTENT[:-1], b"<html>Log in first</html>"])
def test_another_length_is_refused_before_anything_is_read(server: Server, tmp_path: Path, content: bytes) -> None:
    server.answers = [Answer(content=content, stall=0)]
    assert f"it has {len(content):,} bytes instead of {SIZE:,}" in refusal(tmp_path, patience=IMPATIENT)
    assert left(tmp_path) == set()


def test_too_many_bytes_are_not_written_to_their_end(server: Server, tmp_path: Path) -> None:
    server.answers = [Answer(content=CONTENT + bytes(1 << 20), says_length=False)]
    assert f"it is longer than {SIZE:,} bytes" in refusal(tmp_path)
    assert left(tmp_path) == set()


def test_a_part_longer_than_the_file_of_the_server_is_dropped(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "downloads" / f"{NAME}.part"
    part.parent.mkdir()
    part.write_bytes(bytes(SIZE + 1))
    assert get(tmp_path) == CONTENT
    assert len(server.asked) == 2


@pytest.mark.parametrize("given_range", ["bytes 5-9/10", "lines 1-2/3", f"bytes 7-{SIZE - 1}/{SIZE}"])
def test_a_part_that_was_not_asked_for_is_not_taken(server: Server, tmp_path: Path, given_range: str) -> None:
    server.answers = [Answer(cut=HALF), Answer(content_range=given_range), Answer()]
    assert get(tmp_path) == CONTENT
    assert [part for _, part in server.asked] == [None, f"bytes={HALF}-", None]


def test_the_compression_of_an_archive_is_not_undone(server: Server, tmp_path: Path) -> None:
    server.answers = [Answer(encoding="gzip")]
    assert get(tmp_path) == CONTENT


def test_a_slow_server_is_waited_for(server: Server, tmp_path: Path) -> None:
    server.answers = [Answer(pause=0.06, piece=SIZE // 10)]
    started = time.monotonic()
    assert get(tmp_path, IMPATIENT) == CONTENT
    assert time.monotonic() - started > IMPATIENT.silence
    assert len(server.asked) == 1


@pytest.mark.parametrize(("stall", "reason"), [(HALF, "nothing more comes"), (-1, r"it says nothing for 0\.5 s")])
def test_a_silent_server_is_given_up(server: Server, tmp_path: Path, stall: int, reason: str) -> None:
    server.answers = [Answer(stall=stall)]
    with pytest.raises(DataError, match=reason):
        get(tmp_path, IMPATIENT._replace(waits=()))


def test_a_silent_server_is_asked_again_for_the_rest(server: Server, tmp_path: Path) -> None:
    server.answers = [Answer(stall=HALF), Answer()]
    assert get(tmp_path, IMPATIENT) == CONTENT
    rest = server.asked[1][1]
    assert rest is not None
    assert 0 < int(rest.removeprefix("bytes=").removesuffix("-")) <= HALF


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "http://reviews.invalid"])
def test_without_a_connection_the_refusal_comes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: Remote, address: str
) -> None:
    monkeypatch.setattr(transfer.time, "sleep", lambda wait: pytest.fail("waited"))
    sentence = refusal(tmp_path, mirror=address)
    assert sentence == (
        f"{NAME} cannot be downloaded from {address.removeprefix('http://')}: it cannot be reached. "
        f"Fetch {remote.address} by hand and type data.path=FILE, or name a server or a folder that has it with "
        "data.mirror=PLACE."
    )


def test_a_server_that_goes_away_meanwhile_is_tried_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers = [Answer(cut=HALF)]
    waits: list[float] = []

    def close(wait: float) -> None:
        waits.append(wait)
        server.shutdown()
        server.server_close()

    monkeypatch.setattr(transfer.time, "sleep", close)
    assert "it cannot be reached. The" in refusal(tmp_path, patience=Patience())
    assert waits == [1, 2, 4, 8]


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_mirror_is_an_address(server: Server, tmp_path: Path, slash: str) -> None:
    file = fetch(NAME, folder=tmp_path, mirror=f"{server.address}/copies{slash}")
    assert file.read_bytes() == CONTENT
    assert server.asked == [(f"/copies/{NAME}", None)]


def test_a_mirror_may_be_a_folder_whose_files_stay_there(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / NAME).write_bytes(CONTENT)
    monkeypatch.setenv("HOME", str(tmp_path))
    for mirror in (str(tmp_path / "copies"), "~/copies/"):
        assert fetch(NAME, folder=tmp_path / "cache", mirror=mirror) == tmp_path / "copies" / NAME
        monkeypatch.setattr(checksums, "_sha256", lambda file: pytest.fail("checked again"))
    assert server.asked == []


@pytest.mark.parametrize(
    ("mirror", "parts"),
    [
        ("{tmp}/none", ["there is no such folder", "https://"]),
        ("{tmp}/empty", ["has no reviews.tar.gz. Fetch http://"]),
        ("{tmp}/alike", ["Did you mean 'review.tar.gz'?"]),
        ("{tmp}/short", ["short/reviews.tar.gz is not the official", "it has 3 bytes instead of", f"short/{NAME}."]),
        ("{tmp}/other", ["its SHA-256 is", SHA256, "type data.path={tmp}"]),
        ("ftp://here", ["data.mirror=ftp://here is neither a folder nor an address"]),
        ("http://[", ["data.mirror=http://[ is neither a folder nor an address"]),
        ("http://", ["data.mirror=http:// is neither a folder nor an address"]),
    ],
)
def test_faulty_mirrors(tmp_path: Path, mirror: str, parts: list[str]) -> None:
    for name, file, content in [
        ("empty", None, b""),
        ("alike", "review.tar.gz", b"abc"),
        ("short", NAME, b"abc"),
        ("other", NAME, bytes(SIZE)),
    ]:
        (tmp_path / name).mkdir()
        if file:
            (tmp_path / name / file).write_bytes(content)
    sentence = refusal(tmp_path / "cache", mirror=mirror.format(tmp=tmp_path))
    assert [part for part in parts if part.format(tmp=tmp_path) not in sentence] == []


def test_a_cache_that_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    sentence = refusal(tmp_path / "file" / "cache")
    assert str(tmp_path / "file") in sentence
    assert "data.cache_dir=FOLDER" in sentence


def test_a_file_in_a_folder_that_cannot_be_written_is_used(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "downloads" / NAME
    (tmp_path / "downloads" / f"{NAME}.verified").mkdir(parents=True)  # in the way of the note
    file.write_bytes(CONTENT)
    assert fetch(NAME, folder=tmp_path) == file
    assert server.asked == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_is_told(tmp_path: Path) -> None:
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / f"{NAME}.part").symlink_to("/dev/full")
    assert "(the disk is full)" in refusal(tmp_path)
    assert NAME not in left(tmp_path)


def test_an_interrupted_download_goes_on_at_the_next_start(server: Server, tmp_path: Path) -> None:
    def interrupt(stage: str, done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(NAME, folder=tmp_path, progress=interrupt)
    assert left(tmp_path) == {f"{NAME}.part"}
    size = (tmp_path / "downloads" / f"{NAME}.part").stat().st_size
    assert size > 0
    assert get(tmp_path) == CONTENT
    assert server.asked[1][1] == f"bytes={size}-"


PROCESS = """
import sys
from pathlib import Path
from sentattn.data.download.fetching import fetch
from sentattn.data.download.registry import REMOTE, Remote

name, address, size, sha256, folder = sys.argv[1:]
REMOTE[name] = Remote(address, int(size), sha256, "data.path")
print(fetch(name, folder=Path(folder), progress=lambda stage, done, total: print(stage, flush=True)))
"""


def test_two_processes_download_once(server: Server, remote: Remote, tmp_path: Path) -> None:
    server.answers = [Answer(hold=True)]
    command = [sys.executable, "-c", PROCESS, NAME, remote.address, str(SIZE), SHA256, str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    readable, _, _ = select.select([process.stdout for process in both], [], [], 60)
    assert readable[0].readline().startswith("Waiting for another process")
    server.go.set()
    said = [process.communicate(timeout=60)[0].splitlines()[-1] for process in both]
    assert said == [str(tmp_path / "downloads" / NAME)] * 2
    assert len(server.asked) == 1


@pytest.mark.parametrize("name", sorted(set(REMOTE) - {NAME}))
def test_the_registry(name: str) -> None:
    remote = REMOTE[name]
    assert remote.address.startswith("https://")
    assert remote.address.endswith(f"/{name}")
    assert len(bytes.fromhex(remote.sha256)) == 32
    assert remote.setting == ("data.vectors" if name.startswith("glove.") else "data.path")
