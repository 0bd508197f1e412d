"""W&B fails in every way it can: the training goes on, its record is whole, and one line says what happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb
from tiny import tiny
from wandb_reader import read
from wandb_server import Mood, Server, serving

from sentattn import build
from sentattn.loggers import wandb_mirror, wandb_service
from sentattn.run import Run
from sentattn.training.fitting import fit

KEY = "a" * 40
DISK = 128  # KiB


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(wandb_mirror, "INIT_SECONDS", 2.0)
    monkeypatch.setattr(wandb_mirror, "FINISH_SECONDS", 2.0)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_HTTP_TIMEOUT", "1")
    yield
    wandb_service.abandon()


def told(shown: str) -> list[str]:
    """The lines about W&B, less the one that says where the run is."""
    return [
        line
        for line in shown.splitlines()
        if line.startswith("W&B:") and "upload it later" not in line and "/runs/" not in line
    ]


def require_whole(run: Run) -> None:
    assert run.result["status"] == "finished"
    assert len((run.path / "metrics.jsonl").read_text().splitlines()) == 2
    assert (run.path / "model" / "model.safetensors").is_file()
    assert (run.path / "predictions.parquet").is_file()


def trained(tmp_path: Path, server: Server) -> Run:
    online = ["logger=wandb", "logger.mode=online", f"logger.host={server.address}", "logger.examples=1"]
    return fit(tiny(f"output_dir={tmp_path}", *online))


@pytest.mark.parametrize(
    ("mood", "reason"), [("wrong key", "not logged in"), ("nonsense", "invalid character"), ("silent", "Timed out")]
)
def test_a_server_that_does_not_take_the_run_means_offline(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], mood: Mood, reason: str
) -> None:
    with serving(mood) as server:
        run = trained(tmp_path, server)
    require_whole(run)
    shown = capfd.readouterr()
    [line] = told(shown.out)
    assert reason in line
    assert "kept offline" in line
    assert shown.err == ""
    assert read(run.path)["exit_code"] == 0


def test_a_key_that_can_be_none_means_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "short")
    with serving() as server:
        run = trained(tmp_path, server)
    require_whole(run)
    [line] = told(capsys.readouterr().out)
    assert "40+ characters" in line
    assert server.runs == {}


def test_an_upload_that_does_not_end_is_not_waited_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    settings = {"model": {"name": "mean"}, "data": {"name": "demo"}, "group": None, "tags": []}
    filled = {"directory": tmp_path, "run_id": "abc", "settings": settings, "setting": "x"}
    with serving(mood_after_opening="dead") as server:
        one = wandb_mirror.WandbMirror(mode="online", host=server.address, **filled)
        one.start()
        one.log_metrics({"train/loss": 0.5, "epoch": 0})
        one.finish({})
    shown = capfd.readouterr()
    [line] = told(shown.out)
    assert "the upload was not done after 2 s" in line
    assert f"python -m sentattn.sync {tmp_path}" in line
    assert shown.err == ""
    assert list(tmp_path.glob(f"wandb/run-*/{wandb_service.UNSENT}"))


@pytest.mark.slow
def test_a_server_that_dies_in_the_middle_stops_no_training(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with serving(mood_after_opening="dead") as server:
        run = trained(tmp_path, server)
    require_whole(run)
    shown = capfd.readouterr()
    [line] = told(shown.out)
    assert f"python -m sentattn.sync {run.path}" in line
    assert shown.err == ""
    assert list(run.path.glob(f"wandb/run-*/{wandb_service.UNSENT}"))


@pytest.mark.slow
def test_a_program_ends_though_the_server_died(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from sentattn.loggers import wandb_mirror
wandb_mirror.FINISH_SECONDS = 1.0
directory, host = sys.argv[1:]
settings = {"model": {"name": "mean"}, "data": {"name": "demo"}, "group": None, "tags": []}
filled = {"directory": Path(directory), "run_id": "abc", "settings": settings, "setting": "x"}
one = wandb_mirror.WandbMirror(mode="online", host=host, **filled)
one.start()
one.log_metrics({"train/loss": 0.5, "epoch": 0})
one.finish({})
"""
    with serving(mood_after_opening="dead") as server:
        command = [sys.executable, "-c", script, str(tmp_path), server.address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.count("the upload was not done") == 1


def test_a_process_of_wandb_that_is_killed_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    log = wandb_mirror.WandbMirror._log

    def killing(self: Any, row: Any) -> None:
        wandb.setup()._connection._proc._process.kill()  # type: ignore[union-attr]
        time.sleep(0.2)
        log(self, row)

    monkeypatch.setattr(wandb_mirror.WandbMirror, "_log", killing)
    run = fit(tiny(f"output_dir={tmp_path}", "logger=wandb", "logger.examples=0"))
    require_whole(run)
    shown = capfd.readouterr()
    assert len(told(shown.out)) == 1
    assert shown.err == ""


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Gives the `wandb/` of the next run a disk of its own, and a small one."""
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    mounted: list[Path] = []

    def build_mirror(node: Any, **filled: Any) -> Any:
        folder = filled["directory"] / "wandb"
        folder.mkdir()
        options = f"size={DISK}k,uid={os.geteuid()}"
        done = subprocess.run([*root, "mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
        if done.returncode:
            pytest.skip("only root can mount a small disk")
        mounted.append(folder)
        return build.instantiate(node, **filled)

    monkeypatch.setattr(build, "build_mirror", build_mirror)
    yield
    for folder in mounted:
        subprocess.run([*root, "umount", "-l", str(folder)], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a small disk as Linux does")
@pytest.mark.parametrize("examples", [0, 4])
@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], examples: int
) -> None:
    log = wandb_mirror.WandbMirror._log

    def filling(self: Any, row: Any) -> None:
        log(self, row)
        with pytest.raises(OSError, match="No space"):
            (self.directory / "wandb" / "ballast").write_bytes(bytes(1024 * DISK))

    if not examples:  # the pictures would fill it by themselves
        monkeypatch.setattr(wandb_mirror.WandbMirror, "_log", filling)
    run = fit(tiny(f"output_dir={tmp_path}", "logger=wandb", f"logger.examples={examples}"))
    require_whole(run)
    shown = capfd.readouterr()
    [line] = told(shown.out)
    assert "No space left on device" in line
    assert shown.err == ""


def test_an_unwritable_folder_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build_mirror(node: Any, **filled: Any) -> Any:
        (filled["directory"] / "wandb").write_text("a file where the folder should be")
        return build.instantiate(node, **filled)

    monkeypatch.setattr(build, "build_mirror", build_mirror)
    run = fit(tiny(f"output_dir={tmp_path}", "logger=wandb"))
    assert run.result["status"] == "finished"
    assert len(told(capsys.readouterr().out)) <= 1


def test_a_picture_that_cannot_be_drawn_costs_the_mirror_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: Any) -> bytes:
        raise RuntimeError("no font")

    monkeypatch.setattr("sentattn.training.watching.picture", failing)
    run = fit(tiny(f"output_dir={tmp_path}", "logger=wandb"))
    require_whole(run)
    [line] = told(capsys.readouterr().out)
    assert "no font; the run goes on without it" in line
    assert json.loads((run.path / "metrics.jsonl").read_text().splitlines()[1])["epoch"] == 2
