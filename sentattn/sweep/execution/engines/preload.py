"""The other side of the pool: the server, which imports what trials need, and the processes that are forked from it.

The server imports this module, since `multiprocessing` passes it no arguments: they come through the environment. An
ImportError would be hidden, so that the first process that is forked reports `error`.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

from sentattn.errors import UserError
from sentattn.sweep.execution.engines import PipeConnection
from sentattn.sweep.execution.trial_source import TrialTask

POOL = "SENTATTN_POOL"
"""Names the variable that the server has: a list of process ID of the scheduler, module, studies and log."""
PR_SET_PDEATHSIG = 1
SERVER = os.getpid()
error = ""
"""Why the imports failed; empty if they succeeded."""


def prepare(
    module: str, studies: Sequence[Sequence[str]], log: str, environment: Mapping[str, str], answer: Connection
) -> None:
    """Prepares what all trials share, and sends the error or an empty string."""
    if error:
        answer.send(error)
        return
    _become_trial(log, environment)
    try:
        importlib.import_module(module).preload(studies)
    except UserError as fault:
        answer.send((type(fault), fault.faults))  # an exception would be pickled by its message alone
    else:
        answer.send("")


def run(module: str, task: TrialTask, log: str, environment: Mapping[str, str], connection: Connection) -> None:
    """Runs a trial."""
    _become_trial(log, environment)
    importlib.import_module(module).run(task, PipeConnection(connection))


def _become_trial(log: str, environment: Mapping[str, str]) -> None:
    """Makes a process that was forked from the server independent of it."""
    end_with_parent(SERVER)
    os.setsid()  # one group with all processes that the trial starts, which Ctrl-C does not reach
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    redirect_output(log)
    faulthandler.enable()
    os.environ.clear()
    os.environ.update(environment)
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
    try:
        with suppress(UserError):  # `prepare` raises it again
            importlib.import_module(module).preload(studies)
    except Exception as reason:
        traceback.print_exc()
        return f"{type(reason).__name__}: {reason}"
    gc.collect()
    gc.freeze()  # a collection would write to the pages that trials share
    return ""


if POOL in os.environ:
    error = _become_server(*json.loads(os.environ[POOL]))
