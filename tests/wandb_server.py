"""A stand-in for W&B's server on the loopback interface: it receives what W&B uploads, or fails."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any, Literal

import pytest

Mood = Literal["good", "wrong key", "nonsense", "silent", "dead"]
UNREACHABLE = "http://127.0.0.1:9"
PROJECT = {"id": "project", "name": "sentattn", "entity": {"id": "entity", "name": "someone"}}


@dataclass
class Uploaded:
    """What was uploaded of a run.

    Attributes:
        arguments: What the run was opened with.
        history: Its rows.
        files: Names of its files.
        complete: Whether its end was reported.
    """

    arguments: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    complete: bool = False


class Server(ThreadingHTTPServer):
    """Serves what W&B asks for.

    Attributes:
        mood: How requests are answered.
        mood_after_opening: How they are answered once a run was opened.
        runs: What was uploaded, by run id.
        artifacts: Names of the artifacts, as which tables are uploaded.
        views: Workspaces and reports, by id.
        asked: How many requests came so far.
        end: Releases the requests that got no answer.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, mood: Mood, mood_after_opening: Mood | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.mood: Mood = mood
        self.mood_after_opening = mood_after_opening
        self.runs: dict[str, Uploaded] = {}
        self.artifacts: set[str] = set()
        self.views: dict[str, dict[str, Any]] = {}
        self.asked = 0
        self.keys: set[str] = set()
        """API keys of its clients."""
        self.end = Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints nothing about clients that hang up."""

    def open(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Opens a run, or continues one."""
        name = variables["name"]
        inserted = name not in self.runs
        run = self.runs.setdefault(name, Uploaded())
        run.arguments |= {key: value for key, value in variables.items() if value is not None}
        bucket = {"id": name, "name": name, "displayName": name, "description": None, "config": "{}"}
        bucket |= {"sweepName": None, "project": PROJECT, "historyLineCount": len(run.history)}
        return {"upsertBucket": {"bucket": bucket, "inserted": inserted}}

    def save_view(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Makes a workspace or a report, or replaces the one with the same id."""
        found = variables.get("id")
        view_id = found or b64encode(f"View:v1:{len(self.views)}".encode()).decode()
        view = {name: variables.get(name) for name in ("name", "displayName", "description", "spec", "type")}
        project = {"id": "project", "name": variables["projectName"], "entityName": variables["entityName"]}
        times = {"createdAt": "2026-01-01T00:00:00", "updatedAt": "2026-01-01T00:00:00"}
        self.views[view_id] = {**view, "id": view_id, "project": project, **times}
        return {"upsertView": {"view": self.views[view_id], "inserted": found is None}}

    def views_named(self, name: str) -> dict[str, Any]:
        """Returns the workspaces of a name."""
        nodes = [{"node": view} for view in self.views.values() if view["name"] == name]
        return {"project": {"allViews": {"edges": nodes}}}

    def status(self, name: str) -> dict[str, Any]:
        """Returns how far a run is that W&B wants to resume."""
        if name not in self.runs:
            return {"model": None}
        history = self.runs[name].history
        bucket: dict[str, Any] = {"id": name, "name": name, "displayName": name, "notes": None}
        bucket |= {"summaryMetrics": "{}", "config": "{}"}
        bucket |= {"logLineCount": 0, "historyLineCount": len(history), "eventsLineCount": 0, "eventsTail": "[]"}
        bucket |= {
            "historyTail": json.dumps([json.dumps(row) for row in history[-1:]]),
            "tags": [],
            "wandbConfig": '{"t": 1}',
        }
        return {"model": {**PROJECT, "bucket": bucket}}

    def stream(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        """Receives rows of a run, each at the place that the client names."""
        run = self.runs[name]
        lines = body.get("files", {}).get("wandb-history.jsonl")
        if lines:
            run.history[lines["offset"] :] = [json.loads(line) for line in lines["content"]]
        run.complete |= bool(body.get("complete"))
        return {}


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Prints nothing."""

    def do_GET(self) -> None:
        self._answer(dict)

    def do_PUT(self) -> None:
        self._body()
        self._answer(dict)

    def do_POST(self) -> None:
        body = self._body()
        if self.path == "/graphql":
            self._answer(lambda: {"data": self._data(json.loads(body))})
        elif self.path.endswith("/file_stream"):
            self._answer(lambda: self.server.stream(self.path.split("/")[4], json.loads(body)))
        else:
            self._answer(dict)

    def _data(self, request: dict[str, Any]) -> dict[str, Any]:
        query, variables = request["query"], request.get("variables") or {}
        if "upsertView(" in query:
            return self.server.save_view(variables)
        if "allViews(" in query:
            return self.server.views_named(variables["viewName"])
        if "SpecificReport" in query:
            return {"view": self.server.views.get(variables["reportId"])}
        if "query GetProjects" in query:
            project = {**PROJECT, "entityName": "someone", "createdAt": "", "isBenchmark": False, "user": None}
            page = {"endCursor": None, "hasNextPage": False}
            return {"models": {"pageInfo": page, "edges": [{"node": project}]}}
        if "ProjectInternalId" in query:
            return {"project": {"id": "project", "internalId": "1"}}
        if "upsertBucket(" in query:
            return self.server.open(variables)
        if "createArtifact(" in query:
            self.server.artifacts.add(variables["input"]["aliases"][0]["artifactCollectionName"])
            artifact = {"id": "artifact", "state": "COMMITTED", "artifactSequence": {"id": "s", "latestArtifact": None}}
            return {"createArtifact": {"artifact": artifact}}
        if "createRunFiles(" in query:
            self.server.runs[variables["run"]].files |= set(variables["files"])
            files = [{"name": name, "uploadUrl": f"{self.server.address}/{name}"} for name in variables["files"]]
            return {"createRunFiles": {"runID": variables["run"], "uploadHeaders": [], "files": files}}
        if "artifactType" in query:
            return {"project": {"artifact": {"artifactType": {"name": "run_table"}}}}
        if "viewer" in query:
            return {"viewer": {"id": "user", "username": "someone", "entity": "someone"}}
        return self.server.status(variables["name"]) if "RunResumeStatus" in query else {}

    def _answer(self, answer: Any) -> None:
        self._note_key()
        self.server.asked += 1
        match self.server.mood:
            case "good":
                self._send(200, json.dumps(answer()).encode())
            case "wrong key":
                self._send(401, b'{"errors": [{"message": "user is not logged in"}]}')
            case "nonsense":
                self._send(200, b"hello")
            case "silent":
                self.server.end.wait()
            case "dead":
                self.close_connection = True
        if self.server.runs and self.server.mood_after_opening:
            self.server.mood = self.server.mood_after_opening

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _note_key(self) -> None:
        if login := self.headers.get("Authorization"):
            self.server.keys.add(b64decode(login.removeprefix("Basic ")).decode().partition(":")[2])

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(iter(self._chunk, b""))
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def _chunk(self) -> bytes:
        chunk = self.rfile.read(int(self.rfile.readline(), 16))
        self.rfile.readline()
        return chunk


@contextmanager
def serving(mood: Mood = "good", *, mood_after_opening: Mood | None = None) -> Iterator[Server]:
    """Runs a server while the block lasts; the user has logged in to it, and to one that does not answer."""
    server = Server(mood, mood_after_opening)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            hosts = (server.address.removeprefix("http://"), UNREACHABLE.removeprefix("http://"))
            logins = "".join(f"machine {host} login user password {'a' * 40}\n" for host in hosts)
            (Path(folder) / "netrc").write_text(logins)
            patch.setenv("NETRC", str(Path(folder) / "netrc"))
            yield server
    finally:
        server.end.set()
        server.shutdown()
        server.server_close()
        thread.join()
