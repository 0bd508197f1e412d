"""Trials on this machine: forked from a server that has imported all libraries, so that one starts within milliseconds.

The pool is `multiprocessing`'s forkserver. The scheduler has a pipe to each trial. When the scheduler dies the kernel
ends the server, and when the server dies it ends the trials.

The server imports this module, whose last line then imports what trials need: `multiprocessing` passes it no arguments,
so that they come through the environment.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import json
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import ModuleType

from sentattn.errors import Fault, RunError, UserError
from sentattn.sweep.execution.interfaces import Engine, Message, PipeConnection, RunningTrial, TrialOutcome, TrialTask

SERVER_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",  # threads that libraries start when they are imported do not survive a fork
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # finds GPUs without initializing CUDA, which does not survive a fork
}
POOL = "SENTATTN_POOL"
"""Names the variable that the server has: a list of process ID of the scheduler, module, studies and log."""
DEATHS = 3
"""How many servers in a row may die before one is ready."""
PAUSE = 0.2
"""Seconds before another server is started, in which the system removes the one that has died."""
SERVER_DIED = 255
"""Exit code that `multiprocessing` gives to the processes of a server that has died."""
LOG_LINES = 5
"""Lines of a trial's log that are kept of a failure."""
PR_SET_PDEATHSIG = 1


@dataclass
class _Worker:
    """The process of a running trial, the connection to it, and the last message if it was an outcome."""

    trial: RunningTrial
    process: ForkServerProcess
    connection: Connection
    outcome: TrialOutcome | None = None


class LocalEngine(Engine):
    """Runs trials in processes forked from a warm server.

    Args:
        module: The module that trials run, by its name: it has `preload(studies)`, which imports and prepares what they
            share, and `run(task, connection)`.
        studies: For each study the arguments that all its trials share.
        log: File for the output of the server.
    """

    def __init__(self, module: str, studies: Sequence[Sequence[str]], log: Path) -> None:
        self._module = module
        self._studies = studies
        self._log = log
        self._context = multiprocessing.get_context("forkserver")
        self._running: dict[str, _Worker] = {}
        self._not_started: list[tuple[RunningTrial, Message]] = []
        self._has_server = False

    def __exit__(self, *_: object) -> None:
        for worker in self._running.values():
            _end(worker)

    def prepare(self) -> None:
        """Starts the server, which imports everything, and in it a process that prepares the data; waits for both.

        Raises:
            UserError: If the data is unusable.
            RunError: If the libraries cannot be imported, or servers die one after another.
        """
        forkserver.set_forkserver_preload([__name__])
        pool = (self._module, self._studies, str(self._log))
        for _ in range(DEATHS):
            answer, theirs = self._context.Pipe(duplex=False)
            process = self._context.Process(target=_prepare, args=(*pool, dict(os.environ), theirs))
            try:
                with server_environment(os.getpid(), *pool), without_main_module():
                    forkserver.ensure_running()
                with without_main_module():
                    process.start()
                theirs.close()
                error: UserError | str = answer.recv()
                break
            except (OSError, EOFError):
                time.sleep(PAUSE)
        else:
            error = "".join(_last_lines(self._log)[-1:]) or "it printed nothing"
        if isinstance(error, UserError):
            raise error
        if error:
            raise RunError(Fault("engine", "failed", f"No trial can be started, see {self._log}: {error}"))
        process.join()
        self._has_server = True

    def start(self, trial: RunningTrial) -> None:
        """Starts a trial, and before it another server if that has died."""
        if not self._has_server:
            self.prepare()
        ours, theirs = self._context.Pipe()
        environment = {**os.environ, **trial.slot.environment()}
        arguments = (self._module, trial.task, str(trial.log), environment, theirs)
        process = self._context.Process(target=_run, args=arguments)
        try:
            with without_main_module():
                process.start()
        except (OSError, EOFError) as error:  # no memory, too many processes, or the server has died
            ours.close()
            reason = f"no process could be started: {getattr(error, 'strerror', None) or 'the pool has died'}"
            self._not_started.append((trial, TrialOutcome("failed", error=reason, retry=True)))
            self._has_server = False
            return
        finally:
            theirs.close()
        self._running[trial.key] = _Worker(trial, process, ours)

    def messages(self, seconds: float) -> Iterator[tuple[RunningTrial, Message]]:
        connections = {worker.connection: worker for worker in self._running.values() if not worker.connection.closed}
        sentinels = {worker.process.sentinel: worker for worker in self._running.values()}
        ready = wait([*connections, *sentinels], 0 if self._not_started else seconds)
        not_started, self._not_started = self._not_started, []
        yield from not_started
        for source in ready:
            if isinstance(source, Connection):
                yield from _received(connections[source])
            else:
                assert isinstance(source, int)
                worker = sentinels[source]
                yield from _received(worker)  # it sent all of them before it ended
                del self._running[worker.trial.key]
                code = _end(worker)
                self._has_server = self._has_server and code != SERVER_DIED
                yield worker.trial, worker.outcome or exited(worker.trial, code)

    def reply(self, trial: RunningTrial, *, prune: bool) -> None:
        if trial.key in self._running:
            with suppress(OSError):
                self._running[trial.key].connection.send(prune)

    def stop(self, trial: RunningTrial) -> None:
        if trial.key in self._running:
            self._running[trial.key].process.terminate()

    def kill(self, trial: RunningTrial) -> None:
        if (worker := self._running.get(trial.key)) is not None and worker.process.pid is not None:
            _kill_group(worker.process.pid)


