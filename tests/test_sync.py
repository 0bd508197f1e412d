"""Offline runs go to a server, once; what cannot go says why, and the exit code is 2."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import wandb
from wandb_reader import log_a_run
from wandb_server import UNREACHABLE, Mood, serving

from sentattn import sync
from sentattn.loggers.wandb import run as wandb_guard
from sentattn.loggers.wandb import upload

KEY = "a" * 40


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.chdir(tmp_path)
    yield
    upload.find_connection_error.cache_clear()


def test_each_run_is_uploaded_once_after_errors_of_others_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = (log_a_run(tmp_path / "outputs" / "demo" / name) for name in ("one", "two"))
    bad = log_a_run(tmp_path / "outputs" / "bad", host=UNREACHABLE)
    broken = shutil.copytree(one, tmp_path / "outputs" / "broken")
    next(broken.glob("wandb/offline-run-*/*.wandb")).write_bytes(b"nonsense")
    with serving() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.address)
        assert sync.main([]) == 2
        of_bad, of_broken = sorted(capsys.readouterr().err.splitlines())
        assert f"outputs/{bad.name}: " in of_bad
        assert UNREACHABLE in of_bad
        assert f"outputs/{broken.name}: " in of_broken
        uploaded = {name: [row["epoch"] for row in run.history] for name, run in server.runs.items()}
        assert uploaded == {"one": [1], "two": [1]}
        asked = server.asked
        for folder in (bad, broken):
            shutil.rmtree(folder)
        assert sync.main([str(two), str(tmp_path / "outputs")]) == 0
        assert server.asked == asked
    assert capsys.readouterr().out == "2 runs uploaded, 2 of these before\n"


def test_each_server_gets_its_own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "b" * 40)  # for the default server
    with serving() as server:  # the netrc file has the key "a" * 40 for it
        run = log_a_run(tmp_path / "offline", host=server.address)
        assert sync.main([str(run)]) == 0
        log_a_run(tmp_path / "online", host=server.address, mode="online")
        assert set(server.runs) == {"offline", "online"}
        assert server.keys == {"a" * 40}
    wandb.teardown()


def test_a_resumed_run_is_uploaded_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as server:
        run = log_a_run(tmp_path / "run", host=server.address, epochs=(1, 2))
        next(run.glob("wandb/offline-run-*/*.wandb")).write_bytes(b"what a killed process leaves behind")
        log_a_run(run, host=server.address, epochs=(3,), resumed=True)
        assert sync.main([str(run)]) == 0
        assert [row["epoch"] for row in server.runs["run"].history] == [1, 2, 3]
        assert sync.main([str(run)]) == 0
    shown = capsys.readouterr().out
    assert "1 run uploaded, 0 of these before\n1 run uploaded, 1 of these before\n" in shown
    assert not (tmp_path / "wandb").exists()


def test_an_interrupted_upload_is_completed_by_the_command_that_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wandb_guard, "FINISH_SECONDS", 1.0)
    monkeypatch.setenv("WANDB_MODE", "online")
    with serving(mood_after_opening="dead") as server:
        log_a_run(tmp_path / "run", host=server.address, mode="online")
        wandb.teardown()
        server.mood_after_opening, server.mood = None, "good"
        [command] = re.findall(r"Upload the rest later with: (.*)", capsys.readouterr().out)
        here = f"PATH={Path(sys.executable).parent}:$PATH"
        subprocess.run(f"{here} {command}", shell=True, check=True, timeout=60, capture_output=True)
        assert [row["epoch"] for row in server.runs["run"].history] == [1]


@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        ("wrong key", "not logged in"),
        pytest.param("nonsense", "invalid character", marks=pytest.mark.slow),
        pytest.param("silent", "does not answer (timed out)", marks=pytest.mark.slow),
    ],
)
def test_a_server_that_accepts_nothing_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], mood: Mood, reason: str
) -> None:
    monkeypatch.setattr(upload, "ANSWER_SECONDS", 0.5)
    with serving(mood) as server:
        run = log_a_run(tmp_path / "run", host=server.address)
        assert sync.main([str(run)]) == 2
    shown = capfd.readouterr().err
    assert f"error: not uploaded: {run}: " in shown
    assert reason in shown


def test_a_key_is_not_sent_to_a_server_without_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(upload, "HOUR", 2.0)
    with serving(mood_after_opening="silent") as server:
        run = log_a_run(tmp_path / "run", host=server.address)
        assert sync.main([str(run)]) == 2
        asked = server.asked
        monkeypatch.delenv("NETRC")
        assert sync.main([str(run)]) == 2
        assert server.asked == asked
    shown = capsys.readouterr().err
    assert "it did not end within an hour" in shown
    assert f"wandb login --host={server.address}" in shown


def test_without_a_key_one_line_names_wandb_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log_a_run(tmp_path / "a")
    for name in "bc":
        shutil.copytree(tmp_path / "a", tmp_path / name)
    wandb.teardown()
    monkeypatch.delenv("WANDB_API_KEY")
    capsys.readouterr()
    assert sync.main([str(tmp_path)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    [line] = shown.err.splitlines()
    assert line.startswith(f"error: not uploaded: {tmp_path / 'a'}, {tmp_path / 'b'}, {tmp_path / 'c'}: ")
    assert "`wandb login`" in line


def test_folders_without_runs_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    for argument, code in (("nowhere", 2), ("empty", 0), ("output_dir=x", 2)):
        assert sync.main([argument]) == code
        shown = capsys.readouterr()
        assert argument.partition("=")[0] in (shown.err if code else shown.out)
