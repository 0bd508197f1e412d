"""Trials on this machine: forked from a server that has imported all libraries, so that one starts within milliseconds.

The pool is `multiprocessing`'s forkserver. The scheduler has a pipe to each trial. When the scheduler dies the kernel
ends the server, and when the server dies it ends the trials.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import ModuleType
from typing import Any

from sentattn.errors import Fault, RunError, UserError
from sentattn.sweep.execution.callbacks import RunningTrial
from sentattn.sweep.execution.engines import SERVER_DIED, Engine, Message, exited, last_lines, preload
from sentattn.sweep.execution.trial_source import TrialOutcome

SERVER_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",  # threads that libraries start when they are imported do not survive a fork
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # finds GPUs without initializing CUDA, which does not survive a fork
}
DEATHS = 3
"""How many servers in a row may die before one is ready."""
PAUSE = 0.2
"""Seconds before another server is started, in which the system removes the one that has died."""


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
        log: File for the output of the server and of the preparation.
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
        forkserver.set_forkserver_preload([preload.__name__])
        pool = (self._module, self._studies, str(self._log))
        error: tuple[type[UserError], Sequence[Fault]] | str
        for _ in range(DEATHS):
            answer, theirs = self._context.Pipe(duplex=False)
            process = self._context.Process(target=preload.prepare, args=(*pool, dict(os.environ), theirs))
            try:
                with server_environment(os.getpid(), *pool), without_main_module():
                    forkserver.ensure_running()
                with without_main_module():
                    process.start()
                theirs.close()
                error = answer.recv()
                break
            except (OSError, EOFError):
                time.sleep(PAUSE)
            except BaseException:
                if process.pid is not None:
                    kill_group(process.pid)
                raise
        else:
            error = "".join(last_lines(self._log)[-1:]) or "it printed nothing"
        if isinstance(error, tuple):
            kind, faults = error
            raise kind(*faults)
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
        process = self._context.Process(target=preload.run, args=arguments)
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

    def messages(self, timeout: float | None, wakeup: int) -> Iterator[tuple[RunningTrial, Message]]:
        """Yields messages of trials; see `Engine.messages`."""
        connections = {worker.connection: worker for worker in self._running.values() if not worker.connection.closed}
        sentinels = {worker.process.sentinel: worker for worker in self._running.values()}
        waited: list[Any] = [wakeup, *connections, *sentinels]
        ready = wait(waited, 0 if self._not_started else timeout)
        not_started, self._not_started = self._not_started, []
        yield from not_started
        for source in ready:
            if source in sentinels:
                yield from self._exited(sentinels[source])
            elif source in connections:
                yield from _received(connections[source])

    def reply(self, trial: RunningTrial, *, prune: bool) -> None:
        """Answers a report; a trial that has died meanwhile needs no answer."""
        if trial.key in self._running:
            with suppress(OSError):
                self._running[trial.key].connection.send(prune)

    def stop(self, trial: RunningTrial) -> None:
        """Sends a trial SIGTERM, so that a training stops after its step."""
        if trial.key in self._running:
            self._running[trial.key].process.terminate()

    def kill(self, trial: RunningTrial) -> None:
        """Ends a trial and all processes that it has started."""
        if (worker := self._running.get(trial.key)) is not None and worker.process.pid is not None:
            kill_group(worker.process.pid)

    def _exited(self, worker: _Worker) -> Iterator[tuple[RunningTrial, Message]]:
        """Yields the last messages of a trial whose process has ended, all of which it sent before."""
        yield from _received(worker)
        del self._running[worker.trial.key]
        code = _end(worker)
        self._has_server = self._has_server and code != SERVER_DIED
        yield worker.trial, worker.outcome or exited(worker.trial, code)


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
    kill_group(worker.process.pid)
    worker.process.join()
    worker.connection.close()
    code = worker.process.exitcode
    worker.process.close()
    assert code is not None, "it has been joined"
    return code


def kill_group(pid: int) -> None:
    """Kills a process and the group that it leads, as far as they exist."""
    for kill in (os.kill, os.killpg):  # by itself too: it may not lead its group yet
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


@contextmanager
def server_environment(*pool: Any) -> Iterator[None]:
    """Sets the environment that a server started inside inherits, and keeps Ctrl-C from it until it ignores it."""
    before = dict(os.environ)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    os.environ.update(SERVER_ENVIRONMENT | {"PYTHONPATH": path, preload.POOL: json.dumps(pool)})
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
