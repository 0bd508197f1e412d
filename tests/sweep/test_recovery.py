"""Processes of a sweep are killed; the same command resumes, and no trial is lost or counted twice."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from fake_sweep import X, finish, plan
from processes import children, gone, is_alive, pids, start, until
from studies import complete, read

QUICK = ("sleep=0.03", "epochs=2")
KILLS = ("trial", "owner", "server", "all")


def assert_whole(folder: Path, trials: int, before: set[int] = frozenset()) -> Counter[str]:  # type: ignore[assignment]
    """Each finished trial is there once, with what it reached; the budget is met exactly; no process is left.

    Returns the trials by state.
    """
    ended = complete(folder)
    assert len(ended) == trials
    assert {record.number for record in ended} >= before, "what was finished stays"
    assert len({record.values[X] for record in ended}) == trials, "a trial that is run again counts once"
    assert all(record.objectives == (record.values[X],) for record in ended)
    assert all((folder / "trials" / str(record.number) / "done").exists() for record in ended)
    records = read(folder)
    assert {record.state for record in records} <= {"complete", "failed", "interrupted"}
    tried_again = {record.retry_of for record in records}
    assert all(record.state == "complete" or record.number in tried_again for record in records), "none is lost"
    assert all(gone(pid) for pid in pids(folder))
    return Counter(record.state for record in records)


def kill(what: str, owner: int, folder: Path) -> None:
    """Kills a trial, the owner of a study, the server of its trials, or all of them."""
    trials = [pid for pid in pids(folder) if is_alive(pid)]
    targets = {
        "trial": trials[:1],
        "owner": [owner],
        "server": children(owner),
        "all": [owner, *children(owner), *trials],
    }
    for pid in targets[what]:
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, signal.SIGKILL)


def output(process: subprocess.Popen[str]) -> str:
    text, _ = process.communicate(timeout=600)
    if process.returncode == -signal.SIGKILL:
        # Python's server of processes prints an EOFError if its scheduler was killed while it asked for a process.
        text = re.sub(r"Traceback .*\n(?:  .*\n)+EOFError.*\n", "", text)
    assert "Traceback" not in text, text
    return text


def stress(folder: Path, trials: int, count: int, moments: list[str], by_chance: random.Random, *words: str) -> None:
    """Runs a study with so many schedulers, and kills something of one of them at random moments."""
    running = [start(folder, trials, *QUICK, *words) for _ in range(count)]
    try:
        for what in moments:
            begun = len(pids(folder))
            until(lambda begun=begun: len(pids(folder)) > begun or all(each.poll() is not None for each in running))
            time.sleep(by_chance.uniform(0, 0.2))
            process = by_chance.choice(running)
            if process.poll() is None:
                kill(what, process.pid, folder)
                until(lambda process=process: process.poll() is not None, 5) if what in ("owner", "all") else None
            for place, each in enumerate(running):
                if each.poll() == -signal.SIGKILL:
                    output(each)
                    running[place] = start(folder, trials, *QUICK, *words)
        for process in running:
            text = output(process)
            assert process.returncode == 0, text
    finally:
        for process in running:
            process.kill()


def test_kill_9_of_each_process_of_a_sweep(tmp_path: Path) -> None:
    by_chance = random.Random(0)
    stress(tmp_path, 12, 1, by_chance.sample(KILLS, len(KILLS)), by_chance)
    assert_whole(tmp_path, 12)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["random", "tpe"])
@pytest.mark.parametrize("schedulers", [1, 3])
def test_kill_9_at_twenty_random_moments(tmp_path: Path, schedulers: int, sampler: str) -> None:
    by_chance = random.Random(schedulers)
    moments = by_chance.choices(KILLS, k=20)
    stress(tmp_path, 120, schedulers, moments, by_chance, f"sampler={sampler}")
    print(Counter(moments), assert_whole(tmp_path, 120))


def test_kill_9_of_one_of_two_schedulers(tmp_path: Path) -> None:
    words = (8, "sleep=0.1", "epochs=2")
    survivor, victim = start(tmp_path, *words), start(tmp_path, *words)
    until(lambda: len([*tmp_path.glob(".scheduler-[01]")]) == 2 and len(complete(tmp_path)) >= 2)
    before = {record.number for record in complete(tmp_path)}
    victim.kill()
    output(victim)
    text = output(survivor)
    assert survivor.returncode == 0, text
    assert_whole(tmp_path, 8, before)


@pytest.mark.parametrize(
    ("numbers", "code"),
    [  # test_scheduler.py has all of them without processes
        pytest.param([signal.SIGINT], 130, id="once"),
        pytest.param([signal.SIGINT, signal.SIGINT], 130, id="twice", marks=pytest.mark.slow),
        pytest.param([signal.SIGTERM], 143, id="term", marks=pytest.mark.slow),
    ],
)
def test_a_signal_and_the_same_command_again(tmp_path: Path, numbers: list[signal.Signals], code: int) -> None:
    process = start(tmp_path, 9, "sleep=0.5")
    until(lambda: len(pids(tmp_path)) >= 2)
    for number in numbers:  # Ctrl-C reaches all processes of a terminal
        os.killpg(process.pid, number)
        time.sleep(0.2)
    text = output(process)
    assert process.returncode == code, text
    assert "the same command resumes" in text
    assert all(gone(pid) for pid in pids(tmp_path))
    before = {record.number for record in complete(tmp_path)}
    if numbers == [signal.SIGINT]:
        assert len(before) == 2, "once lets trials finish"
    else:
        assert len(before) < 2, "all but a trial that had just finished are interrupted"
    assert finish(tmp_path, plan(9)) == 9 - len(before)
    assert_whole_without_processes(tmp_path, 9, before)


def assert_whole_without_processes(folder: Path, trials: int, before: set[int]) -> None:
    """As `assert_whole`, after trials that ran in this process."""
    for file in folder.glob("trials/*/pid"):
        if file.read_text() == str(os.getpid()):
            file.unlink()
    assert_whole(folder, trials, before)
