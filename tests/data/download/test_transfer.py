"""What may befall a connection: cut, stalled, refused, answered with something else."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
from file_server import Answer, Server, serving
from hypothesis import given, settings
from hypothesis import strategies as st
from remote_file import CONTENT, HALF, IMPATIENT, NAME, SHA256, SIZE, get, left, refusal

from sentattn.data.download import transfer
from sentattn.data.download.fetching import fetch
from sentattn.data.download.registry import REMOTE, Remote
from sentattn.data.download.transfer import Patience
from sentattn.errors import DataError


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
