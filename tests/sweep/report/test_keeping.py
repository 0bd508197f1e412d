"""What is written while a study runs, with trials that are real processes."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from fake_sweep import plan
from stand_in import FAKE, slots

from sentattn.errors import RunError
from sentattn.sweep.callbacks import TrialOutcome
from sentattn.sweep.member import Member
from sentattn.sweep.owner import Owner
from sentattn.sweep.report import keeping
from sentattn.sweep.report.keeping import Outcome
from sentattn.sweep.study import SweepStudy


def ended(study: SweepStudy, *values: float, state: str = "complete") -> Any:
    """Asks for a trial, tells how it ended, and returns what its onlookers are given."""
    asked = study.ask()
    assert asked is not None
    study.tell(asked.number, list(values) or None, state)  # type: ignore[arg-type]
    how = TrialOutcome(state, values=list(values) or None)  # type: ignore[arg-type]
    return SimpleNamespace(number=asked.number, values=asked.values, arguments=asked.arguments, study=study), how


def best_trial(folder: Path) -> int:
    number: int = yaml.safe_load((folder / "best.yaml").read_text())["trial"]
    return number


def test_a_sweep_leaves_best_setting_table_and_report(tmp_path: Path) -> None:
    with ExitStack() as held:
        study = held.enter_context(SweepStudy.open(plan(5), tmp_path))
        outcome = held.enter_context(Outcome(study))
        own: dict[str, Any] = {"module": FAKE, "warming": None, "folder": tmp_path, "watchers": [outcome]}
        Owner([Member(study)], slots(2), **own).run()
        found = study.records()
    table = pq.read_table(tmp_path / "trials.parquet").to_pydict()
    assert sorted(table["number"]) == [0, 1, 2, 3, 4]
    assert table["x"] == table["val/accuracy"]  # a fake trial reaches its x
    best = max(found, key=lambda one: one.values["x"])
    assert best_trial(tmp_path) == best.number
    assert f"Best setting: trial {best.number}" in (tmp_path / "report.html").read_text()


def test_the_best_setting_is_written_when_it_changes_and_only_then(tmp_path: Path) -> None:
    with SweepStudy.open(plan(5), tmp_path) as study:
        outcome = Outcome(study)
        outcome.ended(*ended(study, 0.5))
        assert best_trial(tmp_path) == 0
        (tmp_path / "best.yaml").unlink()
        outcome.ended(*ended(study, 0.4))
        outcome.ended(*ended(study, state="failed"))
        assert not (tmp_path / "best.yaml").exists()
        outcome.ended(*ended(study, 0.6))
        assert best_trial(tmp_path) == 3
        assert not (tmp_path / "report.html").exists()


def test_of_equals_the_one_that_began_first_is_the_best_in_whatever_order_they_end(tmp_path: Path) -> None:
    with SweepStudy.open(plan(5), tmp_path) as study:
        outcome = Outcome(study)
        trials = [study.ask() for _ in range(3)]
        for number in (2, 0, 1):
            study.tell(number, [0.5])
            trial: Any = SimpleNamespace(number=number, values=trials[number].values, study=study)
            outcome.ended(trial, TrialOutcome("complete", values=[0.5]))
            assert best_trial(tmp_path) == study.best()[0].number


def test_a_study_that_goes_on_knows_its_best(tmp_path: Path) -> None:
    with SweepStudy.open(plan(1), tmp_path) as study:
        ended(study, 0.9)
    with SweepStudy.open(plan(5), tmp_path) as study:
        Outcome(study).ended(*ended(study, 0.5))
        assert not (tmp_path / "best.yaml").exists()


def test_another_study_of_the_same_sweep_changes_nothing(tmp_path: Path) -> None:
    with SweepStudy.open(plan(1), tmp_path / "a") as own, SweepStudy.open(plan(1), tmp_path / "b") as other:
        Outcome(own).ended(*ended(other, 0.9))
        assert not (tmp_path / "a" / "best.yaml").exists()


def test_the_report_is_written_now_and_then_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "PAUSE", 0.0)
    with SweepStudy.open(plan(5), tmp_path) as study:
        outcome = Outcome(study)
        assert outcome.tick() is None
        outcome.ended(*ended(study, 0.5))
        outcome.tick()
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and thread.daemon:
                thread.join(10)
        assert "Best setting: trial 0" in (tmp_path / "report.html").read_text()
        assert outcome.findings is not None
        assert outcome.tick() is None  # nothing has changed since


def test_a_fault_while_it_runs_is_told_once_and_at_the_end_it_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with SweepStudy.open(plan(5), tmp_path) as study:
        outcome = Outcome(study)
        monkeypatch.setattr(keeping, "write_best", full)
        for value in (0.5, 0.6):
            outcome.ended(*ended(study, value))
        assert capsys.readouterr().out.count("No space left on device") == 1
        with pytest.raises(RunError, match="No space left on device"), outcome:
            pass
        with pytest.raises(KeyError), Outcome(study):  # what has ended the sweep is the fault that counts
            raise KeyError
        assert "No space left on device" in capsys.readouterr().out
