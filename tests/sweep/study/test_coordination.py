"""Several schedulers share a study in PostgreSQL: no trial runs twice, none is lost, the budget is met exactly."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from plans import plan
from postgres_server import PASSWORD, PostgresServer
from processes import start, until
from sqlalchemy import create_engine, text
from studies import ask, complete, refused, tell

from sentattn.errors import Fault, RunError, TrainingError, UserError
from sentattn.sweep import __main__ as command
from sentattn.sweep.report import callback
from sentattn.sweep.spec.plan import Plan
from sentattn.sweep.study import coordination, storage
from sentattn.sweep.study.coordination import identity, is_running
from sentattn.sweep.study.records import read
from sentattn.sweep.study.study import SweepStudy

FAKE = "fake"


def shared(database: str, trials: int = 10, heartbeat: int = 60, **others: Any) -> Plan:
    return plan(storage=database, heartbeat=heartbeat, trials=trials, **others)


def run(folder: Path, trials: int, database: str, *overrides: str) -> subprocess.Popen[str]:
    """Starts a scheduler of two slots in a process of its own."""
    return start(folder / FAKE, trials, f"storage={database}", "heartbeat=1", *overrides)


def assert_whole(folder: Path, database: str, trials: int) -> None:
    """The budget is met exactly; each trial that is finished ran to its end, in a directory of its own."""
    ended = complete(folder / FAKE, database)
    assert len(ended) == trials
    assert len({record.values["x"] for record in ended}) == trials
    assert all((folder / FAKE / "trials" / str(record.number) / "done").exists() for record in ended)
    assert {record.state for record in read(folder / FAKE, database)} <= {"complete", "interrupted", "failed"}


def test_what_runs_anywhere_is_reserved_in_the_budget(tmp_path: Path, database: str) -> None:
    sweep_plan = shared(database, trials=3)
    with (
        SweepStudy.open(sweep_plan, tmp_path / "mine") as first,
        SweepStudy.open(sweep_plan, tmp_path / "mine") as second,
    ):
        asked = [first.ask(), second.ask(), first.ask()]
        assert [trial.number for trial in asked if trial] == [0, 1, 2]
        assert first.ask() is second.ask() is None
        assert (first.elsewhere(), second.elsewhere()) == (1, 2)
        tell(second, 1, 0.5)
        tell(first, 2, 0.7)
        tell(first, 0, state="failed", retry=True)
        retried = ask(second)
        assert asked[0]
        assert retried.values == asked[0].values
        assert first.ask() is None
        tell(second, retried.number, 0.6)
        assert first.ask() is None
        assert first.ended() == second.ended() != ""
        assert [[record.number for record in study.best()] for study in (first, second)] == [[2], [2]]


def test_schedulers_draw_other_values(tmp_path: Path, database: str) -> None:
    sweep_plan = shared(database)
    with (
        SweepStudy.open(sweep_plan, tmp_path / "mine") as first,
        SweepStudy.open(sweep_plan, tmp_path / "mine") as second,
    ):
        values = [trial.values for study in (first, second) for _ in range(5) if (trial := study.ask())]
    assert len({str(value) for value in values}) == 10


def test_a_quasi_random_sequence_is_shared(tmp_path: Path, database: str) -> None:
    sweep_plan = shared(database, study="qmc", sampler={"name": "qmc"})
    with (
        SweepStudy.open(sweep_plan, tmp_path / "qmc") as first,
        SweepStudy.open(sweep_plan, tmp_path / "qmc") as second,
    ):
        asked = [study.ask() for study in (first, second) * 3]
    alone = plan(trials=6, sampler={"name": "qmc"})
    with SweepStudy.open(alone, tmp_path / "alone") as study:
        assert [trial and trial.values for trial in asked] == [t.values for _ in range(6) if (t := study.ask())]


def test_a_scheduler_that_falls_silent_loses_its_trials(tmp_path: Path, database: str) -> None:
    sweep_plan = shared(database, trials=1, heartbeat=1)
    (tmp_path / "mine").mkdir()
    silent = SweepStudy(sweep_plan, tmp_path / "mine")
    lost = ask(silent)
    with SweepStudy.open(sweep_plan, tmp_path / "mine") as study:
        assert study.ask() is None
        until(lambda: study.tick() is not None and not study.elsewhere())
        retried = ask(study)
        assert retried.values == lost.values
        assert silent.report(lost.number, 1, 0.9), "it ends the trial"
        tell(silent, lost.number, 0.9)
        tell(study, retried.number, 0.4)
    states = [(record.state, record.objectives, record.retry_of) for record in read(tmp_path / "mine", database)]
    assert states == [("interrupted", None, None), ("complete", (0.4,), 0)]


def test_a_trial_whose_scheduler_died_before_its_first_sign_of_life(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep_plan = shared(database, trials=1)
    (tmp_path / "mine").mkdir()
    dead = SweepStudy(sweep_plan, tmp_path / "mine")

    def die(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(coordination.SchedulerEntry, "reserve", die)
        with pytest.raises(MemoryError):
            dead.ask()
    with SweepStudy.open(sweep_plan, tmp_path / "mine") as study:
        assert (retried := study.ask())
        assert retried.number == 1


def test_the_first_scheduler_speaks_for_the_study(tmp_path: Path, database: str) -> None:
    with SweepStudy.open(shared(database), tmp_path / "mine") as second:
        with SweepStudy.open(shared(database), tmp_path / "mine") as third:
            assert (second.is_first(), third.is_first()) == (True, False)
            assert [peer.pid for peer in coordination.working(tmp_path / "mine", database)] == [os.getpid()] * 2
        assert second.is_first()
    assert coordination.working(tmp_path / "mine", database) == []


def test_kill_9_of_one_of_two_schedulers(tmp_path: Path, database: str) -> None:
    words = (16, database, "sleep=0.1", "epochs=2")
    survivor, victim = run(tmp_path, *words), run(tmp_path, *words)
    until(
        lambda: (
            {1, 2} <= {peer.trials for peer in known(tmp_path, database)}
            or len(complete(tmp_path / FAKE, database)) > 4
        )
    )
    until(lambda: len(complete(tmp_path / FAKE, database)) >= 3)
    victim.kill()
    out, _ = survivor.communicate(timeout=600)
    assert survivor.returncode == 0, out
    assert_whole(tmp_path, database, 16)


@pytest.mark.slow
def test_kill_9_of_four_schedulers_at_random_moments(tmp_path: Path, database: str) -> None:
    by_chance = random.Random(0)
    words = (60, database, "sleep=0.05", "epochs=2")
    running = [run(tmp_path, *words) for _ in range(4)]
    for _ in range(8):
        before = len(complete(tmp_path / FAKE, database))
        until(lambda before=before: len(complete(tmp_path / FAKE, database)) > min(before, 58))
        victim = by_chance.randrange(4)
        running[victim].kill()
        running[victim].communicate(timeout=600)
        running[victim] = run(tmp_path, *words)
    for process in running:
        out, _ = process.communicate(timeout=600)
        assert process.returncode == 0, out
    assert_whole(tmp_path, database, 60)


def known(folder: Path, database: str) -> list[coordination.Peer]:
    try:
        return coordination.working(folder / FAKE, database)
    except RunError:
        return []


def test_the_database_restarts_in_the_middle(tmp_path: Path, postgres: PostgresServer, database: str) -> None:
    words = (12, database, "sleep=0.1", "epochs=2")
    both = run(tmp_path, *words), run(tmp_path, *words)
    until(lambda: len(complete(tmp_path / FAKE, database)) >= 3)
    postgres.stop()
    postgres.start()
    for process in both:
        out, _ = process.communicate(timeout=600)
        assert process.returncode == 0, out
    assert_whole(tmp_path, database, 12)


@pytest.mark.slow
def test_ctrl_c_twice_while_the_database_is_away(tmp_path: Path, postgres: PostgresServer, database: str) -> None:
    words = (8, database, "sleep=0.2", "epochs=2")
    process = run(tmp_path, *words)
    until(lambda: len([*tmp_path.rglob("done")]) >= 2)
    postgres.stop()
    try:
        assert process.stdout
        assert "does not answer" in process.stdout.readline()
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.5)
        process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGINT
    finally:
        postgres.start()
    assert run(tmp_path, *words).wait(600) == 0
    assert_whole(tmp_path, database, 8)


def test_stop_reaches_all_schedulers_and_the_same_command_resumes(tmp_path: Path, database: str) -> None:
    words = (100, database, "sleep=0.1")
    both = run(tmp_path, *words), run(tmp_path, *words)
    until(lambda: len(known(tmp_path, database)) == 2 and complete(tmp_path / FAKE, database))
    assert command.main(["stop", f"storage={database}"]) == 0
    for process in both:
        process.communicate(timeout=600)
        assert process.returncode == 128 + signal.SIGINT
    assert not known(tmp_path, database)
    finished = len(complete(tmp_path / FAKE, database))
    assert finished < 100
    assert run(tmp_path, finished + 3, database, "sleep=0.1").wait(600) == 0
    assert_whole(tmp_path, database, finished + 3)


@pytest.mark.parametrize("word", ["password", "host", "database"])
def test_a_database_that_cannot_be_reached(
    tmp_path: Path, postgres: PostgresServer, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = {
        "password": postgres.url("postgres", "wr0ng"),
        "host": postgres.url("postgres").replace(f":{postgres.port}/", ":1/"),
        "database": postgres.url("nothing"),
    }[word]
    with pytest.raises(UserError) as caught, SweepStudy.open(shared(url), tmp_path / "mine"):
        pass
    assert [fault.key for fault in caught.value.faults] == ["storage"]
    assert command.main(["status", "mine", f"storage={url}", f"output_dir={tmp_path}"]) == 2
    shown = capsys.readouterr().err + str(caught.value)
    assert "wr0ng" not in shown
    assert PASSWORD not in shown


def test_a_database_of_another_version_of_optuna(tmp_path: Path, database: str) -> None:
    with SweepStudy.open(shared(database), tmp_path / "mine"):
        pass
    with create_engine(database.replace("://", "+psycopg://")).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'v0.9.0.a'"))
    assert refused(shared(database), tmp_path / "mine") == [("storage", "type")]


def test_no_password_is_shown_or_kept(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"storage={database}", f"output_dir={tmp_path}", "trials=many", f"storge={database}"]
    monkeypatch.setattr(sys, "argv", ["sweep", *words])
    assert command.main() == 2
    assert sys.argv[1] == words[0].replace(PASSWORD, "***"), "what W&B logs of the command"
    assert command.main([words[0], words[0].replace(PASSWORD, "0ther")]) == 2
    shown = capsys.readouterr()
    assert PASSWORD not in shown.out + shown.err
    assert "0ther" not in shown.out + shown.err
    process = run(tmp_path, 2, database, "act=raise", "retries=0")
    out, _ = process.communicate(timeout=600)
    assert PASSWORD not in out
    kept = Counter(PASSWORD.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert set(kept) == {False}


def test_a_scheduler_that_confirms_stays_alive_and_first(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep_plan = shared(database, trials=1, heartbeat=1, confirm=2)
    was_first = []
    with (
        SweepStudy.open(sweep_plan, tmp_path / "mine") as study,
        SweepStudy.open(sweep_plan, tmp_path / "mine") as other,
    ):
        tell(study, ask(study).number, 0.5)

        def confirm(*_: object) -> dict[str, Any]:
            (before,) = seen(tmp_path, database, except_for=1)
            until(lambda: seen(tmp_path, database, except_for=1) != [before], 60)
            was_first.append(other.is_first())
            return {}

        monkeypatch.setattr(callback, "confirm", confirm)
        monkeypatch.setattr(callback, "describe_confirmed", lambda *_: "confirmed")
        assert callback.ReportCallback(study).confirm() == "confirmed"
    assert was_first == [False]
    assert "heartbeat" not in [thread.name for thread in threading.enumerate()]


def seen(folder: Path, database: str, *, except_for: int) -> list[float]:
    """When the schedulers gave their last signs of life."""
    attrs = storage.load(folder / "mine", database).user_attrs
    numbers = [key for key in attrs if key.startswith(coordination.SIGN) and not key.endswith(f" {except_for}")]
    return [attrs[key]["seen"] for key in numbers if attrs[key]]


def test_a_trial_is_confirmed_once_in_whatever_order_schedulers_end(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep_plan = shared(database, trials=1, confirm=2)
    trainings: list[Path] = []

    def confirm(plan: Plan, folder: Path, *_: object) -> dict[str, Any]:
        trainings.append(folder)
        if len(trainings) == 1:
            raise TrainingError(Fault("", "failed", "it was interrupted"))
        return {}

    monkeypatch.setattr(callback, "confirm", confirm)
    monkeypatch.setattr(callback, "describe_confirmed", lambda *_: "confirmed")
    with SweepStudy.open(sweep_plan, tmp_path / "late" / "mine") as late:
        with SweepStudy.open(sweep_plan, tmp_path / "mine") as study:
            tell(study, ask(study).number, 0.5)
            assert callback.ReportCallback(study).confirm() is None, "the other one was first"
        with pytest.raises(TrainingError):
            callback.ReportCallback(late).confirm()
    with (
        SweepStudy.open(sweep_plan, tmp_path / "late" / "mine") as late,
        SweepStudy.open(sweep_plan, tmp_path / "mine") as study,
    ):
        assert late.is_first()
        assert callback.ReportCallback(late).confirm() == "confirmed"
        late._leave()
        assert study.is_first()
        assert callback.ReportCallback(study).confirm() is None, "it was done"
    assert len(trainings) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no process is known to have ended")
def test_a_process_that_has_ended_is_known_on_its_machine_only() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        known = identity(process.pid)
        assert is_running(known)
        process.kill()
    assert is_running(known) is False
    assert is_running(known | {"machine": "another"}) is None
    assert is_running(identity(os.getpid()) | {"started": "0"}) is False, "its number was given to this process"
