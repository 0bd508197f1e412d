"""The study on W&B, offline, read back from W&B's own files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import wandb_reader
from fake_records import record
from test_callback import ended
from tiny import tiny
from wandb_server import serving

from sentattn.config.compose import compose
from sentattn.sweep.report.analysis import Findings
from sentattn.sweep.report.callback import ReportCallback
from sentattn.sweep.report.wandb import StudyLogger, rows
from sentattn.sweep.spec.plan import Objective
from sentattn.sweep.study.records import Record
from sentattn.sweep.study.study import SweepStudy

OFFLINE = ["logger=wandb", "logger.mode=offline", "logger.project=mine"]
VALUES = {"model.attention.hops": 3, "model/pooling": "mean"}


def trials(count: int) -> list[Any]:
    return [
        record(number, 0.5 + 0.1 * (number % 3), values={"model.attention.hops": 1 + number}) for number in range(count)
    ]


def plan_of(**changed: Any) -> Any:
    import plans

    return plans.plan({"model.attention.hops": "range(1,31)"}, study="big", **changed)


def log(folder: Path, plan: Any, records: list[Record], *settings: str) -> None:
    """Logs trials as a run of a study, and closes it."""
    study: Any = SimpleNamespace(plan=plan, folder=folder)
    logger = StudyLogger(study, compose([*OFFLINE, *settings]), records, resumed=False)
    logger.log(Findings(plan, folder, records))
    logger.finish()


def test_a_row_a_trial_with_the_best_so_far(tmp_path: Path) -> None:
    log(tmp_path, plan_of(), [*trials(3), record(3, None)], "tags=[night]")
    logged = wandb_reader.read(tmp_path)
    run = logged["run"]
    assert (run.display_name, run.run_group, run.job_type, run.project) == ("big", "big", "study", "mine")
    assert run.run_id == "big-260304050607"
    assert "night" in run.tags
    history = logged["history"][:4]
    assert [row["trials"] for row in history] == [1, 2, 3, 4]
    assert [row.get("reached/val/accuracy") for row in history] == pytest.approx([0.5, 0.6, 0.7, None])
    assert [row["best/val/accuracy"] for row in history] == pytest.approx([0.5, 0.6, 0.7, 0.7])
    assert [row["state"] for row in history] == ["complete"] * 3 + ["failed"]
    assert logged["config"]["space"] == {"model.attention.hops": "range(1,31)"}
    assert (logged["summary"]["best_trial"], logged["exit_code"]) == (2, 0)
    [path] = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    metrics = [one.metric for one in wandb_reader.records(path) if one.WhichOneof("record_type") == "metric"]
    axes = {metric.glob_name: metric.step_metric for metric in metrics if metric.glob_name}
    assert axes == {"best/*": "trials", "reached/*": "trials"}


def test_trials_are_logged_once_and_not_those_that_the_server_has(tmp_path: Path) -> None:
    logged: list[dict[str, Any]] = []
    run: Any = SimpleNamespace(summary={"trials": 2}, log=logged.append)
    study: Any = SimpleNamespace(plan=plan_of(), folder=tmp_path)
    logger = StudyLogger(study, compose([*OFFLINE, "logger.mode=offline"]), trials(1), resumed=True)
    logger._guard = SimpleNamespace(attempt=lambda action, _: action(SimpleNamespace(experiment=run)))  # type: ignore[assignment]
    for count in (3, 4, 4):
        logger.log(Findings(plan_of(), tmp_path, [*trials(count), record(9, None, state="running", ended=None)]))
    found = [row for row in logged if "trial" in row]
    assert [(row["trials"], row["trial"]) for row in found] == [(3, 2), (4, 3)]
    assert found[0]["best/val/accuracy"] == pytest.approx(0.7)


def test_importances_contour_and_table_are_logged(tmp_path: Path) -> None:
    import plans

    plan = plans.plan({"model.attention.hops": "range(1,31)", "optimizer.lr": "interval(1e-3,1)"}, study="big")
    records = [
        record(n, 0.5 + n / 100, values={"model.attention.hops": 1 + n, "optimizer.lr": 0.1 + 0.05 * n})
        for n in range(12)
    ]
    log(tmp_path, plan, records)
    row = wandb_reader.read(tmp_path)["history"][12]
    assert (row["trials"], row["table.nrows"]) == (12, 12)
    assert wandb_reader.table(tmp_path, row, "table")[2][:5] == [2, "complete", 3, pytest.approx(0.2), 0.52]
    assert row["importance/PED-ANOVA/val/accuracy_table.nrows"] == 2
    assert row["importance/fANOVA/val/accuracy_table.nrows"] == 2
    [contour] = tmp_path.glob(f"wandb/offline-run-*/files/{row['contour/val/accuracy.path']}")
    assert "optimizer.lr" in contour.read_text()


def test_of_several_objectives_each_is_logged() -> None:
    two = (Objective("val/accuracy", "max"), Objective("latency_ms.one", "min"))
    [row] = rows(plan_of(objectives=two), [record(0, (0.5, 3.0))])
    assert (row["reached/val/accuracy"], row["reached/latency_ms.one"]) == (0.5, 3.0)
    assert not any(name.startswith("best/") for name in row)


def run_a_study(folder: Path, *logger: str, values: Sequence[float] = (0.5, 0.75)) -> None:
    plan = plan_of(overrides=tuple(tiny(*logger)), sampler={"name": "random"})
    with ExitStack() as stack:
        study = stack.enter_context(SweepStudy.open(plan, folder))
        report = stack.enter_context(ReportCallback(study))
        for value in values:
            report.ended(*ended(study, value))


def test_a_study_is_logged_where_its_trials_are_logged(tmp_path: Path) -> None:
    run_a_study(tmp_path, *OFFLINE)
    assert (tmp_path / "report.html").is_file()
    logged = wandb_reader.read(tmp_path)
    assert [row["best/val/accuracy"] for row in logged["history"] if "best/val/accuracy" in row][-1] == 0.75
    assert logged["history"][-2]["table.nrows"] == 2
    [report] = tmp_path.glob(f"wandb/offline-run-*/files/{logged['history'][-1]['report.path']}")
    assert "Best setting: trial 1" in report.read_text()
    assert (logged["summary"]["best_trial"], logged["summary"]["trials/complete"]) == (1, 2)
    assert "best/model.attention.hops" in logged["summary"]


def test_a_study_that_is_continued_offline_logs_all_trials_under_its_id(tmp_path: Path) -> None:
    run_a_study(tmp_path, *OFFLINE)
    first = wandb_reader.read(tmp_path)["run"].run_id
    run_a_study(tmp_path, *OFFLINE, values=[0.25])
    logged = wandb_reader.read(tmp_path)
    assert logged["run"].run_id == first
    assert [row["trials"] for row in logged["history"] if "trial" in row] == [1, 2, 3]


def test_a_study_whose_trials_are_not_logged_is_not_logged(tmp_path: Path) -> None:
    run_a_study(tmp_path, "logger=none")
    assert (tmp_path / "report.html").is_file()
    assert not (tmp_path / "wandb").exists()


@pytest.mark.parametrize("place", ["wandb.init", "sentattn.sweep.report.wandb.media"])
def test_an_error_in_the_thread_costs_a_line_and_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no room")

    monkeypatch.setattr(place, fail)
    run_a_study(tmp_path, *OFFLINE)
    [line] = [line for line in capsys.readouterr().out.splitlines() if "no room" in line]
    assert line.startswith("W&B: ")
    assert (tmp_path / "report.html").is_file()


def test_a_trial_shows_its_values_group_and_number(tmp_path: Path) -> None:
    """Two runs are open at once, as those of a sweep's studies are; neither takes the other's place."""
    from sentattn.errors import Pruned
    from sentattn.loggers import build_loggers
    from sentattn.loggers.wandb.run import TrialCallback, WandbGuard

    settings = compose([*OFFLINE, "group=big"])
    loggers = {}
    for number in (4, 5):
        directory = tmp_path / "trials" / str(number)
        directory.mkdir(parents=True)
        [logger] = build_loggers(settings, directory, setting="abc", study="big")
        assert isinstance(logger, WandbGuard)
        trainer: Any = SimpleNamespace(loggers=[logger])
        TrialCallback(VALUES | {"seed": number}).on_fit_start(trainer, None)  # type: ignore[arg-type]
        loggers[number] = (logger, trainer)
    TrialCallback({}).on_exception(loggers[4][1], None, Pruned())  # type: ignore[arg-type]
    TrialCallback({}).on_exception(loggers[5][1], None, ValueError())  # type: ignore[arg-type]
    for number, (logger, _) in loggers.items():
        logger.finish({"best_epoch": 1}, failed=number == 5)
    for number, (word, code) in {4: ("pruned", 0), 5: ("failed", 1)}.items():
        logged = wandb_reader.read(tmp_path / "trials" / str(number))
        run = logged["run"]
        assert (run.run_group, run.job_type, run.display_name) == ("big", "trial", f"big-{number}")
        assert run.run_id.startswith(f"big-{number}-")
        assert {key: logged["config"][key] for key in VALUES} == VALUES
        assert logged["config"]["seed"] == number
        assert word in run.tags
        assert logged["exit_code"] == code


@pytest.mark.slow
def test_a_sweep_online_makes_the_workspace_of_its_study_and_compare_replaces_it(
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
