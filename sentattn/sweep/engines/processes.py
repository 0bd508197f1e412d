"""What a process of the pool sets when it starts: its parent's death signal, session, output and environment."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import random
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from types import ModuleType

POOL = "SENTATTN_POOL"
"""Names the variable that holds the settings of the pool."""
SERVER_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",  # threads that libraries start when they are imported do not survive a fork
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # finds GPUs without initializing CUDA, which does not survive a fork
}
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class PoolSettings:
    """What the server of a pool has to know.

    Attributes:
        scheduler: Process ID of the scheduler.
        module: The module that trials run: it has `preload(studies)`, `prepare(studies)` and `run(task, connection)`.
        studies: For each study the arguments that all its trials share.
        log: File for the output of the server.
    """

    scheduler: int
    module: str
    studies: Sequence[Sequence[str]]
    log: str

    def environment(self) -> dict[str, str]:
        """Returns the environment of the server."""
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        return {**SERVER_ENVIRONMENT, "PYTHONPATH": path, POOL: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> PoolSettings:
        """Returns the settings that the scheduler has set."""
        return cls(**json.loads(os.environ[POOL]))


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


def become_trial(server: int, log: str, environment: Mapping[str, str]) -> None:
    """Makes a process that was forked from the server independent of it.

    Args:
        server: Process ID of the server, without which there is no trial.
        log: File for its output.
        environment: All variables of its environment.
    """
    end_with_parent(server)
    os.setsid()  # one group with all processes that the trial starts, which Ctrl-C does not reach
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    redirect_output(log)
    faulthandler.enable()
    os.environ.clear()
    os.environ.update(environment)
    random.seed()  # the server's state is the same for all trials


def kill_group(pid: int) -> None:
    """Kills a process and the group that it leads, as far as they exist."""
    for kill in (os.kill, os.killpg):  # by itself too: it may not lead its group yet
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


@contextmanager
def server_environment(settings: PoolSettings) -> Iterator[None]:
    """Sets the environment that a server started inside inherits, and keeps Ctrl-C from it until it ignores it."""
    before = dict(os.environ)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(settings.environment())
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
