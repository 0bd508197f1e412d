"""A server on the loopback interface that behaves well or badly, request by request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread


@dataclass(frozen=True)
class Answer:
    """How one request is answered.

    Attributes:
        status: HTTP status; 200 also stands for 206 where a part was asked for, and 0 closes without an answer.
        content: The file, or None for that of the server.
        ranges: Whether a part is sent where one was asked for.
        content_range: Replaces the header that says which part it is.
        says_length: Whether the length is announced.
        encoding: What the content is said to be encoded with.
        cut: Number of bytes after which the connection is closed.
        stall: Number of bytes after which nothing more comes; -1 stalls before the head.
        hold: Whether nothing of the content comes before the server's `go` is set.
        pause: Seconds between two pieces.
        piece: Bytes a piece.
    """

    status: int = 200
    content: bytes | None = None
    ranges: bool = True
    content_range: str | None = None
    says_length: bool = True
    encoding: str | None = None
    cut: int | None = None
    stall: int | None = None
    hold: bool = False
    pause: float = 0.0
    piece: int = 1 << 16


class Server(ThreadingHTTPServer):
    """Serves one content under every path.

    Attributes:
        answers: How the next requests are answered; the last answer is that of all further ones.
        asked: Path and `Range` of each request so far.
        go: Lets answers go on that are held.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = content
        self.answers = [Answer()]
        self.asked: list[tuple[str, str | None]] = []
        self.go = Event()
        self.closed = Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def next_answer(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def serving(content: bytes) -> Iterator[Server]:
    with Server(content) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield server
        finally:
            server.closed.set()
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append((self.path, wanted))
        answer = self.server.next_answer()
        if answer.stall == -1:
            self.server.closed.wait()
            return
        if answer.status == 0:
            return
        whole = self.server.content if answer.content is None else answer.content
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and answer.ranges else 0  # type: ignore[index]
        status = answer.status
        if status == 200 and start:
            status = 206 if start < len(whole) else 416
        body = whole[start:] if status in (200, 206) else b""
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", answer.content_range or f"bytes {start}-{len(whole) - 1}/{len(whole)}")
        if answer.says_length:
            self.send_header("Content-Length", str(len(body)))
        if answer.encoding:
            self.send_header("Content-Encoding", answer.encoding)
        self.end_headers()
        self._send(body[: answer.cut] if answer.stall is None else body[: answer.stall], answer)

    def _send(self, body: bytes, answer: Answer) -> None:
        if answer.hold:
            self.server.go.wait()
        for begin in range(0, len(body), answer.piece):
            self.wfile.write(body[begin : begin + answer.piece])
            self.server.closed.wait(answer.pause)
        if answer.stall is not None:
            self.server.closed.wait()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        pass
