"""The pool of processes: what it reports when it cannot start, and what a trial finds when its scheduler has died."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import textwrap
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from sentattn.errors import Interruption
from sentattn.sweep.execution.interfaces import FirstBatch, Message, PipeConnection, Report, TrialOutcome
from sentattn.sweep.execution.local import POOL, server_environment, without_main_module

ROOT = Path(__file__).parents[3]


def pipe() -> tuple[Connection, PipeConnection]:
    ours, theirs = multiprocessing.Pipe()
    return ours, PipeConnection(theirs)


def start(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[1]), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, *words]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


def python(program: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return start(folder, "-c", textwrap.dedent(program), *arguments)


def test_messages_of_a_trial_arrive_in_order() -> None:
    scheduler, trial = pipe()
    scheduler.send(True)
    messages: list[Message] = [FirstBatch(4), Report(1, 0.5), TrialOutcome("complete", [0.5])]
    assert [trial.send(message) for message in messages] == [False, True, False]
    assert [scheduler.recv() for _ in messages] == messages


def test_a_trial_ends_when_its_scheduler_has_ended() -> None:
    scheduler, trial = pipe()
    scheduler.close()
    for message in (Report(1, 0.5), TrialOutcome("pruned"), FirstBatch(3)):
        with pytest.raises(Interruption):
            trial.send(message)


def test_the_server_alone_can_be_started() -> None:
    assert "ensure_running" in forkserver.__all__, "it is in no manual of Python"


def test_the_environment_of_the_server_is_not_that_of_the_scheduler() -> None:
    before = dict(os.environ)
    with server_environment(7, "fake_trial", [["x=1"]], "log.txt"), without_main_module():
        assert json.loads(os.environ[POOL]) == [7, "fake_trial", [["x=1"]], "log.txt"]
        assert os.environ["JE_ARROW_MALLOC_CONF"] == "background_thread:false"
        assert not hasattr(sys.modules["__main__"], "__file__")
    assert dict(os.environ) == before
    assert POOL not in os.environ


RUN = """
    import sys
    from pathlib import Path
    from fake_study import Listed, Scheduler, engine, prepared, slots
    from sentattn.errors import UserError
    folder = Path(sys.argv[1])
    study = prepared(folder, Listed([["x=1"]]), trials=1)
    try:
        Scheduler([study], slots(1), engine(folder, sys.argv[3], sys.argv[2]), []).run()
    except UserError as error:
        [fault] = error.faults
        print(fault.key, fault.kind, fault.message)
    print(study.results)
"""


@pytest.mark.parametrize(
    ("module", "studies", "expected", "reason"),
    [
        ("def preload(studies):\n    import missing_library\n", "", "engine failed", "missing_library"),
        ("import os\ndef preload(studies):\n    print('no room')\n    os._exit(3)\n", "", "engine failed", "no room"),
        ("", "die", "engine failed", "no module named nonsense"),
        ("", "refuse", "data.path not_found", ""),
    ],
)
def test_a_server_that_fails_is_reported(tmp_path: Path, module: str, studies: str, expected: str, reason: str) -> None:
    (tmp_path / "broken.py").write_text(module)
    done = python(RUN, tmp_path, str(tmp_path), "broken" if module else "fake_trial", studies)
    assert done.stdout.startswith(expected), done.stderr
    assert reason in done.stdout
    assert reason in (tmp_path / "server.txt").read_text()
    assert "Traceback" not in done.stderr


def test_an_unguarded_script_is_not_run_again_by_its_trials(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"print('here')\n{textwrap.dedent(RUN)}")
    done = start(tmp_path, str(script), str(tmp_path), "fake_trial", "")
    assert done.stdout.splitlines() == ["here", "{0: ('complete', [1.0], '')}"], done.stderr
    assert "here" not in (tmp_path / "trials" / "0" / "log.txt").read_text()


def test_everything_can_be_imported_on_other_systems(tmp_path: Path) -> None:
    program = """
        import ctypes, importlib, os, pkgutil, sys
        import optuna.storages, pydantic, rich.live, sqlalchemy, sentattn.sweep
        sys.modules["resource"] = None
        for name in ("waitid", "sched_getaffinity"):
            delattr(os, name)
        def missing(*_):
            raise OSError("no C library")
        ctypes.CDLL = missing
        sys.platform = "darwin"
        from sentattn.sweep.execution import local
        local.end_with_parent(1)
        for name in ("__main__", "spec.config", "study.study", "execution.scheduler", "execution.ray"):
            importlib.import_module(f"sentattn.sweep.{name}")
        from sentattn.sweep.execution.resources import find
        from sentattn.sweep.spec.plan import Options
        print(len(find(Options(slots=2), "cpu")))
    """
    done = python(program, tmp_path)
    assert done.stdout == "2\n", done.stderr
