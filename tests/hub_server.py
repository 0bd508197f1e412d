"""A stand-in for the Hugging Face Hub on the loopback interface: repositories that are read and written."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

TOKEN = "hf_of_someone"
UNREACHABLE = "http://127.0.0.1:9"


@dataclass
class Repository:
    """A repository: whether it is private, and the files of each commit by its hash, the newest last."""

    private: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def commit(self, files: dict[str, bytes]) -> str:
        sha = hashlib.sha1(repr((len(self.commits), sorted(files.items()))).encode()).hexdigest()
        self.commits[sha] = files
        return sha

    @property
    def newest(self) -> str:
        return [*self.commits][-1]


class Server(ThreadingHTTPServer):
    """Serves what huggingface_hub asks for.

    Attributes:
        repositories: By name.
        requests: Method and path of each request so far.
        status: An HTTP status that answers every upload of files; 0 for none.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Repository] = {}
        self.requests: list[str] = []
        self.status = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def add(self, name: str, folder: Path) -> str:
        """Commits the files of a folder to a new repository, or to an old one; returns the hash of the commit."""
        files = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        return self.repositories.setdefault(name, Repository()).commit(files)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Prints nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self._begin()
        match path.split("/"):
            case ["api", "models", user, name, *rest]:
                self._describe(f"{user}/{name}", rest)
            case [user, name, "resolve", revision, *file]:
                files = self._files(f"{user}/{name}", revision)
                if files is None or (content := files.get("/".join(file))) is None:
                    self._send(404, b"", error="EntryNotFound")
                else:
                    self._send(200, content, commit=revision)
            case _:
                self._send(404, b"")

    def _describe(self, name: str, rest: list[str]) -> None:
        repository = self.server.repositories.get(name)
        is_known = repository is not None and (not repository.private or self._is_allowed)
        if repository is None or not is_known:
            self._send(401, b"", error="RepoNotFound")
            return
        revision = rest[1] if len(rest) > 1 else "main"
        files = self._files(name, revision)
        if files is None and rest and repository.commits:
            self._send(404, b"", error="RevisionNotFound")
        elif rest[:1] == ["tree"]:
            entries = [
                {"type": "file", "path": path, "size": len(content), "oid": _blob(content)}
                for path, content in (files or {}).items()
            ]
            self._send(200, json.dumps(entries).encode())
        else:
            sha = revision if revision in repository.commits else repository.newest if repository.commits else None
            content: dict[str, Any] = {
                "id": name,
                "sha": sha,
                "private": repository.private,
                "siblings": [],
                "tags": [],
            }
            self._send(200, json.dumps(content).encode())

    def _files(self, name: str, revision: str) -> dict[str, bytes] | None:
        repository = self.server.repositories.get(name)
        if repository is None or not repository.commits:
            return None
        return repository.commits.get(repository.newest if revision == "main" else revision)

    def do_POST(self) -> None:
        path, body = self._begin(), self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self._is_allowed:
            self._send(401, b'{"error": "Invalid credentials in Authorization header"}')
            return
        match path.split("/"):
            case ["api", "validate-yaml"]:
                self._send(200, b'{"warnings": [], "errors": []}')
            case ["api", "repos", "create"]:
                asked = json.loads(body)
                name = f"{asked['organization']}/{asked['name']}"
                status = 409 if name in self.server.repositories else 200
                self.server.repositories.setdefault(
                    name, Repository(private=asked.get("visibility") == "private" or asked.get("private", False))
                )
                self._send(status, json.dumps({"url": f"{self.server.address}/{name}"}).encode())
            case ["api", "models", _, _, "preupload", _]:
                files = [
                    {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                    for file in json.loads(body)["files"]
                ]
                self._send(self.server.status or 200, json.dumps({"files": files}).encode())
            case ["api", "models", user, name, "commit", _]:
                self._commit(f"{user}/{name}", [json.loads(line) for line in body.splitlines()])
            case _:
                self._send(404, b"")

    def _commit(self, name: str, lines: list[dict[str, Any]]) -> None:
        files = dict(self._files(name, "main") or {})
        for key, value in ((line["key"], line["value"]) for line in lines):
            if key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif key == "deletedFile":
                del files[value["path"]]
        sha = self.server.repositories[name].commit(files)
        content = {"commitUrl": f"{self.server.address}/{name}/commit/{sha}", "commitOid": sha}
        self._send(200, json.dumps(content).encode())

    @property
    def _is_allowed(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _begin(self) -> str:
        path = unquote(urlsplit(self.path).path).strip("/")
        self.server.requests.append(f"{self.command} {path}")
        return path

    def _send(self, status: int, content: bytes, *, commit: str = "", error: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if commit:
            self.send_header("X-Repo-Commit", commit)
            self.send_header("ETag", f'"{_blob(content)}"')
        if error:
            self.send_header("X-Error-Code", error)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _blob(content: bytes) -> str:
    """Returns git's hash of a file."""
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()


@contextmanager
def serving(cache: Path) -> Iterator[Server]:
    """Runs a Hub while the block lasts, which this process uses with a cache of its own and without a token."""
    with Server() as server, pytest.MonkeyPatch.context() as patch:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        point_at(patch, server.address)
        patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
        patch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(cache / "token"))
        patch.delenv("HF_TOKEN", raising=False)
        try:
            yield server
        finally:
            server.shutdown()


def point_at(patch: pytest.MonkeyPatch, address: str) -> None:
    """Makes this process use a Hub; the variable HF_ENDPOINT is read when huggingface_hub is imported."""
    patch.setattr("huggingface_hub.constants.ENDPOINT", address)
    template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    patch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
