"""The study on W&B, offline, read back from W&B's own files."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import wandb_reader
from made import BEGAN, record
from test_callback import ended
from tiny import tiny

from sentattn.config.compose import compose
from sentattn.sweep.objective import Objective
from sentattn.sweep.report import report_callbacks
from sentattn.sweep.report.artifacts import CostReader
from sentattn.sweep.report.callback import findings
from sentattn.sweep.report.searched import Searched
from sentattn.sweep.report.study_run import StudyRun
from sentattn.sweep.study import SweepStudy

OFFLINE = ["logger=wandb", "logger.mode=offline", "logger.project=mine"]
VALUES = {"model.attention.hops": 3, "model/pooling": "mean"}


def trials(count: int) -> list[Any]:
    return [
        record(number, 0.5 + 0.1 * (number % 3), values={"model.attention.hops": 1 + number}) for number in range(count)
    ]


def one(**changed: Any) -> Any:
    import plans

    return plans.plan({"model.attention.hops": "range(1,31)"}, study="big", **changed)


def test_a_row_a_trial_with_the_best_so_far(tmp_path: Path) -> None:
    settings = compose([*OFFLINE, "tags=[night]"])
    run = StudyRun(one(), tmp_path, settings, BEGAN, past=[])
    for trial in [*trials(3), record(3, None)]:
        run.row(trial)
    run.end({"best_trial": 2})
    found = wandb_reader.read(tmp_path)
    about = found["run"]
    assert (about.display_name, about.run_group, about.job_type, about.project) == ("big", "big", "study", "mine")
    assert about.run_id == "big-260304050607"
    assert "night" in about.tags
    rows = found["history"]
    assert [row["trials"] for row in rows] == [1, 2, 3, 4]
    assert [row.get("reached/val/accuracy") for row in rows] == pytest.approx([0.5, 0.6, 0.7, None])
    assert [row["best/val/accuracy"] for row in rows] == pytest.approx([0.5, 0.6, 0.7, 0.7])
    assert [row["state"] for row in rows] == ["complete"] * 3 + ["failed"]
    assert found["config"]["space"] == {"model.attention.hops": "range(1,31)"}
    assert (found["summary"]["best_trial"], found["exit_code"]) == (2, 0)


def test_a_study_that_goes_on_offline_shows_all_again_under_its_id(tmp_path: Path) -> None:
    run = StudyRun(one(), tmp_path, compose(OFFLINE), BEGAN, past=trials(2))
    run.row(trials(3)[2])
    run.end({})
    found = wandb_reader.read(tmp_path)
    assert found["run"].run_id == "big-260304050607"
    assert [row["trials"] for row in found["history"]] == [1, 2, 3]


def test_importances_contour_table_and_report_are_shown(tmp_path: Path) -> None:
    import plans

    plan = plans.plan({"model.attention.hops": "range(1,31)", "optimizer.lr": "interval(1e-3,1)"}, study="big")
    found = [
        record(n, 0.5 + n / 100, values={"model.attention.hops": 1 + n, "optimizer.lr": 0.1 + 0.05 * n})
        for n in range(12)
    ]
    run = StudyRun(plan, tmp_path, compose(OFFLINE), BEGAN, past=[])
    run.row(found[0])
    run.picture(findings(plan, tmp_path, found, CostReader(tmp_path)))
    run.end({})
    row = wandb_reader.read(tmp_path)["history"][1]
    assert (row["trials"], row["table.nrows"]) == (1, 12)
    assert wandb_reader.table(tmp_path, row, "table")[2][:5] == [2, "complete", 3, pytest.approx(0.2), 0.52]
    assert row["importance/ped_anova/val/accuracy_table.nrows"] == 2
    assert row["importance/fanova/val/accuracy_table.nrows"] == 2
    [contour] = tmp_path.glob(f"wandb/offline-run-*/files/{row['contour/val/accuracy.path']}")
    assert "optimizer.lr" in contour.read_text()
    [report] = tmp_path.glob(f"wandb/offline-run-*/files/{row['report.path']}")
    assert "Best setting: trial 11" in report.read_text()


def test_of_several_objectives_each_is_shown(tmp_path: Path) -> None:
    two = (Objective("val/accuracy", "max"), Objective("latency_ms.one", "min"))
    run = StudyRun(one(objectives=two), tmp_path, compose(OFFLINE), BEGAN, past=[])
    run.row(record(0, (0.5, 3.0)))
    run.end({})
    [row] = wandb_reader.read(tmp_path)["history"]
    assert (row["reached/val/accuracy"], row["reached/latency_ms.one"]) == (0.5, 3.0)
    assert not any(name.startswith("best/") for name in row)


@pytest.mark.parametrize("logger", [["logger=none"], OFFLINE])
def test_an_onlooker_mirrors_a_study_where_its_trials_are_mirrored(tmp_path: Path, logger: list[str]) -> None:
    plan = one(overrides=tuple(tiny(*logger)), sampler={"name": "random"})
    with ExitStack() as held:
        study = held.enter_context(SweepStudy.open(plan, tmp_path))
        outcome, mirror = report_callbacks(study, held)
        for value in (0.5, 0.75):
            trial, how = ended(study, value)
            mirror.started(trial)
            outcome.ended(trial, how)
            mirror.ended(trial, how)
            mirror.tick()
    assert (tmp_path / "report.html").is_file()
    if logger != OFFLINE:
        assert not (tmp_path / "wandb").exists()
        return
    found = wandb_reader.read(tmp_path)
    assert [row["best/val/accuracy"] for row in found["history"] if "best/val/accuracy" in row][-1] == 0.75
    assert found["history"][-1]["table.nrows"] == 2
    assert (found["summary"]["best_trial"], found["summary"]["trials/complete"]) == (1, 2)
    assert "best/model.attention.hops" in found["summary"]


def test_a_fault_costs_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import wandb

    def refuse(**_: Any) -> None:
        raise OSError("no room")

    monkeypatch.setattr(wandb, "init", refuse)
    run = StudyRun(one(), tmp_path, compose(OFFLINE), BEGAN, past=[])
    run.row(trials(1)[0])
    run.end({})
    assert capsys.readouterr().out.count("\n") == 1


def test_a_trial_shows_its_values_group_and_number(tmp_path: Path) -> None:
    """Two runs are open at once, as those of a sweep's studies are; neither takes the other's place."""
    from types import SimpleNamespace

    from sentattn.build import build_logger
    from sentattn.errors import Pruned
    from sentattn.loggers.wandb import WandbGuard

    settings = compose([*OFFLINE, "group=big"])
    loggers = {}
    for number in (4, 5):
        directory = tmp_path / "trials" / str(number)
        directory.mkdir(parents=True)
        logger = build_logger(settings, directory, setting="abc", study="big")
        assert isinstance(logger, WandbGuard)
        trainer: Any = SimpleNamespace(logger=logger)
        Searched(VALUES | {"seed": number}).on_fit_start(trainer, None)  # type: ignore[arg-type]
        loggers[number] = (logger, trainer)
    Searched({}).on_exception(loggers[4][1], None, Pruned())  # type: ignore[arg-type]
    Searched({}).on_exception(loggers[5][1], None, ValueError())  # type: ignore[arg-type]
    for number, (logger, _) in loggers.items():
        logger.finish({"best_epoch": 1}, failed=number == 5)
    for number, (word, code) in {4: ("pruned", 0), 5: ("failed", 1)}.items():
        found = wandb_reader.read(tmp_path / "trials" / str(number))
        about = found["run"]
        assert (about.run_group, about.job_type, about.display_name) == ("big", "trial", f"big-{number}")
        assert about.run_id.startswith(f"big-{number}-")
        assert {key: found["config"][key] for key in VALUES} == VALUES
        assert found["config"]["seed"] == number
        assert word in about.tags
        assert found["exit_code"] == code
