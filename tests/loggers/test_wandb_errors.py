"""W&B fails in every way it can: one line says what happened, and nothing waits for it for long."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import wandb
from tiny import tiny
from wandb_reader import SETTINGS, log_a_run, read
from wandb_server import Mood, serving

from sentattn import fit
from sentattn.loggers import LoggedRun, wandb_logger
from sentattn.loggers.wandb import run as wandb_guard

KEY = "a" * 40


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(wandb_guard, "INIT_SECONDS", 2.0)
    monkeypatch.setattr(wandb_guard, "FINISH_SECONDS", 2.0)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_HTTP_TIMEOUT", "1")
    yield
    with suppress(Exception, SystemExit):  # of a process that a test has killed
        wandb.teardown()


def complaints(shown: str) -> list[str]:
    """The lines about W&B, without the one that says where the run is."""
    lines = [line for line in shown.splitlines() if line.startswith("W&B:")]
    return [line for line in lines if "upload it later" not in line and "/runs/" not in line]


@pytest.mark.parametrize(
    ("mood", "reason"), [("wrong key", "not logged in"), ("nonsense", "invalid character"), ("silent", "Timed out")]
)
def test_a_run_that_is_rejected_is_logged_offline(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], mood: Mood, reason: str
) -> None:
    with serving(mood) as server:
        log_a_run(tmp_path, host=server.address, mode="online")
    shown = capfd.readouterr()
    [line] = complaints(shown.out)
    assert reason in line
    assert "offline instead" in line
    assert shown.err == ""
    logged = read(tmp_path)
    assert (logged["exit_code"], [row["epoch"] for row in logged["history"]]) == (0, [1])


def test_white_space_around_a_key_or_a_mode_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", f" {os.environ['WANDB_API_KEY']}\n")
    monkeypatch.setenv("WANDB_MODE", "")
    with serving() as server:
        log_a_run(tmp_path, host=server.address, mode="online")
    assert complaints(capfd.readouterr().out) == []
    assert len(server.runs) == 1


def test_an_invalid_key_is_not_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "shortsecret")
    with serving() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.address)
        log_a_run(tmp_path, host=server.address, mode="online")
    shown = capfd.readouterr()
    [line] = complaints(shown.out)
    assert "40+ characters" in line
    assert "shortsecret" not in shown.out + shown.err
    assert server.runs == {}


def test_with_an_invalid_key_in_netrc_the_run_is_logged_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "netrc").write_text("machine wandb.example.org login user password shortsecret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    log_a_run(tmp_path, host="https://wandb.example.org", mode="online")
    shown = capfd.readouterr()
    [line] = complaints(shown.out)
    assert "offline instead" in line
    assert "shortsecret" not in shown.out + shown.err
    assert read(tmp_path)["exit_code"] == 0


def require_pending(directory: Path, shown: str, seconds: int) -> None:
    [line] = complaints(shown)
    assert f" {seconds} s" in line
    [folder] = directory.glob("wandb/run-*")
    assert f"wandb sync --include-online {folder}" in line


@pytest.mark.parametrize("mood", ["silent", "dead"])
def test_a_server_that_fails_later_is_not_waited_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], mood: Mood
) -> None:
    with serving(mood_after_opening=mood) as server:
        log_a_run(tmp_path, host=server.address, mode="online")
    shown = capfd.readouterr()
    require_pending(tmp_path, shown.out, seconds=2)
    assert shown.err == ""


@pytest.mark.slow
def test_a_program_ends_while_the_server_is_silent(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from sentattn.loggers import LoggedRun, wandb_logger
from sentattn.loggers.wandb import run as wandb
wandb.INIT_SECONDS, wandb.FINISH_SECONDS = 60.0, 1.0
settings = {"model": {"name": "mean"}, "data": {"name": "demo"}, "group": None, "tags": []}
logger = wandb_logger(host=sys.argv[2], mode="online", run=LoggedRun(Path(sys.argv[1]), settings, "5e77"))
logger.start()
logger.log_metrics({"train/loss": 0.5, "epoch": 0})
logger.finish({"best_epoch": 1})
"""
    with serving(mood_after_opening="silent") as server:
        command = [sys.executable, "-c", script, str(tmp_path), server.address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    require_pending(tmp_path, done.stdout, seconds=1)


def test_a_killed_process_of_wandb_is_reported_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    logger = wandb_logger(mode="offline", run=LoggedRun(tmp_path, SETTINGS, "5e77"))
    logger.start()
    for child in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        for pid in child.read_text().split():
            if "wandb-core" in Path(f"/proc/{pid}/cmdline").read_text():
                os.kill(int(pid), 9)
                os.waitpid(int(pid), 0)
    for epoch in range(3):
        logger.log_metrics({"train/loss": 0.5, "epoch": epoch})
    logger.finish({"best_epoch": 1})
    shown = capfd.readouterr()
    assert len(complaints(shown.out)) == 1
    assert shown.err == ""


def test_an_unwritable_folder_is_reported_at_most_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "wandb").write_text("a file where the folder should be")
    log_a_run(tmp_path)
    assert len(complaints(capsys.readouterr().out)) <= 1


def test_an_error_while_plotting_switches_the_logger_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> bytes:
        raise RuntimeError("no font")

    monkeypatch.setattr("sentattn.loggers.wandb.run.picture", fail)
    run = fit(tiny(f"output_dir={tmp_path}", "logger=wandb"))
    assert run.result["status"] == "finished"
    assert len((run.path / "metrics.jsonl").read_text().splitlines()) == 2
    [line] = complaints(capsys.readouterr().out)
    assert "no font" in line
