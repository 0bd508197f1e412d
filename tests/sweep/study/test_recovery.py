"""Processes of a sweep are killed; the same command resumes, and no trial is lost or counted twice."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import optuna
import pytest
from fake_sweep import plan, sweep
from processes import gone, is_alive, pids, start, until
from studies import complete

from sentattn.errors import RunError
from sentattn.sweep.study.records import read
from sentattn.sweep.study.storage import DATABASE

QUICK = ("sleep=0.03", "epochs=2")


def assert_whole(folder: Path, trials: int, before: list[int]) -> None:
    """Each finished trial is there once, with what it reached; the budget is met exactly; nobody is left."""
    ended = complete(folder)
    assert len(ended) == trials
    assert {record.number for record in ended} >= set(before), "what was finished stays"
    for record in ended:
        assert record.objectives == (pytest.approx(record.values["x"], abs=1e-12),)
        assert (folder / "trials" / str(record.number) / "done").exists()
    tried = [record.values["x"] for record in ended]
    assert len(set(tried)) == trials, "a trial that is run again counts once"
    assert {record.state for record in read(folder)} <= {"complete", "failed", "interrupted"}
    assert all(gone(pid) for pid in pids(folder))


def kill_trial(folder: Path, owner: int) -> None:
    for pid in filter(is_alive, pids(folder)):
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, signal.SIGKILL)
            return


def kill_owner(folder: Path, owner: int) -> None:
    os.kill(owner, signal.SIGKILL)


def kill_server(folder: Path, owner: int) -> None:
    for pid in Path(f"/proc/{owner}/task/{owner}/children").read_text().split():
        os.kill(int(pid), signal.SIGKILL)


def kill_both(folder: Path, owner: int) -> None:
    kill_owner(folder, owner)
    kill_trial(folder, owner)


def kill_all(folder: Path, owner: int) -> None:
    children = [int(pid) for pid in Path(f"/proc/{owner}/task/{owner}/children").read_text().split()]
    for pid in [owner, *children]:
        os.kill(pid, signal.SIGKILL)


KILLS = [kill_trial, kill_owner, kill_server, kill_both, kill_all]


@pytest.mark.parametrize("kill", KILLS)
def test_kill_9_and_the_same_command_again(tmp_path: Path, kill: Callable[[Path, int], None]) -> None:
    process = start(tmp_path, 20, *QUICK)
    until(lambda: len([*tmp_path.glob("trials/*/done")]) >= 3 and any(map(is_alive, pids(tmp_path))))
    before = [record.number for record in complete(tmp_path)]
    kill(tmp_path, process.pid)
    out, _ = process.communicate(timeout=600)
    if kill in (kill_trial, kill_server):
        assert process.returncode == 0, f"the owner goes on by itself: {out}"
    else:
        assert all(gone(pid) for pid in pids(tmp_path)), "no trial outlives its owner"
        assert start(tmp_path, 20, *QUICK).wait(600) == 0
    assert_whole(tmp_path, 20, before)


@pytest.mark.parametrize("moments", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_kill_9_at_random_moments(tmp_path: Path, moments: int) -> None:
    trials = 4 * moments
    by_chance = random.Random(moments)
    before: list[int] = []
    process = start(tmp_path, trials, *QUICK)
    for _ in range(moments):
        known = len(pids(tmp_path))
        until(lambda known=known, process=process: len(pids(tmp_path)) > known or process.poll() is not None)
        time.sleep(by_chance.uniform(0, 0.15))
        before = [record.number for record in complete(tmp_path)]
        if process.poll() is None:
            by_chance.choice(KILLS)(tmp_path, process.pid)
            time.sleep(0.1)
        if process.poll() is not None:
            process = start(tmp_path, trials, *QUICK)
    until(lambda: process.poll() is not None)
    if process.returncode:
        assert process.returncode == -signal.SIGKILL, process.stdout and process.stdout.read()
        assert start(tmp_path, trials, *QUICK).wait(600) == 0
    assert_whole(tmp_path, trials, before)


def test_a_second_owner_is_refused_with_the_first_ones_process_id(tmp_path: Path) -> None:
    first = start(tmp_path, 2, "act=hang")
    until(lambda: pids(tmp_path))
    second = start(tmp_path, 2, "act=hang")
    out, _ = second.communicate(timeout=600)
    assert second.returncode == 2
    assert f"process {first.pid}" in out
    first.send_signal(signal.SIGTERM)
    assert first.wait(600) == 143


def test_sigterm_and_the_same_command_again(tmp_path: Path) -> None:
    process = start(tmp_path, 8, "sleep=1")
    until(lambda: complete(tmp_path))
    before = [record.number for record in complete(tmp_path)]
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 143, out
    assert "the same command resumes" in out
    assert "Traceback" not in out
    assert start(tmp_path, 8, "sleep=1").wait(600) == 0
    assert_whole(tmp_path, 8, before)


def test_a_full_disk_for_the_study(tmp_path: Path) -> None:
    def full_soon() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    process = start(tmp_path, 2000, preexec_fn=full_soon)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 2, out
    assert f"error: {tmp_path / DATABASE} cannot be written: " in out
    assert "Traceback" not in out
    before = [record.number for record in complete(tmp_path)]
    assert before
    again = len(before) + 5
    assert start(tmp_path, again).wait(600) == 0
    assert_whole(tmp_path, again, before)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "trials").write_text("a file")
    with pytest.raises(RunError) as caught:
        sweep(tmp_path, plan(2))
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("storage", "unwritable")]


def test_the_budget_can_be_raised(tmp_path: Path) -> None:
    sweep(tmp_path, plan(2))
    assert sweep(tmp_path, plan(2)).starts == []
    assert len(sweep(tmp_path, plan(5)).starts) == 3
    assert_whole(tmp_path, 5, [0, 1])


@pytest.mark.slow
def test_the_budget_is_exact_while_a_dashboard_reads_and_writes_the_file(tmp_path: Path) -> None:
    """optuna-dashboard reads all trials again and again, and writes notes into the study's system attributes."""
    optuna.storages.RDBStorage("sqlite://")  # imports SQLAlchemy, which takes as long as many trials
    process = start(tmp_path, 40, *QUICK)
    until(lambda: complete(tmp_path))
    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path / DATABASE}")
    polls = 0
    while process.poll() is None:
        [study] = storage.get_all_studies()
        storage.get_all_trials(study._study_id)
        storage.set_study_system_attr(study._study_id, "dashboard:note_ver", polls)
        polls += 1
    assert process.returncode == 0, process.stdout and process.stdout.read()
    assert polls > 1
    assert_whole(tmp_path, 40, [])
