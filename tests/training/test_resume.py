"""Which runs can be resumed: those of these settings, with the data and settings that they began with."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
import torch
from refusals import fault_of

from sentattn import run
from sentattn.config.compose import compose, override
from sentattn.config.schema import Settings
from sentattn.errors import Fault
from sentattn.run import Run, yaml_text
from sentattn.training.fit import fit as train
from sentattn.training.resume import find_finished, find_interrupted, find_running


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    return compose([f"output_dir={tmp_path}"])


def make_run(settings: dict[str, Any], name: str = "20260101-000000-aaaa", **changed: Any) -> Path:
    """An interrupted run."""
    path = Path(settings["output_dir"]) / "demo" / "structured" / name
    (path / "checkpoints").mkdir(parents=True)
    (path / "checkpoints" / "last.ckpt").touch()
    (path / "config.yaml").write_text(yaml_text(settings | changed))
    return path


def test_the_newest_interrupted_run_is_found(settings: dict[str, Any]) -> None:
    make_run(settings)
    newest = make_run(settings, "20260102-000000-aaaa")
    make_run(settings, "20260101-235959-ffff")
    assert find_interrupted(settings) == newest


def test_settings_without_effect_may_differ(settings: dict[str, Any]) -> None:
    path = make_run(settings, tags=["a"], logger={"_target_": "sentattn.loggers.no_logger"})
    assert find_interrupted(settings) == path


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"test": False},
        {"ema_decay": 0.5},
        {"data": compose([])["data"] | {"vectors": "glove.6B.100d"}},
        {"data": {"vectors": "a.txt"}},
        {"data": None},
    ],
)
def test_runs_of_other_settings_are_not_resumed(settings: dict[str, Any], changed: dict[str, Any]) -> None:
    make_run(settings, **changed)
    assert find_interrupted(settings) is None


def test_a_run_before_its_first_checkpoint_is_not_resumed(settings: dict[str, Any]) -> None:
    (make_run(settings) / "checkpoints" / "last.ckpt").unlink()
    assert find_interrupted(settings) is None


@pytest.mark.parametrize("config", ["", "a: [", "- 1", "seed: 2020-01-01"])
def test_damaged_settings_are_skipped(settings: dict[str, Any], config: str) -> None:
    path = make_run(settings)
    (make_run(settings, "20260102-000000-aaaa") / "config.yaml").write_text(config)
    assert find_interrupted(settings) == path


def test_a_running_run_is_not_resumed(settings: dict[str, Any]) -> None:
    older, newer = make_run(settings), make_run(settings, "20260102-000000-aaaa")
    with run.lock(newer):
        assert find_interrupted(settings) == older
    assert find_interrupted(settings) == newer


def test_a_run_that_cannot_be_written_is_neither_resumed_nor_being_trained(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    older, newer = make_run(settings), make_run(settings, "20260102-000000-aaaa")
    monkeypatch.setattr(os, "access", lambda path, mode: path != newer)
    (newer / run.LOCK_FILE).mkdir()  # which nobody can lock
    assert find_interrupted(settings) == older
    assert find_running(settings) is None


def test_a_look_at_a_lock_does_not_keep_a_training_from_it(settings: dict[str, Any]) -> None:
    path = make_run(settings)
    (path / run.LOCK_FILE).touch()
    with (path / run.LOCK_FILE).open() as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        assert not run.is_locked(path)
        Timer(0.05, look.close).start()
        with run.lock(path):
            assert run.is_locked(path)
    assert not run.is_locked(path)


@pytest.mark.parametrize(
    ("result", "is_finished"),
    [
        ('{"format": 2, "status": "finished", "seed": 0}', True),
        ('{"format": 2, "status": "failed", "seed": 0}', False),
        ('{"format": 2, "status": "finished", "seed": 1}', False),
        ("{}", False),
        ("[]", False),
        ("{", False),
    ],
)
def test_only_its_status_makes_a_run_finished(settings: dict[str, Any], result: str, is_finished: bool) -> None:
    path = make_run(settings)
    (path / "result.json").write_text(result)
    assert find_finished(settings) == (path if is_finished else None)
    assert find_interrupted(settings) is None


def refuse(settings: dict[str, Any], path: Path) -> Fault:
    """Returns why a run is not resumed."""
    return fault_of(lambda: train(Settings.of(settings), resume=path))


def test_a_finished_run_cannot_be_resumed(tiny_run: Run) -> None:
    fault = refuse(tiny_run.settings, tiny_run.path)
    assert (fault.key, fault.kind) == ("resume", "conflict")
    assert f"from={tiny_run.path}" in fault.message


def test_a_run_without_a_checkpoint_cannot_be_resumed(left: Path) -> None:
    (left / "checkpoints/last.ckpt").unlink()
    assert refuse(run.load(left).settings, left).kind == "missing"


def test_a_damaged_checkpoint_is_named(left: Path) -> None:
    checkpoint = left / "checkpoints/last.ckpt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    fault = refuse(run.load(left).settings, left)
    assert (fault.key, fault.kind) == (str(checkpoint), "damaged")


def test_a_checkpoint_of_another_version_is_named(left: Path) -> None:
    path = left / "checkpoints/last.ckpt"
    checkpoint = torch.load(path, weights_only=True)
    checkpoint["about"] = checkpoint.pop("identity")
    torch.save(checkpoint, path)
    fault = refuse(run.load(left).settings, left)
    assert (fault.key, fault.kind) == (str(path), "damaged")


@pytest.mark.parametrize(("word", "key"), [("data.limit=150", "data"), ("model.encoder.hidden=6", "resume")])
def test_other_rows_and_settings_are_refused(left: Path, word: str, key: str) -> None:
    fault = refuse(override(run.load(left).settings, [word]), left)
    assert (fault.key, fault.kind) == (key, "conflict")


def test_a_running_run_cannot_be_resumed(left: Path) -> None:
    with run.lock(left):
        assert refuse(run.load(left).settings, left).kind == "busy"
