"""Processes of jobs, forked from a server that has imported torch and Lightning, so that a job starts in milliseconds.

The server is that of `multiprocessing` and imports libraries only: modules of the user are imported by each job. A job
leaves its results in files; the scheduler learns its exit code.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import random
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Protocol

from sentattn.errors import Interruption, SettingError, UserError
from sentattn.jobs.slots import Slot

PRELOAD = ("sentattn.training.preload", "sentattn.grid", "sentattn.sweep.trial")
"""Modules that the server imports."""
SERVER_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",  # threads that libraries start when they are imported do not survive a fork
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # finds GPUs without initializing CUDA, which does not survive a fork
}
REFUSED, TRY_AGAIN, LOST = 2, 75, 255
"""Exit codes: an error that the user can correct; an error that another attempt may not meet, such as a full disk; and
what `multiprocessing` gives to processes of a server that has died."""
LOG_LINES = 5
"""Lines of a log that are kept of a failure."""


class JobProcess(Protocol):
    """The process of a job."""

    def stop(self) -> None:
        """Asks a training to stop after its step."""

    def kill(self) -> None:
        """Ends the process and all that it has started."""

    def join(self) -> int:
        """Ends what is left of the job; returns its exit code."""


class Pool(Protocol):
    """Where jobs run: on this machine, or on the nodes of a Ray cluster."""

    def start(self, function: Callable[..., None], arguments: tuple[object, ...], log: Path, slot: Slot) -> JobProcess:
        """Starts a job.

        Args:
            function: What the process calls. A `UserError` that it raises is in the log, and the exit code is
                `REFUSED` or `TRY_AGAIN`.
            arguments: Its arguments.
            log: The file for its output.
            slot: The slot, whose environment variables it gets.

        Raises:
            OSError: If no process can be started.
        """

    def ended(self, running: Iterable[JobProcess], seconds: float) -> list[JobProcess]:
        """Waits for jobs to end, at most so many seconds; returns those that have."""


@dataclass(eq=False)
class ForkedProcess:
    """The process of a job, and a pipe to it, whose end means that the scheduler has died."""

    process: ForkServerProcess
    scheduler: Connection

    def stop(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        assert self.process.pid is not None
        for kill in (os.kill, os.killpg):  # by itself too: it may not lead its group yet
            with suppress(ProcessLookupError, PermissionError):
                kill(self.process.pid, signal.SIGKILL)

    def join(self) -> int:
        self.kill()
        self.process.join()
        self.scheduler.close()
        code = self.process.exitcode
        self.process.close()
        assert code is not None, "it has been joined"
        return code


class LocalPool:
    """Runs jobs on this machine; the server imports its libraries from now on."""

    def __init__(self) -> None:
        forkserver.set_forkserver_preload(list(PRELOAD))
        with _for_server():
            forkserver.ensure_running()

    def start(
        self, function: Callable[..., None], arguments: tuple[object, ...], log: Path, slot: Slot
    ) -> ForkedProcess:
        context = multiprocessing.get_context("forkserver")
        reader, writer = context.Pipe(duplex=False)
        environment = {**os.environ, **slot.environment()}
        process = context.Process(target=_run, args=(function, arguments, str(log), environment, reader))
        try:
            with _for_server():  # which is started again where it has died
                process.start()
        except EOFError as error:
            raise OSError("the process that starts jobs has died") from error
        finally:
            reader.close()
        return ForkedProcess(process, writer)

    def ended(self, running: Iterable[JobProcess], seconds: float) -> list[JobProcess]:
        by_sentinel = {job.process.sentinel: job for job in running if isinstance(job, ForkedProcess)}
        return [by_sentinel[sentinel] for sentinel in wait([*by_sentinel], seconds) if isinstance(sentinel, int)]


@contextmanager
def _for_server() -> Iterator[None]:
    """Sets the environment of a server that is started inside, and keeps Ctrl-C from it, which reaches a terminal."""
    before = dict(os.environ)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update({**SERVER_ENVIRONMENT, **before})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _run(
    function: Callable[..., None],
    arguments: tuple[object, ...],
    log: str,
    environment: Mapping[str, str],
    scheduler: Connection,
) -> None:
    os.setsid()  # one group with all processes that the job starts, which Ctrl-C does not reach
    threading.Thread(target=_end_with, args=(scheduler,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        sys.exit(f"{log} cannot be written ({error.strerror}).")
    for descriptor in (1, 2):  # libraries in C write there too
        os.dup2(output, descriptor)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # neither is replaced in a fresh process
    faulthandler.enable()
    os.environ.clear()
    os.environ.update(environment)
    os.environ.pop("FORCE_COLOR", None)  # Jupyter sets it, and the output is a file
    random.seed()  # the server's state is the same for all jobs
    try:
        function(*arguments)
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(TRY_AGAIN if may_succeed_again(error) else REFUSED)
    except Interruption as interruption:
        print(interruption, file=sys.stderr)
        sys.exit(interruption.exit_code)


def _end_with(scheduler: Connection) -> None:
    """Ends this process and its group when the scheduler dies."""
    with suppress(EOFError, OSError):
        scheduler.recv()
    os.killpg(0, signal.SIGKILL)


def may_succeed_again(error: UserError) -> bool:
    """Whether another attempt may succeed: after what the machine lacked, such as memory or space on the disk."""
    return not isinstance(error, SettingError) and isinstance(error.__cause__, OSError | RuntimeError)


def explain(code: int) -> str:
    """Returns why a job has ended, for messages."""
    if code < 0:
        memory = ", as the system does when memory runs out" if code == -signal.SIGKILL else ""
        return f"it was killed ({signal.Signals(-code).name}){memory}"
    if code == LOST:
        return "the process that had started it has died"
    return f"it ended with exit code {code}" if code else "it ended without a result"


def last_lines(log: Path) -> Iterator[str]:
    """Yields the last lines of a log that are not empty; bytes that are no text are replaced."""
    with suppress(OSError), log.open(encoding="utf-8", errors="replace") as file:
        yield from deque((line.rstrip() for line in file if line.strip()), maxlen=LOG_LINES)
