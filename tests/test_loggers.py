"""W&B beside the record: an offline run read back, and what happens when W&B fails."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import wandb
from tiny import tiny
from wandb_reader import read

from sentattn import loggers
from sentattn.loggers import WandbMirror
from sentattn.training.fitting import fit

SETTINGS: dict[str, Any] = {"model": {"name": "mean"}, "data": {"name": "demo"}, "group": None, "tags": ["try"]}


def mirror(directory: Path, **extra: Any) -> WandbMirror:
    arguments = {"directory": directory, "run_id": "20260101-000000-abcd", "settings": SETTINGS, "setting": "5e77"}
    return WandbMirror(**{**arguments, **extra})


def test_offline_run_holds_settings_curves_by_epoch_and_the_best_epoch(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = fit(tiny(f"output_dir={tmp_path}", "logger=wandb", "tags=[try]"))
    kept = read(run.path)
    assert kept["config"]["model"]["attention"]["hops"] == run.settings["model"]["attention"]["hops"]
    assert kept["config"]["seed"] == 0
    assert {"structured", "demo", "try"} == set(kept["run"].tags)
    assert kept["run"].run_group == f"demo-structured-{run.result['setting']}"
    assert kept["run"].job_type == "train"
    rows = [row for row in kept["history"] if "val/accuracy" in row]
    assert [row["epoch"] for row in rows] == [1, 2]
    assert all("train/loss" in row for row in kept["history"] if "val/accuracy" not in row)
    assert kept["summary"]["best_epoch"] == run.result["best_epoch"]
    assert kept["summary"]["val/accuracy"] == pytest.approx(run.metrics["val/accuracy"])
    assert kept["summary"]["test/accuracy"] == pytest.approx(run.metrics["test/accuracy"])
    assert kept["exit_code"] == 0
    shown = capfd.readouterr()
    assert "wandb sync" in shown.out
    assert "wandb:" not in shown.err


def failing(*_: Any, **__: Any) -> Any:
    raise OSError(28, "No space left on device")


def test_a_failing_start_is_told_once_and_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wandb, "init", failing)
    run = fit(tiny(f"output_dir={tmp_path}", "logger=wandb", "trainer.max_epochs=1", "test=false"))
    assert run.result["status"] == "finished"
    assert capsys.readouterr().out.count("No space left on device") == 1


def test_a_failure_later_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = mirror(tmp_path)
    broken.start()
    assert broken._run is not None
    broken._run.finish()
    for _ in range(3):
        broken.log_metrics({"val/accuracy": 0.5, "epoch": 0})
    broken.finish({"val/accuracy": 0.5})
    assert capsys.readouterr().out.count("the run goes on without it") == 1


def test_a_server_that_takes_nothing_means_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    init = wandb.init

    def refusing(**arguments: Any) -> Any:
        if arguments["mode"] == "online":
            raise wandb.errors.CommError("timed out")
        return init(**arguments)

    monkeypatch.setattr(wandb, "init", refusing)
    kept = mirror(tmp_path, mode="online")
    assert "offline" in kept.start()
    kept.finish({})
    assert "did not take the run (timed out)" in capsys.readouterr().out
    assert read(tmp_path)["exit_code"] == 0


def test_a_server_that_hangs_at_the_end_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loggers, "FINISH_SECONDS", 0.05)
    hanging = mirror(tmp_path)
    hanging.start()
    release = threading.Event()
    run = hanging._run
    assert run is not None
    finish = run.finish
    monkeypatch.setattr(run, "finish", lambda **_: release.wait(10))
    hanging.finish({})
    assert "the upload was not done" in capsys.readouterr().out
    release.set()
    finish()


@pytest.mark.parametrize(
    ("key", "netrc", "expected"),
    [
        (None, "", "offline"),
        ("a" * 40, "", "online"),
        (None, "machine api.wandb.ai login user password " + "a" * 40 + "\n", "online"),
        (None, "machine example.org login user password x\n", "offline"),
        (None, "nonsense", "offline"),
    ],
)
def test_online_only_where_a_key_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None, netrc: str, expected: str
) -> None:
    (tmp_path / "netrc").write_text(netrc)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    if key:
        monkeypatch.setenv("WANDB_API_KEY", key)
    assert loggers._configured_mode() == expected