def _received(worker: _Worker) -> Iterator[tuple[RunningTrial, Message]]:
    """Yields the messages that a trial has sent so far, but for its outcome."""
    try:
        while not worker.connection.closed and worker.connection.poll():
            message: Message = worker.connection.recv()
            if isinstance(message, TrialOutcome):
                worker.outcome = message
            else:
                yield worker.trial, message
    except Exception:  # it has closed the connection, or died within a message
        worker.connection.close()


def _end(worker: _Worker) -> int:
    """Kills what is left of a trial and returns its exit code."""
    assert worker.process.pid is not None
    _kill_group(worker.process.pid)
    worker.process.join()
    worker.connection.close()
    code = worker.process.exitcode
    worker.process.close()
    assert code is not None, "it has been joined"
    return code


def _kill_group(pid: int) -> None:
    """Kills a process and the group that it leads, as far as they exist."""
    for kill in (os.kill, os.killpg):  # by itself too: it may not lead its group yet
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def exited(trial: RunningTrial, code: int) -> TrialOutcome:
    """Returns the outcome of a trial whose process has ended without it."""
    if code == SERVER_DIED:
        reason = "the process that had started it has died"
    elif code < 0:
        memory = ", as the system does when memory runs out" if code == -signal.SIGKILL else ""
        reason = f"it was killed ({signal.Signals(-code).name}){memory}"
    else:
        reason = f"it ended with exit code {code}" if code else "it ended without a result"
    outcome = failed(trial, reason)
    return replace(outcome, killed=outcome.retry and (code < 0 or code == SERVER_DIED))


def failed(trial: RunningTrial, reason: str, *, lost: bool = False) -> TrialOutcome:
    """Returns the outcome of a trial that has sent none; why the scheduler ended it comes before other reasons.

    One that took too long would take as long again.
    """
    lines, retry = _last_lines(trial.log), not trial.killed
    return TrialOutcome("failed", error=trial.killed or reason, log_lines=lines, retry=retry, lost=lost)


def _last_lines(file: Path) -> list[str]:
    """Returns the last lines of a file that are not empty; bytes that are no text are replaced."""
    try:
        with file.open(encoding="utf-8", errors="replace") as log:
            return [*deque((line.rstrip() for line in log if line.strip()), maxlen=LOG_LINES)]
    except OSError:
        return []


@contextmanager
def server_environment(*pool: object) -> Iterator[None]:
    """Sets the environment that a server started inside inherits, and keeps Ctrl-C from it until it ignores it."""
    before = dict(os.environ)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    os.environ.update(SERVER_ENVIRONMENT | {"PYTHONPATH": path, POOL: json.dumps(pool)})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def without_main_module() -> Iterator[None]:
    """Hides `__main__`, which each new process would import again, and so run an unguarded script."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def preload(module: str, studies: Sequence[Sequence[str]]) -> UserError | str:
    """Imports what trials need, and prepares their data; returns the error, or an empty string."""
    try:
        importlib.import_module(module).preload(studies)
    except UserError as error:
        return error
    except Exception as error:  # which `multiprocessing` would hide
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    return ""


def _prepare(
    module: str, studies: Sequence[Sequence[str]], log: str, environment: Mapping[str, str], answer: Connection
) -> None:
    """Prepares the data in a process of the server, which may be that of an earlier engine; sends the error."""
    _become_trial(log, environment)
    answer.send(_server_error or preload(module, studies))


def _run(module: str, task: TrialTask, log: str, environment: Mapping[str, str], connection: Connection) -> None:
    """Runs a trial, in a process of the server."""
    _become_trial(log, environment)
    importlib.import_module(module).run(task, PipeConnection(connection))


def _become_trial(log: str, environment: Mapping[str, str]) -> None:
    """Makes a process that was forked from the server independent of it."""
    end_with_parent(os.getppid())  # the server, which may be one that the user's own program has started
    os.setsid()  # one group with all processes that the trial starts, which Ctrl-C does not reach
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    redirect_output(log)
    faulthandler.enable()
    os.environ.clear()
    os.environ.update(environment)
    os.environ.pop("FORCE_COLOR", None)  # Jupyter sets it, and the output is a file
    random.seed()  # the server's state is the same for all trials


def end_with_parent(parent: int) -> None:
    """Lets the kernel kill this process when its parent dies; elsewhere than on Linux its connection does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it has died before
            os._exit(1)


def redirect_output(log: str) -> None:
    """Redirects the file descriptors 1 and 2 to a file, so that libraries in C write there too."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # neither is replaced in a fresh process


def _become_server(scheduler: int, module: str, studies: Sequence[Sequence[str]], log: str) -> str:
    """Imports what trials need; returns the error, or an empty string."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the scheduler handles it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    end_with_parent(scheduler)
    redirect_output(log)
    error = preload(module, studies)
    gc.collect()
    gc.freeze()  # a collection would write to the pages that trials share
    return error if isinstance(error, str) else ""  # `_prepare` has the others again


_server_error = _become_server(*json.loads(os.environ[POOL])) if POOL in os.environ else ""
