"""Downloads from a server on the loopback interface: once, checked, from a mirror, by two processes."""

from __future__ import annotations

import hashlib
import select
import subprocess
import sys
from pathlib import Path

import pytest
from file_server import Answer, Server
from remote_file import CONTENT, HALF, NAME, SHA256, SIZE, get, left, refusal

from sentattn.data.download import checksums
from sentattn.data.download.fetching import fetch
from sentattn.data.download.registry import REMOTE, Remote


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
