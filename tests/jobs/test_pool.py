"""The pool of processes, with functions that train nothing."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import job_functions
import pytest
from processes import gone, is_alive, until

from sentattn.jobs import pool as pools
from sentattn.jobs.pool import ForkedProcess, LocalPool, explain, last_lines
from sentattn.jobs.slots import Slot

SLOT = Slot("CPU", (), 2)
PROGRAM = """
import sys
from pathlib import Path
import job_functions
from sentattn.jobs import pool
from sentattn.jobs.slots import Slot
pool.PRELOAD = ("sentattn.jobs.pool",)
folder = Path(sys.argv[1])
job = pool.LocalPool().start(job_functions.hang, (folder,), folder / "log.txt", Slot("CPU", (), 1))
job.process.join()
"""


@pytest.fixture(scope="module", autouse=True)
def _light_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A server without torch, for these tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pools, "PRELOAD", ("sentattn.jobs.pool",))
        yield
        folder = tmp_path_factory.mktemp("last")
        job = LocalPool().start(job_functions.hang, (folder,), folder / "log.txt", SLOT)
        os.kill(server_of(folder), signal.SIGKILL)
        job.join()


def start(function: Callable[..., None], folder: Path, *arguments: object, slot: Slot = SLOT) -> ForkedProcess:
    folder.mkdir(parents=True, exist_ok=True)
    every = (folder, *arguments, slot.threads, max(1, len(slot.gpus)))
    return LocalPool().start(function, every, folder / "log.txt", slot)


def wait(*jobs: ForkedProcess) -> list[int]:
    """Waits for jobs as the scheduler does; returns their exit codes."""
    codes: dict[Any, int] = {}
    while left := [job for job in jobs if job not in codes]:
        codes |= {job: job.join() for job in LocalPool().ended(left, 120)}
    return [codes[job] for job in jobs]


def pids(folder: Path) -> list[int]:
    """The processes of a job that hangs."""
    until((folder / "pids").exists, 120)
    return [int(word) for word in (folder / "pids").read_text().split()]


def server_of(folder: Path) -> int:
    assert pids(folder)
    return int((folder / "server").read_text())


def test_exit_codes_and_what_the_log_says(tmp_path: Path) -> None:
    expected = {
        "finish": (0, ""),
        "refuse": (pools.REFUSED, "x must be 2."),
        "data": (pools.REFUSED, "There are no rows."),
        "disk": (pools.TRY_AGAIN, "It cannot be written."),
        "raise": (1, "ValueError: nothing works"),
        "exit": (3, "\N{REPLACEMENT CHARACTER} torn"),
        "kill": (-signal.SIGKILL, ""),
        "interrupt": (128 + signal.SIGTERM, "ended by SIGTERM"),
    }
    jobs = [start(job_functions.end, tmp_path / how, how) for how in expected]
    assert wait(*jobs) == [code for code, _ in expected.values()]
    for how, (_, line) in expected.items():
        first, *more = last_lines(tmp_path / how / "log.txt")
        assert [first, *more][-1] == (line or "it prints"), how
        assert how == "raise" or first == "it prints"


def test_the_log_of_another_attempt_is_added(tmp_path: Path) -> None:
    for _ in range(2):
        wait(start(job_functions.end, tmp_path, "finish"))
    assert (tmp_path / "log.txt").read_text() == "it prints\nit prints\n"
    assert list(last_lines(tmp_path / "nothing.txt")) == []


def test_no_job_finds_what_another_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    slot = Slot("GPUs 1+MIG-2", ("1", "MIG-2"), 3)
    for number in range(3):
        assert wait(start(job_functions.leak, tmp_path / str(number), slot=slot)) == [0]
    found = [json.loads((tmp_path / str(number) / "found.json").read_text()) for number in range(3)]
    assert len({record.pop("random") for record in found}) == 3, "each draws other numbers"
    for record in found:
        opened = [file for file in record.pop("files") if not file.startswith(("socket:", "pipe:", "/proc"))]
        assert {Path(file).name for file in opened} <= {"null", "log.txt"}
        assert record == {
            "arguments": [3, 2],
            "touched": 0,
            "cwd": os.getcwd(),
            "environment": {"LEAKED": None, "CUDA_VISIBLE_DEVICES": "1,MIG-2", "OMP_NUM_THREADS": "3"},
            "color": False,
            "blocked": [],
            "handlers": [repr(signal.default_int_handler), repr(signal.SIG_DFL), repr(signal.SIG_DFL)],
            "session": True,
            "terminal": False,
        }


def test_the_environment_of_the_caller_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in pools.SERVER_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    wait(start(job_functions.end, tmp_path, "finish"))
    assert dict(os.environ) == before


def test_what_a_job_has_started_ends_with_it(tmp_path: Path) -> None:
    assert wait(start(job_functions.leave, tmp_path)) == [0]
    assert all(map(gone, pids(tmp_path)))


@pytest.mark.parametrize(("act", "code"), [("kill", -signal.SIGKILL), ("stop", -signal.SIGTERM)])
def test_a_job_is_ended_with_all_that_it_has_started(tmp_path: Path, act: str, code: int) -> None:
    job = start(job_functions.hang, tmp_path)
    running = pids(tmp_path)
    assert LocalPool().ended([job], 0) == []
    getattr(job, act)()
    assert wait(job) == [code]
    assert all(map(gone, running))


def test_a_server_that_dies_takes_its_jobs_along_and_is_replaced(tmp_path: Path) -> None:
    job = start(job_functions.hang, tmp_path / "first")
    running = pids(tmp_path / "first")
    os.kill(server_of(tmp_path / "first"), signal.SIGKILL)
    assert wait(job) == [pools.LOST]
    assert all(map(gone, running))
    assert wait(start(job_functions.end, tmp_path / "second", "finish")) == [0]


def test_a_server_that_cannot_start(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import os\nos._exit(3)\n")
    program = PROGRAM.replace('"sentattn.jobs.pool"', '"broken"')
    done = subprocess.run(**command(program, tmp_path), check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("OSError: ")


def command(program: str, folder: Path) -> dict[str, Any]:
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path}
    return {"args": [sys.executable, "-c", program, str(folder)], "env": environment, "stderr": subprocess.PIPE} | {
        "text": True
    }


def test_a_job_and_what_it_has_started_die_with_the_scheduler(tmp_path: Path) -> None:
    with subprocess.Popen(**command(PROGRAM, tmp_path)) as scheduler:
        running = [*pids(tmp_path), server_of(tmp_path)]
        assert all(map(is_alive, running))
        scheduler.kill()
        killed = time.monotonic()
    assert all(map(gone, running))
    assert time.monotonic() - killed < 5


def test_a_module_that_was_edited_between_two_starts_runs_its_new_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "edited.py"
    module.write_text("def work(*_): print('the first version')\n")
    import edited  # type: ignore[import-not-found]

    wait(start(edited.work, tmp_path / "0"))
    module.write_text("def work(*_): print('the second one, which is longer')\n")
    wait(start(edited.work, tmp_path / "1"))
    logs = [(tmp_path / name / "log.txt").read_text() for name in ("0", "1")]
    assert logs == ["the first version\n", "the second one, which is longer\n"]


def test_why_a_job_has_ended() -> None:
    assert all(word in explain(-signal.SIGKILL) for word in ("SIGKILL", "memory"))
    assert "SIGSEGV" in explain(-signal.SIGSEGV)


def test_the_server_is_silent_where_its_scheduler_was_killed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.delitem(sys.modules, "sentattn.training.preload", raising=False)
    importlib.import_module("sentattn.training.preload")
    for error in (EOFError("silent"), ValueError("printed")):
        sys.excepthook(type(error), error, None)
    assert capsys.readouterr().err.strip() == "ValueError: printed"
