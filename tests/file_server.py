"""A server on the loopback interface that behaves well or badly, request by request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread


@dataclass(frozen=True)
class Answer:
    """How one request is answered.

    Attributes:
        status: HTTP status; 0 closes without an answer.
        content: The file, or None for that of the server.
        encoding: What the content is said to be encoded with.
        cut: Number of bytes after which the connection is closed.
        stall: Number of bytes after which nothing more comes; -1 stalls before the head.
        hold: Whether nothing of the content comes before the server's `go` is set.
    """

    status: int = 200
    content: bytes | None = None
    encoding: str | None = None
    cut: int | None = None
    stall: int | None = None
    hold: bool = False


class Server(ThreadingHTTPServer):
    """Serves one content under every path.

    Attributes:
        answers: How the next requests are answered; the last answer is that of all further ones.
        requests: Path of each request so far.
        go: Releases answers that are held.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = content
        self.answers = [Answer()]
        self.requests: list[str] = []
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
        self.server.requests.append(self.path)
        answer = self.server.next_answer()
        if answer.stall == -1:
            self.server.closed.wait()
            return
        if answer.status == 0:
            return
        body = self.server.content if answer.content is None else answer.content
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(body)))
        if answer.encoding:
            self.send_header("Content-Encoding", answer.encoding)
        self.end_headers()
        if answer.hold:
            self.server.go.wait()
        self.wfile.write(body[: answer.cut] if answer.stall is None else body[: answer.stall])
        if answer.stall is not None:
            self.server.closed.wait()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        pass
