"""A server with a file that is downloaded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from file_server import Server, serving
from remote_file import CONTENT, NAME, SHA256, SIZE

from sentattn.data.download.registry import REMOTE, Remote


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(CONTENT) as server:
        yield server


@pytest.fixture(autouse=True)
def remote(server: Server, monkeypatch: pytest.MonkeyPatch) -> Remote:
    remote = Remote(f"{server.address}/official/{NAME}", SIZE, SHA256, "data.path")
    monkeypatch.setitem(REMOTE, NAME, remote)
    return remote
