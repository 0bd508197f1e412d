"""The files that are written while a study runs, with trials that are real processes."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from fake_study import engine, slots
from fake_sweep import plan

from sentattn.errors import RunError
from sentattn.sweep.execution.interfaces import TrialOutcome
from sentattn.sweep.execution.scheduler import Scheduler
from sentattn.sweep.report import artifacts, callback
from sentattn.sweep.report.callback import ReportCallback
from sentattn.sweep.report.page import Charts
from sentattn.sweep.spec.plan import Objective
from sentattn.sweep.study.study import SweepStudy


def ended(study: SweepStudy, *values: float, state: str = "complete") -> Any:
    """Asks for a trial, reports how it ended, and returns what callbacks receive."""
    asked = study.ask()
    assert asked is not None
    how = TrialOutcome(state, values=list(values) or None, error="it failed")  # type: ignore[arg-type]
    study.tell(asked.number, how)
    return SimpleNamespace(task=asked, source=study), how


def best_trial(folder: Path) -> int:
    number: int = yaml.safe_load((folder / "best.yaml").read_text())["trial"]
    return number


def test_a_sweep_leaves_best_setting_table_and_report(tmp_path: Path) -> None:
    with ExitStack() as held:
        study = held.enter_context(SweepStudy.open(plan(5), tmp_path))
        report = held.enter_context(ReportCallback(study))
        Scheduler([study], slots(2), engine(tmp_path), [report]).run()
        found = study.records()
    table = pq.read_table(tmp_path / "trials.parquet").to_pydict()
    assert sorted(table["number"]) == [0, 1, 2, 3, 4]
    assert table["x"] == table["val/accuracy"]  # a fake trial reaches its x
    best = max(found, key=lambda one: one.values["x"])
    assert best_trial(tmp_path) == best.number
    assert f"Best setting: trial {best.number}" in (tmp_path / "report.html").read_text()


def test_the_best_setting_is_written_when_it_changes_and_only_then(tmp_path: Path) -> None:
    with SweepStudy.open(plan(5), tmp_path) as study:
        report = ReportCallback(study)
        report.ended(*ended(study, 0.5))
        assert best_trial(tmp_path) == 0
        (tmp_path / "best.yaml").unlink()
        report.ended(*ended(study, 0.4))
        report.ended(*ended(study, state="failed"))
        assert not (tmp_path / "best.yaml").exists()
        report.ended(*ended(study, 0.6))
        assert best_trial(tmp_path) == 3
        assert not (tmp_path / "report.html").exists()


def test_of_equals_the_one_that_started_first_is_the_best_in_any_order(tmp_path: Path) -> None:
    with SweepStudy.open(plan(5), tmp_path) as study:
        report = ReportCallback(study)
        trials = [study.ask() for _ in range(3)]
        for number in (2, 0, 1):
            study.tell(number, TrialOutcome("complete", [0.5]))
            trial: Any = SimpleNamespace(task=trials[number], source=study)
            report.ended(trial, TrialOutcome("complete", values=[0.5]))
            assert best_trial(tmp_path) == study.best()[0].number


def test_a_resumed_study_knows_its_best(tmp_path: Path) -> None:
    with SweepStudy.open(plan(1), tmp_path) as study:
        ended(study, 0.9)
    with SweepStudy.open(plan(5), tmp_path) as study:
        ReportCallback(study).ended(*ended(study, 0.5))
        assert not (tmp_path / "best.yaml").exists()


def test_another_study_of_the_same_sweep_changes_nothing(tmp_path: Path) -> None:
    with SweepStudy.open(plan(1), tmp_path / "a") as own, SweepStudy.open(plan(1), tmp_path / "b") as other:
        ReportCallback(own).ended(*ended(other, 0.9))
        assert not (tmp_path / "a" / "best.yaml").exists()


def wait_for(report: ReportCallback) -> None:
    """Waits until the report's thread is idle."""
    deadline = time.monotonic() + 300
    while not report.is_idle():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_report_is_written_in_a_thread_while_the_study_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callback, "PAUSE", 0.0)
    with SweepStudy.open(plan(5), tmp_path) as study:
        report = ReportCallback(study)
        assert report.tick() is None
        report.ended(*ended(study, 0.5))
        report.tick()
        wait_for(report)
        assert "Best setting: trial 0" in (tmp_path / "report.html").read_text()
        assert report.findings is not None
        assert report.tick() is None  # nothing has changed since


