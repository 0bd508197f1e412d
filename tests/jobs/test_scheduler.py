"""The scheduler, with jobs and processes in memory."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fake_jobs import FakePool, FakeSource, Noted, make_slots, work

from sentattn.errors import Interruption
from sentattn.jobs import pool as pools
from sentattn.jobs import scheduler
from sentattn.jobs.slots import Slot


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "WAIT", 0.01)


def run(pool: FakePool, *sources: FakeSource, slots: int = 2) -> Noted:
    noted = Noted()
    scheduler.run(sources, make_slots(slots), pool, noted)
    return noted


def interrupted(pool: FakePool, *sources: FakeSource, slots: int = 2) -> tuple[Interruption, Noted]:
    """Runs sources until a signal ends them."""
    noted, before = Noted(), signal.getsignal(signal.SIGINT)
    with pytest.raises(Interruption) as caught:
        scheduler.run(sources, make_slots(slots), pool, noted)
    assert signal.getsignal(signal.SIGINT) is before
    return caught.value, noted


class Signals:
    """Raises signals, one at each wait, as soon as so many jobs run."""

    def __init__(self, *numbers: int, running: int = 2) -> None:
        self._numbers, self._running = [*numbers], running

    def __call__(self, processes: list[Any]) -> None:
        if len(processes) >= self._running and self._numbers:
            self._running = 0
            signal.raise_signal(self._numbers.pop(0))


def test_every_slot_is_busy_and_no_job_more_is_run_than_asked_for() -> None:
    pool, source = FakePool(), FakeSource(7)
    noted = run(pool, source, slots=3)
    assert source.results == dict.fromkeys(range(7), (0, ""))
    assert pool.running == [3, 3, 3, 3, 3, 2, 1], "a job starts when one has ended"
    assert {process.slot.name for process in pool.processes} == {"CPU 1", "CPU 2", "CPU 3"}
    assert noted.ends == [(number, "code 0") for number in range(7)]
    assert all(process.acts == ["join"] for process in pool.processes)


def test_what_a_job_gets() -> None:
    pool = FakePool()
    scheduler.run([FakeSource(1)], [Slot("GPUs 0+1", ("0", "1"), 3)], pool, Noted())
    assert pool.calls == [(work, ("task", 3, 2), Path("fake/0/log.txt"))]


def test_nothing_is_started_where_nothing_is_missing() -> None:
    pool = FakePool()
    assert run(pool, FakeSource(0)).messages == ["fake: enough."]
    assert (pool.processes, pool.running) == ([], [])


def test_a_job_that_fails_keeps_no_other_from_running() -> None:
    source = FakeSource(3)
    run(FakePool({0: pools.REFUSED, 2: -9}), source)
    assert [code for code, _ in source.results.values()] == [2, 0, -9, 0, 0]


def test_the_source_with_the_fewest_jobs_is_next() -> None:
    ahead, behind = FakeSource(4, "ahead"), FakeSource(4, "behind")
    ahead.started, ahead.results = 2, {0: (0, ""), 1: (0, "")}
    noted = run(FakePool(), ahead, behind, slots=1)
    assert [name for name, _ in noted.starts] == ["behind", "behind", "ahead", "behind", "ahead", "behind"]
    slow, quick = FakeSource(2, "slow"), FakeSource(2, "quick")
    assert [name for name, _ in run(FakePool(), slow, quick, slots=4).starts] == ["slow", "quick", "slow", "quick"], (
        "those that run count"
    )


def test_why_a_source_is_over_is_said_once_and_after_its_last_job() -> None:
    short, long = FakeSource(1, "short"), FakeSource(3, "long")
    noted = Noted()
    said_after: list[int] = []
    scheduler.run([short, long], make_slots(1), FakePool(), noted, lambda: said_after.append(len(noted.messages)))
    assert noted.messages == ["short: enough.", "long: enough."]
    assert said_after == [0, 1, 1, 1], "it is called after each end"


def test_a_process_that_cannot_be_started_is_a_failure_of_its_job_and_started_again() -> None:
    source = FakeSource(2)
    noted = run(FakePool(refused=1), source)
    assert source.results == {0: (pools.TRY_AGAIN, ""), 1: (0, ""), 2: (0, "")}
    assert [message for message in noted.messages if "Resource temporarily unavailable" in message]


def test_a_job_that_takes_too_long_is_killed() -> None:
    source = FakeSource(1, limit_minutes=1e-9)
    pool = FakePool({0: None})
    run(pool, source, slots=1)
    code, killed = source.results[0]
    assert (code, source.results[1]) == (-9, (0, ""))
    assert "limit_minutes=1e-09" in killed
    assert pool.processes[0].acts == ["kill", "join"]


def test_jobs_of_other_schedulers_are_waited_for_and_run_here_if_those_die() -> None:
    source, pool = FakeSource(1, waits=4), FakePool()
    began = time.monotonic()
    run(pool, source)
    assert (source.results, pool.running) == ({0: (0, "")}, [1])
    assert time.monotonic() - began >= 3 * scheduler.WAIT, "it looks now and then"


def test_a_job_that_another_scheduler_leaves_between_two_looks_is_run_here() -> None:
    class Left(FakeSource):
        """Its job is left as soon as this scheduler has seen that it runs elsewhere."""

        def next(self) -> Any:
            job = super().next()
            self._waits = 0
            return job

    source = Left(1, waits=2)
    run(FakePool(), source)
    assert source.results == {0: (0, "")}


def test_an_error_of_a_source_ends_the_jobs_that_run_and_leaves_them_for_the_next_time() -> None:
    class Full(FakeSource):
        def has_ended(self, *_: object) -> str:
            raise OSError(28, "No space left on device")

    source, pool = Full(3), FakePool({1: None})
    with pytest.raises(OSError, match="No space"):
        run(pool, source)
    assert source.interrupted == [1]
    assert pool.processes[1].acts == ["join"]


def test_ctrl_c_lets_trials_finish() -> None:
    source, pool = FakeSource(9), FakePool({0: None, 1: None})

    def meanwhile(processes: list[Any]) -> None:
        if source.results == {} and len(pool.running) == 1:
            signal.raise_signal(signal.SIGINT)
        elif len(pool.running) > 2:
            pool.processes[0].code = pool.processes[1].code = 0

    pool._meanwhile = meanwhile
    interruption, noted = interrupted(pool, source)
    assert source.results == {0: (0, ""), 1: (0, "")}
    assert source.interrupted == []
    assert len(noted.messages) == 1, "how it ends is said once"
    assert interruption.exit_code == 130


@pytest.mark.parametrize("numbers", [[signal.SIGINT, signal.SIGINT], [signal.SIGTERM]])
def test_a_second_ctrl_c_and_sigterm_end_trials_at_once(numbers: list[int]) -> None:
    source, pool = FakeSource(9), FakePool({0: None, 1: None}, Signals(*numbers))
    interruption, _ = interrupted(pool, source)
    assert (source.results, source.interrupted) == ({}, [0, 1])
    assert "2 trials will be run again" in str(interruption)
    assert interruption.exit_code == 128 + numbers[0]
    assert [process.acts for process in pool.processes] == [["join"], ["join"]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_what_is_resumed_later(number: int) -> None:
    source, pool = FakeSource(9, stops_at_signal=True), FakePool({0: None, 1: None}, Signals(number))
    interruption, _ = interrupted(pool, source)
    assert (source.results, source.interrupted) == ({}, [0, 1])
    assert [process.acts for process in pool.processes] == [["stop", "join"], ["stop", "join"]]
    assert interruption.exit_code == 128 + number


def test_what_finishes_although_it_was_stopped_is_finished() -> None:
    source, pool = FakeSource(9, stops_at_signal=True), FakePool({0: None, 1: None})

    def finish(processes: list[Any]) -> None:
        pool.processes[1].code = 0
        signal.raise_signal(signal.SIGINT)
        pool._meanwhile = lambda _: None

    pool._meanwhile = finish
    interrupted(pool, source)
    assert (source.results, source.interrupted) == ({1: (0, "")}, [0])


def test_an_interruption_of_the_last_job_is_none_once_it_has_finished() -> None:
    source = FakeSource(2)
    noted = run(FakePool(meanwhile=Signals(signal.SIGINT)), source)
    assert source.finished() == 2
    assert noted.messages[-1] == "fake: enough."


def test_in_a_thread_signals_stay_with_the_program() -> None:
    source = FakeSource(2)
    thread = threading.Thread(target=run, args=(FakePool(), source))
    thread.start()
    thread.join()
    assert source.finished() == 2
