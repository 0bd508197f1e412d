"""`python -m sentattn.explore`: arguments, addresses, and a server that starts and ends."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from sentattn.explore.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "error: Give run directories"),
        (["outputs", "prot=1"], "prot=1"),
        (["outputs", "port=70000"], "port=70000"),
        (["outputs", "split=train"], "split"),
        (["none"], "none is no folder"),
        (["outputs", "host=192.0.2.1"], "host=192.0.2.1"),
    ],
)
def test_bad_arguments_end_with_a_message(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err


def test_a_port_in_use_is_reported_before_anything_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["none", f"port={port}"]) == 2
    assert f"port={port} cannot be used" in capsys.readouterr().err


def test_missing_packages_are_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["outputs"]) == 2
    assert "sentattn[explore]" in capsys.readouterr().err


@pytest.mark.parametrize("host", [pytest.param("127.0.0.1", marks=pytest.mark.slow), "0.0.0.0"])
def test_a_server_starts_answers_and_ends(outputs: Path, host: str) -> None:
    command = [sys.executable, "-m", "sentattn.explore", str(outputs), "open=false", "threads=1", f"host={host}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().split(": ")[1].strip() == "structured; transformer"
        [(port, token)] = re.findall(r"^http://[^:]+:(\d+)(?:/\?token=(\S+))?  ", process.stdout.readline())
        assert bool(token) == (host == "0.0.0.0")
        body = json.dumps({"text": "a good film"}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/api/predict", body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert len(json.load(answer)["articles"]) == 2
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
    finally:
        process.kill()
        process.communicate()
