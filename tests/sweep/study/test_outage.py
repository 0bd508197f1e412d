"""A database that does not answer for a while: what reads the study waits for it, or is done later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import outages
import pytest
from plans import plan
from postgres_server import PostgresServer
from report.test_callback import ended
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError

from sentattn.errors import RunError
from sentattn.sweep.report import callback
from sentattn.sweep.report.callback import ReportCallback
from sentattn.sweep.study import storage
from sentattn.sweep.study.study import SweepStudy

FOREVER = 10**9


@pytest.fixture
def study(tmp_path: Path) -> Iterator[SweepStudy]:
    """A study in a database, with a complete trial."""
    with SweepStudy.open(plan(storage=f"sqlite:///{tmp_path / 'shared.db'}"), tmp_path / "mine") as study:
        ended(study, 0.5)
        yield study


@pytest.fixture
def fail(study: SweepStudy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Lets the next queries fail, as those of a server that is away."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    left = 0

    def set_left(times: int) -> None:
        nonlocal left
        left = times

    def execute(*_: object) -> None:
        nonlocal left
        if left:
            left -= 1
            raise OperationalError("SELECT", {}, Exception("the server is away\n\tIs it running?"))

    event.listen(Engine, "before_cursor_execute", execute)
    yield set_left
    event.remove(Engine, "before_cursor_execute", execute)


@pytest.mark.parametrize("read", ["records", "best", "is_first"])
def test_every_read_of_a_study_is_done_again(study: SweepStudy, fail: Callable[[int], None], read: str) -> None:
    expected = getattr(study, read)()
    fail(3)
    assert getattr(study, read)() == expected


def test_an_outage_has_a_line_at_its_begin_and_its_end(
    study: SweepStudy, fail: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    fail(3)
    study.records()
    begin, end = capsys.readouterr().err.splitlines()
    assert "does not answer (the server is away)" in begin, "without the hints of the driver"
    assert "answers again" in end
    study.records()
    assert capsys.readouterr().err == ""


def test_a_report_that_cannot_be_made_is_skipped_with_a_line(
    study: SweepStudy,
    fail: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(callback, "PAUSE", 0.0)
    with ReportCallback(study) as report:
        report.ended(*ended(study, 0.6))
        capsys.readouterr()
        fail(FOREVER)
        for _ in range(3):
            report.tick()
        assert capsys.readouterr().out.count("the server is away") == 1
        assert report.findings is None
        fail(0)
        report.tick()
    assert report.findings is not None
    assert len(report.findings.records) == 2


def test_nothing_waits_for_the_database_where_another_error_ends_the_sweep(
    study: SweepStudy,
    fail: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    waits: list[float] = []

    def end_with_an_error() -> None:
        with ReportCallback(study):
            fail(FOREVER)
            monkeypatch.setattr("time.sleep", waits.append)
            raise KeyError

    with pytest.raises(KeyError):
        end_with_an_error()
    assert waits == []
    assert "the server is away" in capsys.readouterr().out


def test_a_database_that_stays_away_ends_the_report_with_a_message(
    study: SweepStudy, fail: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "OUTAGE", 0.0)
    with pytest.raises(RunError) as caught, ReportCallback(study):
        fail(FOREVER)
    assert [fault.key for fault in caught.value.faults] == ["storage"]


@pytest.mark.slow
def test_a_sweep_survives_outages_at_random_moments(tmp_path: Path, postgres: PostgresServer, database: str) -> None:
    states, printed = outages.run(tmp_path, postgres, database, outages=3, seconds=3)
    assert states["complete"] == 6
    assert "does not answer" in printed
