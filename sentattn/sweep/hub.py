"""The owner's end of the channels: whoever connects says which trial it is, and then what that trial has to tell."""

from __future__ import annotations

import json
import selectors
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

CHUNK = 1 << 16
Message = dict[str, Any]


class Hub:
    """Listens to all trials.

    Args:
        selector: Is told of every connection, so that whoever waits on it wakes up for them.

    Attributes:
        address: Path of the socket; in a folder of its own, since such a path must be short.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="sentattn-"))
        self.address = str(self._folder / "owner")
        self._selector = selector
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(self.address)
        self._door.listen(128)
        self._door.setblocking(False)
        selector.register(self._door, selectors.EVENT_READ)
        self._unread: dict[socket.socket, bytes] = {}
        self._keys: dict[socket.socket, str] = {}

    def __enter__(self) -> Hub:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in [*self._unread]:
            self._hang_up(connection)
        self._selector.unregister(self._door)
        self._door.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def heard(self) -> Iterator[tuple[str, Message]]:
        """Yields what trials have told since the last time, by their key; a line that broke off is no message."""
        while True:
            try:
                connection, _ = self._door.accept()
            except BlockingIOError:
                break
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ)
            self._unread[connection] = b""
        for connection in [*self._unread]:
            for message in self._messages(connection):
                if "trial" in message:
                    self._keys[connection] = message["trial"]
                elif connection in self._keys:
                    yield self._keys[connection], message

    def answer(self, key: str, **what: Any) -> None:
        """Answers a trial that waits; one that has died meanwhile needs no answer."""
        for connection, owner in [*self._keys.items()]:
            if owner == key:
                try:
                    connection.sendall(json.dumps(what).encode() + b"\n")
                except OSError:
                    self._hang_up(connection)

    def _messages(self, connection: socket.socket) -> Iterator[Message]:
        while connection in self._unread:  # whoever takes the messages may find in between that it is dead
            try:
                chunk = connection.recv(CHUNK)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""
            if not chunk:
                self._hang_up(connection)
                return
            *lines, self._unread[connection] = (self._unread[connection] + chunk).split(b"\n")
            yield from filter(None, map(_message, lines))

    def _hang_up(self, connection: socket.socket) -> None:
        del self._unread[connection]
        self._keys.pop(connection, None)
        self._selector.unregister(connection)
        connection.close()


def _message(line: bytes) -> Message | None:
    """What a line says, or None if it says nothing."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
