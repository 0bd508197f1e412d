"""The files that are written while a study runs and when it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from fake_records import record
from plans import plan

from sentattn.errors import RunError
from sentattn.sweep import search
from sentattn.sweep.report import artifacts
from sentattn.sweep.report.page import Charts, write_report
from sentattn.sweep.search import ReportWriter
from sentattn.sweep.spec.plan import Objective, Plan
from sentattn.sweep.study.records import Record, front

HOPS = {"model.attention.hops": "range(1,31)"}


@dataclass
class FakeStudy:
    """A study whose trials are appended to a list."""

    folder: Path
    plan: Plan = field(default_factory=lambda: plan(HOPS))
    trials: list[Record] = field(default_factory=list)

    def add(self, *objectives: float | None) -> FakeStudy:
        """Ends trials that have reached these values."""
        for value in objectives:
            number = len(self.trials)
            self.trials.append(record(number, value, values={"model.attention.hops": 1 + number}))
        return self

    @property
    def front(self) -> set[int]:
        return {best.number for best in self.best_trials()}

    def best_trials(self) -> list[Record]:
        return front(self.trials, self.plan.modes)

    def records(self) -> Sequence[Record]:
        return [*self.trials]

    def finished(self) -> int:
        return len(self.trials)

    def over(self) -> str:
        return ""


def writer(study: Any) -> ReportWriter:
    return ReportWriter(study)


def best_trial(folder: Path) -> int:
    number: int = yaml.safe_load((folder / "best.yaml").read_text())["trial"]
    return number


def wait_for(file: Path) -> str:
    """Returns the text of a file as soon as a thread has written it."""
    deadline = time.monotonic() + 300
    while not file.is_file():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return file.read_text()


def test_a_study_leaves_best_setting_table_and_report(tmp_path: Path) -> None:
    study = FakeStudy(tmp_path).add(0.5, 0.75, None)
    with writer(study):
        pass
    assert pq.read_table(tmp_path / "trials.parquet").to_pydict()["val/accuracy"] == [0.5, 0.75, None]
    assert best_trial(tmp_path) == 1
    assert "Best setting: trial 1" in (tmp_path / "report.html").read_text()


def test_the_best_setting_is_written_when_it_changes_and_only_then(tmp_path: Path) -> None:
    study = FakeStudy(tmp_path).add(0.5)
    report = writer(study)
    report.tick()
    assert best_trial(tmp_path) == 0
    (tmp_path / "best.yaml").unlink()
    study.add(0.4, None)
    report.tick()
    assert not (tmp_path / "best.yaml").exists()
    study.add(0.6)
    report.tick()
    assert best_trial(tmp_path) == 3
    assert not (tmp_path / "report.html").exists()


def test_the_report_is_written_in_a_thread_while_the_study_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "PAUSE", 0.0)
    study = FakeStudy(tmp_path)
    report = writer(study)
    report.tick()
    study.add(0.5)
    report.tick()
    assert "Best setting: trial 0" in wait_for(tmp_path / "report.html")


def test_the_end_waits_for_the_thread_and_writes_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PAUSE", 0.0)
    go, pages, active = threading.Event(), [], []

    def page(findings: Any) -> str:
        active.append(True)
        if not pages:
            go.wait(300)
        pages.append(len(active))
        active.pop()
        return "page"

    monkeypatch.setattr("sentattn.sweep.report.page.page", page)
    study = FakeStudy(tmp_path)
    with writer(study) as report:
        study.add(0.5)
        report.tick()
        threading.Timer(0.2, go.set).start()
    assert pages == [1, 1]  # never two at once


def test_a_report_that_took_long_waits_longer_for_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PAUSE", 0.0)
    pages: list[str] = []

    def page(findings: Any) -> str:
        time.sleep(0.1)
        pages.append("page")
        return "page"

    monkeypatch.setattr("sentattn.sweep.report.page.page", page)
    study = FakeStudy(tmp_path)
    with writer(study) as report:
        study.add(0.5)
        report.tick()
        wait_for(tmp_path / "report.html")
        for _ in range(20):
            study.add(0.5)
            report.tick()
            time.sleep(0.01)
        assert len(pages) == 1
    assert len(pages) == 2


def test_an_error_is_printed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(search, "PAUSE", 0.0)
    monkeypatch.setattr(search, "LOAD", 0.0)
    monkeypatch.setattr("sentattn.sweep.report.page.page", lambda findings: 1 / 0)
    study = FakeStudy(tmp_path)
    with writer(study) as report:
        for value in (0.5, 0.6):
            (tmp_path / "trials.parquet").unlink(missing_ok=True)
            study.add(value)
            report.tick()
            wait_for(tmp_path / "best.yaml")
    assert capsys.readouterr().out.count("division by zero") == 1
    assert best_trial(tmp_path) == 1


def test_a_full_disk_is_printed_once_while_the_study_runs_and_is_an_error_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    study = FakeStudy(tmp_path)
    monkeypatch.setattr(search, "write_best", full)
    report = writer(study)
    for value in (0.5, 0.6):
        study.add(value)
        report.tick()
    assert capsys.readouterr().out.count("No space left on device") == 1
    with pytest.raises(RunError) as caught, report:
        pass
    assert (caught.value.faults[0].key, caught.value.faults[0].kind) == (str(tmp_path), "unwritable")
    with pytest.raises(KeyError), writer(study):  # the error that has ended the sweep counts
        raise KeyError
    assert "No space left on device" in capsys.readouterr().out


@pytest.mark.parametrize("figure", ["history", "pareto", "importances", "slices", "curves"])
def test_a_figure_that_fails_costs_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: str) -> None:
    def fail(*_: object) -> None:
        raise ValueError("nothing to draw")

    monkeypatch.setattr(Charts, figure, fail)
    study = FakeStudy(tmp_path).add(*(number / 20 for number in range(12)))
    [line] = write_report(study.plan, tmp_path, study.trials)
    assert "nothing to draw" in line
    page = (tmp_path / "report.html").read_text()
    assert "Best setting: trial 11" in page
    assert ('id="slices"' in page) == (figure != "slices")


@pytest.mark.parametrize("place", ["analysis.importances", "page.draw", "page.page"])
def test_an_error_in_any_part_of_a_report_costs_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("out of range")

    monkeypatch.setattr(f"sentattn.sweep.report.{place}", fail)
    study = FakeStudy(tmp_path).add(*(number / 20 for number in range(5)))
    lines = write_report(study.plan, tmp_path, study.trials)
    assert lines
    assert all("out of range" in line for line in lines)
    assert pq.read_table(tmp_path / "trials.parquet").num_rows == 5
    assert place == "page.page" or "Best setting: trial 4" in (tmp_path / "report.html").read_text()


def test_a_trial_that_joins_the_front_costs_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = plan(HOPS, objectives=(Objective("val/accuracy", "max"), Objective("parameters.total", "min")))
    written: list[Path] = []
    real = artifacts.write_atomically
    monkeypatch.setattr(artifacts, "write_atomically", lambda file, text: (written.append(file), real(file, text)))
    found = [record(n, (n / 9, float(n)), values={"model.attention.hops": 1 + n}) for n in range(6)]
    for count in range(1, 7):
        artifacts.write_best(one, tmp_path, front(found[:count], one.modes))
        assert len(written) <= 2
        assert {file.name for file in (tmp_path / "pareto").iterdir()} == {f"{n}.yaml" for n in range(count)}
        written.clear()
    best = record(6, (0.9, 0.0), values={"model.attention.hops": 7})
    artifacts.write_best(one, tmp_path, front([*found, best], one.modes))
    assert [file.name for file in (tmp_path / "pareto").iterdir()] == ["6.yaml"]
