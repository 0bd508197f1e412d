"""Runs that were killed go on to the same end; what cannot go on is refused."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml
from runs_alike import assert_alike
from tiny import tiny

from sentattn import run
from sentattn.errors import RunError
from sentattn.run import Run
from sentattn.training.fitting import fit, train
from sentattn.training.resume.checkpoints import Checkpoints

PATIENCE = 120.0
SIZES = {
    "structured": ["model.embedding.size=8", "model.encoder.hidden=4", "model.attention.hidden=5"],
    "transformer": ["model.embedding.size=8", "model.encoder.heads=2"],
    "relation": ["model.embedding.size=8"],
}


def settings(model: str, output_dir: Path) -> list[str]:
    return [
        f"model={model}",
        *SIZES[model],
        *("logger=none", "data.limit=200", "data.batch_size=20", "trainer.max_epochs=3", "trainer.accelerator=cpu"),
        *("checkpoint_minutes=0", f"output_dir={output_dir}"),
    ]


def killed_in_the_second_epoch(arguments: list[str], output_dir: Path) -> Path:
    """Starts a training as a process of its own and kills it in the middle; returns the run that is left."""
    command = [sys.executable, "-m", "sentattn.train", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + PATIENCE
        while not list(output_dir.glob("*/*/*/metrics.jsonl")):
            assert process.poll() is None, "the training ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.kill()
    [left] = output_dir.glob("*/*/*")
    assert not (left / "result.json").exists(), "the training came to its end before it could be killed"
    return left


@pytest.mark.parametrize("model", SIZES)
def test_a_killed_run_goes_on_to_the_end_of_one_that_was_not(model: str, tmp_path: Path) -> None:
    whole = fit(settings(model, tmp_path / "whole"))
    left = killed_in_the_second_epoch(settings(model, tmp_path / "cut"), tmp_path / "cut")
    assert_alike(whole.path, train(run.load(left).settings, resume=left).path)


@contextmanager
def no_room() -> Iterator[None]:
    """No file can grow over a few bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture
def left(tiny_run: Run, tmp_path: Path) -> Path:
    """A run whose process was killed before it could write its result."""
    path = tmp_path / "left"
    subprocess.run(["cp", "-r", str(tiny_run.path), str(path)], check=True)
    (path / "result.json").unlink()
    return path


def test_a_run_killed_at_its_very_end_is_judged_again(tiny_run: Run, left: Path) -> None:
    (left / "predictions.parquet").unlink()
    assert_alike(tiny_run.path, train(run.load(left).settings, resume=left).path)


def test_lines_of_epochs_that_come_again_are_not_written_twice(tiny_run: Run, left: Path) -> None:
    with (left / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"epoch": 3}) + "\n")
        file.write('{"epoch": 4, "torn')
    assert_alike(tiny_run.path, train(run.load(left).settings, resume=left).path)


def test_a_finished_run_has_nothing_left_to_resume(tiny_run: Run) -> None:
    with pytest.raises(RunError, match=r"came to its end \(finished\).*from="):
        train(tiny_run.settings, resume=tiny_run.path)


def test_a_run_without_a_checkpoint_cannot_go_on(left: Path) -> None:
    (left / "checkpoints/last.ckpt").unlink()
    with pytest.raises(RunError, match="no checkpoint to go on from"):
        train(run.load(left).settings, resume=left)


def test_a_damaged_checkpoint_is_named(left: Path) -> None:
    checkpoint = left / "checkpoints/last.ckpt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    with pytest.raises(RunError, match=r"last\.ckpt cannot be read"):
        train(run.load(left).settings, resume=left)


def test_other_rows_are_refused(left: Path) -> None:
    changed = run.load(left).settings
    changed["data"]["limit"] = 150
    with pytest.raises(RunError, match="was trained on other rows"):
        train(changed, resume=left)


def test_another_setting_is_refused(left: Path) -> None:
    config = left / "config.yaml"
    changed = yaml.safe_load(config.read_text())
    changed["model"]["encoder"]["hidden"] = 6
    with pytest.raises(RunError, match="began with another setting"):
        train(changed, resume=left)


def test_a_run_that_is_being_trained_is_left_alone(left: Path) -> None:
    with run.lock(left), pytest.raises(RunError, match="being trained by another process"):
        train(run.load(left).settings, resume=left)


def test_a_checkpoint_that_cannot_be_written_inside_an_epoch_costs_itself_alone(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The second checkpoint of the first epoch does not fit on the disk.
    original = Checkpoints._write
    writes = iter(range(100))

    def hindered(self: Checkpoints, trainer: Any, *, batches: int) -> bool:
        with no_room() if next(writes) == 1 else nullcontext():
            return original(self, trainer, batches=batches)

    monkeypatch.setattr(Checkpoints, "_write", hindered)
    done = fit(tiny("checkpoint_minutes=0", f"output_dir={tmp_path}"))
    assert_alike(tiny_run.path, done.path)
    assert "last.ckpt cannot be written" in capsys.readouterr().out
    assert not list((done.path / "checkpoints").glob("*.part"))


def test_an_epoch_that_cannot_be_kept_ends_the_run_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Checkpoints.on_train_epoch_end

    def hindered(self: Checkpoints, *args: Any) -> None:
        with no_room():
            original(self, *args)

    monkeypatch.setattr(Checkpoints, "on_train_epoch_end", hindered)
    with pytest.raises(RunError, match=r"The epoch cannot be kept: .*last\.ckpt cannot be written"):
        fit(tiny(f"output_dir={tmp_path}"))
    [result] = tmp_path.glob("*/*/*/result.json")
    assert json.loads(result.read_text())["status"] == "failed"
