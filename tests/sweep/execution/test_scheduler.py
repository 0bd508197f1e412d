"""The scheduler, with trials that are real processes and do what trials do, up to dying."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from fake_study import Listed, Noted, engine, prepared, scheduler, slots
from processes import gone, when

from sentattn.errors import Interruption, RunError
from sentattn.sweep.execution import scheduler as scheduling
from sentattn.sweep.execution.scheduler import Scheduler, StopSignals


def test_as_many_trials_as_the_budget_asks_for_and_never_more_at_once_than_slots(tmp_path: Path) -> None:
    study, noted = Listed([[f"x={number}", "sleep=0.02"] for number in range(20)]), Noted()
    scheduler(tmp_path, study, count=3, trials=7, callbacks=[noted]).run()
    assert study.results == {number: ("complete", [float(number)], "") for number in range(7)}
    assert noted.most == 3
    assert {name for _, name in noted.starts} == {"CPU 1", "CPU 2", "CPU 3"}
    assert (tmp_path / "trials" / "6" / "log.txt").read_text() == "acting \n"


def test_each_step_is_reported_and_a_pruned_trial_counts(tmp_path: Path) -> None:
    study = Listed([["x=1", "epochs=3"], ["x=0.5", "epochs=3"]], prune=lambda number, step, _: (number, step) == (1, 2))
    scheduler(tmp_path, study, count=1, trials=2).run()
    assert study.results == {0: ("complete", [1.0], ""), 1: ("pruned", None, "")}
    assert study.reports == [(0, 1, 1.0), (0, 2, 1.0), (0, 3, 1.0), (1, 1, 0.5), (1, 2, 0.5)]


def test_a_killed_trial_is_tried_again_and_takes_no_other_down(tmp_path: Path) -> None:
    study, noted = Listed([["act=once", "x=7"], ["x=1", "sleep=0.2"]]), Noted()
    scheduler(tmp_path, study, trials=2, callbacks=[noted]).run()
    state, _, note = study.results[0]
    assert state == "failed"
    assert "SIGKILL" in note
    assert note.endswith("\nacting once")
    assert study.retried == [0]
    assert study.results[1] == ("complete", [1.0], "")
    assert study.results[2] == ("complete", [7.0], "")


@pytest.mark.parametrize(
    ("act", "reason", "line"),
    [
        ("raise", "it ended with exit code 1", "ValueError: nothing works"),
        ("crash", "it ended with exit code 3", "\N{REPLACEMENT CHARACTER} torn"),
    ],
)
def test_an_error_is_kept_with_the_last_lines_of_the_log_and_tried_again(
    tmp_path: Path, act: str, reason: str, line: str
) -> None:
    study, noted = Listed([[f"act={act}"]]), Noted()
    scheduler(tmp_path, study, trials=1, callbacks=[noted]).run()
    [first, second, last] = [how for _, how in noted.outcomes]
    assert first.error == second.error == reason
    assert first.log_lines[-1] == line
    assert study.results[0][2].startswith(f"{reason}\n")
    assert last.state == "complete"


def test_a_setting_that_is_refused_is_not_tried_again(tmp_path: Path) -> None:
    study, noted = Listed([["act=refuse"]]), Noted()
    scheduler(tmp_path, study, trials=1, callbacks=[noted]).run()
    assert study.results[0] == ("failed", None, "x must be 2.")
    assert study.retried == []


def test_a_trial_whose_last_message_breaks_off_has_failed(tmp_path: Path) -> None:
    study, noted = Listed([["act=torn"]]), Noted()
    scheduler(tmp_path, study, trials=1, callbacks=[noted]).run()
    assert study.results[0][0] == "failed"
    assert study.results[0][2].startswith("it ended without a result")


def test_a_trial_that_hangs_is_killed(tmp_path: Path) -> None:
    study, noted = Listed([["act=hang"]], retries=1), Noted()
    scheduler(tmp_path, study, count=1, trials=1, limit_minutes=0.3 / 60, callbacks=[noted]).run()
    assert "limit_minutes=0.005" in study.results[0][2]
    assert study.retried == [], "it would take as long again"
    assert study.results[1][0] == "complete"
    assert gone(int((tmp_path / "trials" / "0" / "pid").read_text()))


def test_what_a_trial_has_started_ends_with_it(tmp_path: Path) -> None:
    scheduler(tmp_path, Listed([["act=child"]]), trials=1).run()
    assert gone(int((tmp_path / "trials" / "0" / "child").read_text()))


def test_many_failures_in_a_row_end_it(tmp_path: Path) -> None:
    study, noted = Listed([["act=refuse"], ["x=1"], *[["act=refuse"]] * 9]), Noted()
    with pytest.raises(RunError) as caught:
        scheduler(tmp_path, study, count=1, trials=99, callbacks=[noted]).run()
    [fault] = caught.value.faults
    assert (fault.key, fault.kind) == ("failures", "failed")
    assert "x must be 2" in fault.message
    assert [state for state, _, _ in study.results.values()] == ["failed", "complete", "failed", "failed", "failed"]


def test_no_trial_finds_what_another_has_changed(tmp_path: Path) -> None:
    scheduler(tmp_path, Listed([["act=leak"]] * 3), count=1, trials=3).run()
    found = [json.loads((tmp_path / "trials" / str(n) / "found.json").read_text()) for n in range(3)]
    assert len({record.pop("random") for record in found}) == 3, "each draws other numbers"
    for record in found:
        files = record.pop("files")
        opened = [file for file in files if not file.startswith(("socket:", "pipe:"))]
        assert {Path(file).name for file in opened} == {"null", "log.txt"}
        assert record == {
            "touched": 0,
            "cwd": os.getcwd(),
            "variable": None,
            "pool": [],
            "blocked": [],
            "handlers": [repr(signal.default_int_handler), repr(signal.SIG_DFL), repr(signal.SIG_DFL)],
            "threads": 1,
            "session": True,
            "omp": "1",
        }


def test_ctrl_c_lets_running_trials_finish(tmp_path: Path) -> None:
    study, noted = Listed([["x=1", "sleep=0.4"]] * 5), Noted()
    before = signal.getsignal(signal.SIGINT)
    both = [tmp_path / "trials" / str(number) / "pid" for number in range(2)]
    thread = when(lambda: all(map(Path.exists, both)), lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(Interruption) as caught:
        scheduler(tmp_path, study, trials=5, callbacks=[noted]).run()
    thread.join()
    assert study.results == {number: ("complete", [1.0], "") for number in range(2)}
    assert len(noted.messages) == 1
    assert caught.value.exit_code == 130
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_ctrl_c_and_sigterm_end_it_at_once(tmp_path: Path, number: int) -> None:
    study, noted = Listed([["act=hang"]] * 5), Noted()

    def act() -> None:
        os.kill(os.getpid(), number)
        if number == signal.SIGINT:
            when(lambda: noted.messages, lambda: os.kill(os.getpid(), number))

    pids = [tmp_path / "trials" / str(n) / "pid" for n in range(2)]
    thread = when(lambda: all(p.exists() and p.read_text() for p in pids), act)
    with pytest.raises(Interruption) as caught:
        scheduler(tmp_path, study, trials=5, callbacks=[noted]).run()
    thread.join()
    assert study.results == {}
    assert study.interrupted == [0, 1]
    assert "2 trials will be run again" in str(caught.value)
    assert caught.value.exit_code == 128 + number
    assert all(gone(int(pid.read_text())) for pid in pids)


def test_a_second_ctrl_c_also_ends_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "END", 0.05)
    with StopSignals() as stop:
        signal.raise_signal(signal.SIGINT)
        assert (stop.received, stop.at_once) == (signal.SIGINT, False)
        signal.raise_signal(signal.SIGINT)
        assert stop.at_once
        with pytest.raises(Interruption) as caught:
            time.sleep(60)
    assert caught.value.exit_code == 130
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_server_that_dies_is_replaced(tmp_path: Path) -> None:
    study, noted = Listed([["act=hang"], ["x=2"]], retries=0), Noted()
    sweep = scheduler(tmp_path, study, count=1, trials=1, callbacks=[noted])
    pid, server = (tmp_path / "trials" / "0" / name for name in ("pid", "server"))
    thread = when(lambda: pid.exists() and pid.read_text(), lambda: os.kill(int(server.read_text()), signal.SIGKILL))
    sweep.run()
    thread.join()
    assert study.results[0][:2] == ("failed", None)
    assert study.results[1] == ("complete", [2.0], "")
    assert gone(int(pid.read_text())), "no trial outlives the server"


def test_why_a_study_ends_is_reported(tmp_path: Path) -> None:
    study, noted = Listed([["sleep=0.05"]] * 9), Noted()
    sweep = scheduler(tmp_path, study, count=1, trials=9, callbacks=[noted])
    thread = when(lambda: study.results, lambda: setattr(study, "over", "1 hour is over"))
    sweep.run()
    thread.join()
    assert 1 <= study.finished() < 9
    assert "1 hour is over" in noted.messages[0]


class Waiting(Listed):
    """A study whose trial runs elsewhere, until a heartbeat finds it dead, or until it was asked for three times."""

    asked, is_dead = 0, False

    def __init__(self, *, heartbeats: bool) -> None:
        super().__init__([["x=1"]])
        self._heartbeats = heartbeats

    def ask(self) -> Any:
        self.asked += 1
        return None if self.elsewhere() else super().ask()

    def elsewhere(self) -> int:
        return int(not self.is_dead if self._heartbeats else self.asked < 3)

    def tick(self) -> float:
        self.is_dead = True
        return 60.0 if self._heartbeats else 0.03


@pytest.mark.parametrize("heartbeats", [True, False])
def test_a_scheduler_that_waits_runs_what_others_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heartbeats: bool
) -> None:
    monkeypatch.setattr(scheduling, "POLL", 0.01)
    study = Waiting(heartbeats=heartbeats)
    scheduler(tmp_path, study, trials=1).run()
    assert study.results == {0: ("complete", [1.0], "")}


def test_several_studies_share_the_slots_in_turn(tmp_path: Path) -> None:
    studies, noted = [Listed([["x=1"]] * 9), Listed([["x=2", "sleep=0.01"]] * 9)], Noted()
    for name, study in zip(("a", "b"), studies, strict=True):
        prepared(tmp_path / name, study, study=name, trials=4)
    Scheduler(studies, slots(2), engine(tmp_path), [noted]).run()  # type: ignore[arg-type]  # stand-ins
    assert [study.finished() for study in studies] == [4, 4]
    assert sorted(file.parents[2].name for file in tmp_path.glob("*/*/*/done")) == ["a"] * 4 + ["b"] * 4


def test_a_budget_that_is_met_starts_nothing(tmp_path: Path) -> None:
    study = Listed([["x=1"]])
    study.results = {number: ("complete", [0.0], "") for number in range(3)}
    scheduler(tmp_path, study, trials=3).run()
    assert study.assigned == {}
    assert not (tmp_path / "server.txt").exists()