def test_the_end_waits_for_the_thread_and_writes_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callback, "PAUSE", 0.0)
    go, pages, active = threading.Event(), [], []

    def page(findings: Any) -> str:
        active.append(True)
        if len(active) == 1 and not pages:
            go.wait(300)
        pages.append(len(active))
        active.pop()
        return "page"

    monkeypatch.setattr("sentattn.sweep.report.page.page", page)
    with SweepStudy.open(plan(5), tmp_path) as study, ReportCallback(study) as report:
        report.ended(*ended(study, 0.5))
        report.tick()
        threading.Timer(0.2, go.set).start()
    assert pages == [1, 1]  # never two at once


def test_an_error_in_the_thread_is_printed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(callback, "PAUSE", 0.0)
    monkeypatch.setattr(callback, "LOAD", 0.0)
    monkeypatch.setattr("sentattn.sweep.report.page.page", lambda findings: 1 / 0)
    with SweepStudy.open(plan(5), tmp_path) as study:
        report = ReportCallback(study)
        for value in (0.5, 0.6):
            report.ended(*ended(study, value))
            report.tick()
            wait_for(report)
        report.tick()
    assert capsys.readouterr().out.count("division by zero") == 1


def test_a_full_disk_is_printed_once_while_the_study_runs_and_is_an_error_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with SweepStudy.open(plan(5), tmp_path) as study:
        report = ReportCallback(study)
        monkeypatch.setattr(callback, "write_best", full)
        for value in (0.5, 0.6):
            report.ended(*ended(study, value))
        assert capsys.readouterr().out.count("No space left on device") == 1
        with pytest.raises(RunError) as caught, report:
            pass
        assert (caught.value.faults[0].key, caught.value.faults[0].kind) == (str(tmp_path), "unwritable")
        with pytest.raises(KeyError), ReportCallback(study):  # the error that has ended the sweep counts
            raise KeyError
        assert "No space left on device" in capsys.readouterr().out


FIGURES = ["history", "pareto", "importances", "slices", "contour", "curves"]


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_that_fails_costs_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], figure: str
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("nothing to\ndraw")

    monkeypatch.setattr(Charts, figure, fail)
    monkeypatch.setattr(callback, "confirm", lambda *_: {})
    monkeypatch.setattr(callback, "describe_confirmed", lambda *_: "confirmed")
    with SweepStudy.open(plan(12, confirm=2), tmp_path) as study, ReportCallback(study) as report:
        for number in range(12):
            report.ended(*ended(study, number / 20))
        assert report.confirm() == "confirmed"
    assert best_trial(tmp_path) == 11
    page = (tmp_path / "report.html").read_text()
    assert "Best setting: trial 11" in page
    assert ('id="slices"' in page) == (figure != "slices")
    assert capsys.readouterr().out.count("nothing to draw") == 1


@pytest.mark.parametrize("place", ["analysis.importances", "page.draw", "page.page"])
def test_an_error_in_any_part_of_a_report_costs_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("out of range")

    monkeypatch.setattr(f"sentattn.sweep.report.{place}", fail)
    with SweepStudy.open(plan(5), tmp_path) as study, ReportCallback(study) as report:
        for number in range(5):
            report.ended(*ended(study, number / 20))
    assert best_trial(tmp_path) == 4
    assert "out of range" in capsys.readouterr().out
    assert place == "page.page" or "Best setting: trial 4" in (tmp_path / "report.html").read_text()


def test_a_trial_that_joins_the_front_costs_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = (Objective("val/accuracy", "max"), Objective("parameters.total", "min"))
    with SweepStudy.open(plan(9, objectives=two), tmp_path) as study:
        report = ReportCallback(study)
        written: list[Path] = []
        real = artifacts.write_atomically
        monkeypatch.setattr(artifacts, "write_atomically", lambda file, text: (written.append(file), real(file, text)))
        for number in range(6):
            report.ended(*ended(study, number / 9, float(number)))
            assert len(written) <= 2
            assert {file.name for file in (tmp_path / "pareto").iterdir()} == {f"{n}.yaml" for n in range(number + 1)}
            written.clear()
        report.ended(*ended(study, 0.9, 0.0))
        assert [file.name for file in (tmp_path / "pareto").iterdir()] == ["6.yaml"]
