"""Disks, folders, clocks, processes that meet: one message at most, and the same command again ends well."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from attempts import COMMANDS, HANGS, Command, ended, finish, finished_runs, given, new_folder, start

PROCESSES, MOMENTS = 8, 6
TRAINING = "train"


@pytest.fixture(scope="module")
def given_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return given(tmp_path_factory.mktemp("given"))


def in_each_command(short: str) -> list[object]:
    """Returns the names of all commands: of one as a slow test, of the others with `make trust`."""
    return [pytest.param(name, marks=pytest.mark.slow if name == short else pytest.mark.trust) for name in COMMANDS]


def full_disk(out: Path, size: int) -> None:
    """Lets no file of this process grow over so many bytes; what it prints goes to another that copies it."""
    with (out / "log").open("ab") as log:
        copier = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log)
    assert copier.stdin
    for stream in (1, 2):
        os.dup2(copier.stdin.fileno(), stream)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def read_only(out: Path, seconds: float) -> None:
    """Lets this process write nothing below a folder after some seconds."""
    end, writing = time.monotonic() + seconds, ("os.mkdir", "os.rename", "os.remove", "os.rmdir")

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        opens = event == "open" and int(str(arguments[2] or 0)) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if (opens or event in writing) and str(arguments[0]).startswith(f"{out}/") and time.monotonic() > end:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), arguments[0])

    sys.addaudithook(refuse)


def assert_one_message(code: int | None, out: Path) -> None:
    log = (out / "log").read_text()
    assert "Traceback" not in log, log
    assert code in (0, 2), log
    assert code == 0 or "error: " in log, log


@pytest.mark.parametrize("name", in_each_command(TRAINING))
def test_a_full_disk(name: str, given_in: Path, tmp_path: Path) -> None:
    command = COMMANDS[name]
    expected = finish(command, given_in, new_folder(command, given_in, tmp_path))
    for size in (10, 100, 3000, 20_000, 200_000):
        out = new_folder(command, given_in, tmp_path)
        code = ended(start(command, given_in, out, partial(full_disk, out, size)), HANGS)
        time.sleep(0.2)  # until all is copied
        assert_one_message(code, out)
        assert code == 2 or size > 10, "nothing could be written"
        assert finish(command, given_in, out) == expected


@pytest.mark.parametrize("name", in_each_command(TRAINING))
def test_a_disk_that_is_or_becomes_read_only(name: str, given_in: Path, tmp_path: Path) -> None:
    command, by_chance = COMMANDS[name], random.Random(name)
    began = time.monotonic()
    expected = finish(command, given_in, new_folder(command, given_in, tmp_path))
    seconds = time.monotonic() - began
    for after in (0.0, *(by_chance.uniform(0, seconds) for _ in range(MOMENTS))):
        out = new_folder(command, given_in, tmp_path)
        code = ended(start(command, given_in, out, partial(read_only, out, after)), HANGS)
        assert_one_message(code, out)
        assert code == 2 or after, "nothing could be written"
        assert finish(command, given_in, out) == expected


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("library") / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(file), str(source)], check=True)
    return file


@pytest.mark.parametrize("name", in_each_command(TRAINING))
def test_a_clock_that_jumps(name: str, clock: Path, given_in: Path, tmp_path: Path) -> None:
    command = COMMANDS[name]
    expected = finish(command, given_in, new_folder(command, given_in, tmp_path))
    out = new_folder(command, given_in, tmp_path)
    words = [word.format(out=out, given=given_in) for word in command.words]
    program = [sys.executable, "-m", command.module.removesuffix(".__main__"), *words]
    done = subprocess.run(program, env=os.environ | {"LD_PRELOAD": str(clock)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert command.outcome(out) == expected
    for file in out.glob("runs/**/result.json"):
        assert all(0 <= value < HANGS for value in json.loads(file.read_text())["seconds"].values()), file


@pytest.mark.parametrize("name", in_each_command("predict"))
def test_a_folder_that_vanishes_and_comes_back(name: str, given_in: Path, tmp_path: Path) -> None:
    command, by_chance = COMMANDS[name], random.Random(name)
    began = time.monotonic()
    expected = finish(command, given_in, new_folder(command, given_in, tmp_path))
    seconds = time.monotonic() - began
    for _ in range(MOMENTS):
        out = new_folder(command, given_in, tmp_path)
        pid = start(command, given_in, out)
        code = ended(pid, by_chance.uniform(0, seconds))
        if code is None:
            gone = out.with_suffix(".gone")
            out.rename(gone)
            code = ended(pid, HANGS)
            if out.exists():  # it was made again
                shutil.rmtree(out)
            gone.rename(out)
        assert_one_message(code, out)
        assert finish(command, given_in, out) == expected


def together(command: Command, given_in: Path, folders: list[Path]) -> None:
    """Runs a command in each folder at the same time, by processes with one number, as in several containers."""
    for pid in [start(command, given_in, out, partial(setattr, os, "getpid", lambda: 7)) for out in folders]:
        assert ended(pid, HANGS) == 0, [(out / "log").read_text() for out in folders]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["states", "corpus"])
def test_eight_processes_with_one_empty_cache(name: str, given_in: Path, tmp_path: Path) -> None:
    words = [word.replace("{out}/cache", "{out}/../cache") for word in COMMANDS[name].words if word != "resume=auto"]
    command = COMMANDS[name]._replace(words=words)
    folders = [tmp_path / str(number) for number in range(PROCESSES)]
    together(command, given_in, folders)
    assert len({repr(command.outcome(out)) for out in folders}) == 1
    assert not [file for file in (tmp_path / "cache").rglob("*") if "-part" in file.name]


@pytest.mark.slow
def test_eight_runs_in_one_second(given_in: Path, tmp_path: Path) -> None:
    command = COMMANDS[TRAINING]._replace(words=[word for word in COMMANDS[TRAINING].words if word != "resume=auto"])
    together(command, given_in, [tmp_path] * PROCESSES)
    assert len([*tmp_path.glob("runs/*/*/*/result.json")]) == PROCESSES
    assert len(finished_runs(tmp_path)) == 1, "all are equal"


@pytest.mark.slow
def test_three_schedulers_of_one_process_number(given_in: Path, tmp_path: Path) -> None:
    command = COMMANDS["sweep"]
    expected = finish(command, given_in, new_folder(command, given_in, tmp_path))
    out = tmp_path / "together"
    together(command, given_in, [out] * 3)
    assert command.outcome(out) == expected
