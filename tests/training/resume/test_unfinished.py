"""Which run directories are interrupted, and which are finished."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sentattn import run
from sentattn.config.compose import compose
from sentattn.training.resume.unfinished import finished, unfinished


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    return compose([f"output_dir={tmp_path}"])


def made(settings: dict[str, Any], name: str = "20260101-000000-aaaa", **changed: Any) -> Path:
    """An interrupted run."""
    path = Path(settings["output_dir"]) / "demo" / "structured" / name
    (path / "checkpoints").mkdir(parents=True)
    (path / "checkpoints" / "last.ckpt").touch()
    (path / "config.yaml").write_text(yaml.safe_dump(settings | changed))
    return path


def test_there_is_none(settings: dict[str, Any]) -> None:
    assert unfinished(settings) is None
    assert finished(settings) is None


def test_the_newest_interrupted_run(settings: dict[str, Any]) -> None:
    made(settings)
    newest = made(settings, "20260102-000000-aaaa")
    made(settings, "20260101-235959-ffff")
    assert unfinished(settings) == newest


def test_what_has_no_effect_on_the_result_may_differ(settings: dict[str, Any]) -> None:
    path = made(settings, tags=["a"], logger={"_target_": "sentattn.loggers.no_logger"})
    assert unfinished(settings) == path


@pytest.mark.parametrize(
    "changed", [{"seed": 1}, {"test": False}, {"ema_decay": 0.5}, {"data": {"vectors": "a.txt"}}, {"data": None}]
)
def test_a_run_of_other_settings_is_left_alone(settings: dict[str, Any], changed: dict[str, Any]) -> None:
    made(settings, **changed)
    assert unfinished(settings) is None


def test_other_vectors_are_another_training(settings: dict[str, Any]) -> None:
    made(settings, data=settings["data"] | {"vectors": "glove.6B.100d"})
    assert unfinished(settings) is None


def test_a_run_before_its_first_checkpoint_is_none_to_resume(settings: dict[str, Any]) -> None:
    (made(settings) / "checkpoints" / "last.ckpt").unlink()
    assert unfinished(settings) is None


@pytest.mark.parametrize("config", ["", "a: [", "- 1", "seed: 2020-01-01"])
def test_damaged_settings_are_passed_over(settings: dict[str, Any], config: str) -> None:
    path = made(settings)
    (made(settings, "20260102-000000-aaaa") / "config.yaml").write_text(config)
    assert unfinished(settings) == path


def test_a_run_that_is_being_trained_is_left_alone(settings: dict[str, Any]) -> None:
    older, newer = made(settings), made(settings, "20260102-000000-aaaa")
    with run.lock(newer):
        assert unfinished(settings) == older
    assert unfinished(settings) == newer


def test_looking_does_not_lock(settings: dict[str, Any]) -> None:
    path = made(settings)
    assert unfinished(settings) == path
    with run.lock(path):
        pass


@pytest.mark.parametrize(
    ("result", "is_finished"),
    [
        ('{"status": "finished", "seed": 0}', True),
        ('{"status": "failed", "seed": 0}', False),
        ('{"status": "finished", "seed": 1}', False),
        ("{}", False),
        ("[]", False),
        ("{", False),
    ],
)
def test_only_its_status_makes_a_run_finished(settings: dict[str, Any], result: str, is_finished: bool) -> None:
    path = made(settings)
    (path / "result.json").write_text(result)
    assert finished(settings) == (path if is_finished else None)
    assert unfinished(settings) is None


def test_a_finished_run_of_other_settings_is_not_the_one(settings: dict[str, Any]) -> None:
    (made(settings, ema_decay=None) / "result.json").write_text('{"status": "finished", "seed": 0}')
    assert finished(settings) is None
