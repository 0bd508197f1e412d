"""Trials on this machine: forked from a server that has imported all libraries, so that one starts within milliseconds.

The pool is `multiprocessing`'s forkserver. The scheduler has a pipe to each trial. When the scheduler dies the kernel
ends the server, and when the server dies it ends the trials.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import TracebackType
from typing import Any

from sentattn.errors import Fault, RunError, UserError
from sentattn.sweep.callbacks import RunningTrial
from sentattn.sweep.engines import Exited, Message, Started, TrialConnection, TrialTask
from sentattn.sweep.engines.processes import (
    PoolSettings,
    become_trial,
    kill_group,
    server_environment,
    without_main_module,
)

PRELOAD = "sentattn.sweep.engines.preload"
SERVER_DIED = 255
"""Exit code that `multiprocessing` gives to the processes of a server that has died."""
DEATHS = 3
"""How many servers in a row may die before one is ready."""
PAUSE = 0.2
"""Seconds before another server is started, in which the system removes the one that has died."""


@dataclass
class _Process:
    """A running trial with its process and its connection; None once that is closed."""

    trial: RunningTrial
    process: ForkServerProcess
    connection: Connection | None


class LocalEngine:
    """Runs trials in processes forked from a warm server.

    Args:
        module: The module that trials run, by its name: it has `preload(studies)`, `prepare(studies)` and
            `run(task, connection)`.
        studies: For each study the arguments that all its trials share: what `prepare` prepares.
        log: File for the output of the server and of the preparation.
    """

    def __init__(self, module: str, studies: Sequence[Sequence[str]], log: Path) -> None:
        self._module = module
        self._studies = studies
        self._log = log
        self._context = multiprocessing.get_context("forkserver")
        self._running: dict[str, _Process] = {}
        self._queued: list[RunningTrial] = []
        self._outbox: list[tuple[RunningTrial, Message]] = []
        self._preparation: Connection | None = None
        self._preparing: ForkServerProcess | None = None
        self._starting = threading.Thread()
        self._deaths = 0

    def __enter__(self) -> LocalEngine:
        self._prepare()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._running.values():
            _end(one)
        if self._preparing is not None and self._preparing.pid is not None:
            kill_group(self._preparing.pid)
            self._preparing.join()

    def start(self, trial: RunningTrial) -> None:
        """Starts a trial, or queues it until the pool is ready."""
        if self._preparation is not None:
            self._queued.append(trial)
            return
        ours, theirs = self._context.Pipe()
        environment = {**os.environ, **trial.slot.environment()}
        own = (self._module, TrialTask.of(trial), str(trial.log), environment, theirs)
        process = self._context.Process(target=_run, args=own)
        try:
            with without_main_module():
                process.start()
        except (OSError, EOFError) as error:  # no memory, too many processes, or the server has died
            ours.close()
            reason = f"no process could be started: {getattr(error, 'strerror', None) or 'the pool has died'}"
            self._outbox.append((trial, Exited(1, reason)))
            self._prepare()
            return
        finally:
            theirs.close()
        self._running[trial.key] = _Process(trial, process, ours)
        self._outbox.append((trial, Started()))

    def messages(self, timeout: float | None, wakeup: int) -> Iterator[tuple[RunningTrial, Message]]:
        """Yields messages of trials; see `Engine.messages`."""
        connections = {one.connection: one for one in self._running.values() if one.connection is not None}
        sentinels = {one.process.sentinel: one for one in self._running.values()}
        waited: list[Any] = [wakeup, *connections, *sentinels, *filter(None, [self._preparation])]
        ready = wait(waited, 0 if self._outbox else timeout)
        if self._preparation in ready:
            self._finish_preparation()
        outbox, self._outbox = self._outbox, []
        yield from outbox
        for source in ready:
            if source in connections:
                yield from _received(connections[source])
        for source in ready:
            if source in sentinels:
                yield from self._exited(sentinels[source])

    def reply(self, trial: RunningTrial, *, prune: bool) -> None:
        """Answers a report; a trial that has died meanwhile needs no answer."""
        one = self._running.get(trial.key)
        if one is not None and one.connection is not None:
            with suppress(OSError):
                one.connection.send(prune)

    def kill(self, trial: RunningTrial) -> None:
        """Ends a trial and all processes that it has started."""
        if (one := self._running.get(trial.key)) is not None and one.process.pid is not None:
            kill_group(one.process.pid)

    def _exited(self, one: _Process) -> Iterator[tuple[RunningTrial, Message]]:
        """Yields the last messages of a trial whose process has ended, all of which it sent before."""
        yield from _received(one)
        del self._running[one.trial.key]
        code = _end(one)
        if code == SERVER_DIED and self._preparation is None:
            self._prepare()
        yield one.trial, Exited(code, "the process that had started it has died" if code == SERVER_DIED else "")

    def _prepare(self) -> None:
        """Starts the server, and in it a process that prepares the data; it answers when all is ready.

        Starting the first process waits until the server has imported everything. A thread does so, so that signals
        and the screen do not wait.
        """
        settings = PoolSettings(os.getpid(), self._module, self._studies, str(self._log))
        forkserver.set_forkserver_preload([PRELOAD])
        with server_environment(settings), without_main_module():
            forkserver.ensure_running()
        self._preparation, answer = self._context.Pipe(duplex=False)
        own = (self._module, self._studies, str(self._log), dict(os.environ), answer)
        self._preparing = self._context.Process(target=_prepare, args=own)
        self._starting = threading.Thread(target=_start, args=(self._preparing, answer), daemon=True)
        self._starting.start()

    def _finish_preparation(self) -> None:
        """Starts the queued trials.

        Raises:
            UserError: If the data is unusable.
            RunError: If the libraries cannot be imported, or servers die one after another.
        """
        assert self._preparation is not None
        assert self._preparing is not None
        try:
            error: tuple[type[UserError], Sequence[Fault]] | str | None = self._preparation.recv()
        except EOFError:
            self._deaths += 1
            if self._deaths < DEATHS:
                self._prepare()
                return
            lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            error = lines[-1] if lines else "it printed nothing"
        if isinstance(error, tuple):
            kind, faults = error
            raise kind(*faults)
        if error is not None:
            message = f"No trial can be started, see {self._log}: {error}"
            raise RunError(Fault("engine", "failed", message))
        self._starting.join()  # the answer may come before the thread knows that the process has started
        self._preparing.join()
        self._preparation, self._preparing, self._deaths = None, None, 0
        queued, self._queued = self._queued, []
        for trial in queued:
            self.start(trial)


def _received(one: _Process) -> Iterator[tuple[RunningTrial, Message]]:
    """Yields the messages that a trial has sent so far."""
    while one.connection is not None:
        try:
            if not one.connection.poll():
                return
            message = one.connection.recv()
        except Exception:  # it has closed the connection, or died within a message
            one.connection.close()
            one.connection = None
            return
        yield one.trial, message


def _end(one: _Process) -> int:
    """Kills what is left of a trial and returns its exit code."""
    assert one.process.pid is not None
    kill_group(one.process.pid)
    one.process.join()
    if one.connection is not None:
        one.connection.close()
    code = one.process.exitcode
    one.process.close()
    assert code is not None, "it has been joined"
    return code


def _start(process: ForkServerProcess, answer: Connection) -> None:
    """Starts the preparation; the end of its connection says if it could not be started."""
    try:
        with without_main_module():
            process.start()
    except (OSError, EOFError):
        time.sleep(PAUSE)
    answer.close()


def _prepare(
    module: str, studies: Sequence[Sequence[str]], log: str, environment: Mapping[str, str], answer: Connection
) -> None:
    """In a process of the pool: prepares the data of all trials, and sends the error or None."""
    preload: Any = sys.modules.get(PRELOAD)
    if preload is None or preload.error:
        answer.send(preload.error if preload else f"{PRELOAD} cannot be imported")
        return
    become_trial(preload.SERVER, log, environment)
    try:
        importlib.import_module(module).prepare(studies)
    except UserError as error:
        answer.send((type(error), error.faults))  # an exception would be pickled by its message alone
    else:
        answer.send(None)


def _run(module: str, task: TrialTask, log: str, environment: Mapping[str, str], connection: Connection) -> None:
    """In a process of the pool: runs a trial."""
    become_trial(sys.modules[PRELOAD].SERVER, log, environment)
    importlib.import_module(module).run(task, TrialConnection(connection))
