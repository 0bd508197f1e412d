"""`python -m sentattn.explore`: arguments, addresses, and a server that starts and ends."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from sentattn.errors import Fault, RunError
from sentattn.explore.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "error: Give run directories"),
        (["outputs", "prot=1"], "prot=1"),
        (["outputs", "port=70000"], "port=70000"),
        (["outputs", "split=train"], "split"),
        (["none"], "none is no folder"),
    ],
)
def test_bad_arguments_end_with_a_message(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err


def test_the_latest_run_is_explored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sentattn.explore import server

    run = tmp_path / "outputs" / "demo" / "mean" / "20260101-120000-0123abcd"
    (run / "model").mkdir(parents=True)
    (run / "config.yaml").touch()
    (run / "result.json").write_text('{"status": "finished"}')
    loaded: list[Path] = []

    def load_models(paths: list[Path], **_: object) -> None:
        loaded.extend(paths)
        raise RunError(Fault("runs", "missing", "enough"))

    monkeypatch.setattr(server, "load_models", load_models)
    monkeypatch.chdir(tmp_path)
    assert main(["latest"]) == 2
    assert [path.resolve() for path in loaded] == [run]


def test_a_port_in_use_is_reported_before_anything_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["none", f"port={port}"]) == 2
    assert f"port={port} cannot be used" in capsys.readouterr().err


def test_missing_packages_are_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["outputs"]) == 2
    assert "sentattn[explore]" in capsys.readouterr().err


def test_a_server_starts_answers_and_ends(outputs: Path, tmp_path: Path) -> None:
    printed, out = os.pipe()
    if not (pid := os.fork()):
        sys.stdout = os.fdopen(out, "w", buffering=1)
        sys.stderr = (tmp_path / "errors").open("w", buffering=1)
        os._exit(main([str(outputs), "open=false"]))
    os.close(out)
    try:
        with os.fdopen(printed) as lines:
            assert lines.readline().split(": ")[1].strip() == "structured; transformer"
            [port] = re.findall(r"^http://127.0.0.1:(\d+)  ", lines.readline())
            body = json.dumps({"text": "a good film"}).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"http://127.0.0.1:{port}/api/predict", body, headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert len(json.load(answer)["articles"]) == 2
            os.kill(pid, signal.SIGINT)
            lines.read()  # until it ends
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    assert (status, (tmp_path / "errors").read_text()) == (0, "")
