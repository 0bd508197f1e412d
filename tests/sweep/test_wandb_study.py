"""The study on W&B, offline, read back from W&B's own files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import wandb_reader
from fake_records import BEGAN, record, study_of
from optuna.trial import FrozenTrial
from plans import HOPS, plan
from wandb_server import serving

from sentattn.config.compose import compose
from sentattn.sweep.plan import Objective, Plan
from sentattn.sweep.report import write_report
from sentattn.sweep.wandb import log_study

OFFLINE = ["logger=wandb", "logger.mode=offline", "logger.project=mine"]
VALUES = {"model.attention.hops": 3, "model/pooling": "mean"}


def trials(count: int) -> list[Any]:
    return [
        record(number, 0.5 + 0.1 * (number % 3), values={"model.attention.hops": 1 + number}) for number in range(count)
    ]


def plan_of(**changed: Any) -> Plan:
    return plan(HOPS, study="big", **({"overrides": tuple(OFFLINE)} | changed))


def log(folder: Path, plan: Plan, found: Sequence[FrozenTrial]) -> None:
    """Writes the report of a study that has ended, and logs it."""
    study = study_of(plan, found)
    write_report(plan, folder, study)
    log_study(plan, folder, study)


def test_a_study_is_one_run_with_table_importances_and_report(tmp_path: Path) -> None:
    one = plan(
        {**HOPS, "optimizer.lr": "interval(1e-3,1)"},
        study="big",
        overrides=(*OFFLINE, "tags=[night]"),
    )
    found = [
        record(n, 0.5 + n / 100, values={"model.attention.hops": 1 + n, "optimizer.lr": 0.1 + 0.05 * n})
        for n in range(12)
    ]
    log(tmp_path, one, [*found, record(12, None)])
    logged = wandb_reader.read(tmp_path)
    run, summary = logged["run"], logged["summary"]
    assert (run.display_name, run.run_group, run.job_type, run.project) == ("big", "big", "study", "mine")
    assert run.run_id == "big-260304050607"
    assert "night" in run.tags
    assert logged["config"]["space"]["model.attention.hops"] == "range(1,31)"
    assert (summary["best_trial"], summary["best/model.attention.hops"]) == (11, 12)
    assert summary["best/val/accuracy"] == pytest.approx(0.61)
    assert (summary["trials/complete"], summary["trials/failed"], logged["exit_code"]) == (12, 1, 0)
    [row] = logged["history"]
    assert row["table.nrows"] == 13
    assert wandb_reader.table(tmp_path, row, "table")[2][:5] == [2, "complete", 3, pytest.approx(0.2), 0.52]
    assert row["importance_table.nrows"] == 2
    [report] = tmp_path.glob(f"wandb/offline-run-*/files/{row['report.path']}")
    assert "Best setting: trial 11" in report.read_text()


def test_a_study_that_is_continued_keeps_its_run_and_nothing_is_logged_twice(tmp_path: Path) -> None:
    one = plan_of(objectives=(Objective("val/accuracy", "max"), Objective("latency_ms.one", "min")))
    found = [record(number, (0.5, 3.0), values={"model.attention.hops": 3}) for number in range(2)]
    for _ in range(2):
        log(tmp_path, one, found)
        [folder] = tmp_path.glob("wandb/offline-run-*")
    first = wandb_reader.read(tmp_path)["run"].run_id
    os.utime(folder, (0, BEGAN.timestamp()))  # before the last trial ended
    log(tmp_path, one, [*found, record(2, (0.9, 2.0), values={"model.attention.hops": 5})])
    logged = wandb_reader.read(tmp_path)
    assert logged["run"].run_id == first
    best = [logged["summary"][key] for key in ("best_trial", "best/val/accuracy", "best/latency_ms.one")]
    assert best == [2, 0.9, 2.0]


def test_a_study_whose_trials_are_not_logged_is_not_logged(tmp_path: Path) -> None:
    log(tmp_path, plan_of(overrides=("logger=none",)), trials(2))
    assert not (tmp_path / "wandb").exists()


@pytest.mark.parametrize("place", ["wandb.init", "sentattn.sweep.wandb.media", "sentattn.sweep.wandb._log"])
def test_an_error_costs_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no room")

    monkeypatch.setattr(place, fail)
    log(tmp_path, plan_of(), trials(2))
    [line] = [line for line in capsys.readouterr().out.splitlines() if "no room" in line]
    assert line.startswith("W&B: ")
    assert (tmp_path / "report.html").is_file()


def test_a_trial_shows_its_values_group_and_number(tmp_path: Path) -> None:
    """Two runs are open at once, as those of a sweep's studies are; neither takes the other's place."""
    from sentattn.loggers import LoggedRun, build_loggers
    from sentattn.loggers.wandb.run import TrialCallback, WandbGuard

    settings = compose([*OFFLINE, "group=big"])
    loggers = {}
    for number in (4, 5):
        directory = tmp_path / "trials" / str(number)
        directory.mkdir(parents=True)
        [logger] = build_loggers(LoggedRun(directory, settings, "abc", study="big"))
        assert isinstance(logger, WandbGuard)
        trainer: Any = SimpleNamespace(loggers=[logger])
        TrialCallback(VALUES | {"seed": number}).on_fit_start(trainer, None)  # type: ignore[arg-type]
        loggers[number] = logger
    for number, logger in loggers.items():
        logger.finish({"best_epoch": 1}, failed=number == 5)
    for number, code in {4: 0, 5: 1}.items():
        logged = wandb_reader.read(tmp_path / "trials" / str(number))
        run = logged["run"]
        assert (run.run_group, run.job_type) == ("big", "trial")
        assert run.display_name.startswith(f"big-{number} ")
        assert f"seed={number}" in run.display_name
        assert run.run_id.startswith(f"big-{number}-")
        assert {key: logged["config"][key] for key in VALUES} == VALUES
        assert logged["config"]["seed"] == number
        assert logged["exit_code"] == code


@pytest.mark.slow
def test_a_sweep_is_logged_online_and_compare_makes_its_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    small = ["data.limit=200", "trainer.max_epochs=1", "study=mine", "trials=3", "slots=1", "threads=1"]
    with serving() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.address)
        for command in (["sentattn.sweep", *small], ["sentattn.compare", "outputs/sweeps/mine", "to=wandb"]):
            done = subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        assert "workspace" in done.stdout
        assert [view["displayName"] for view in server.views.values()] == ["study mine"] * 2
    assert len([name for name in server.runs if name.startswith("mine-")]) == 4  # the study and its trials
