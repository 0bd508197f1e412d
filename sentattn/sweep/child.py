"""What a forked process does before it is a trial, and after."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1


def become(run: Callable[[Mapping[str, Any]], None], request: Mapping[str, Any], parent: int) -> NoReturn:
    """Makes the forked process the trial's own, runs the trial, and ends the process.

    Args:
        run: What the trial does.
        request: The task, the log file, and the variables of the environment.
        parent: The server, without which there is no trial.
    """
    code = 1
    try:
        _detach(parent)
        _redirect(request["log"])
        os.environ.update(request["environment"])
        random.seed()  # as the server was when it forked, so would be all trials
        run(request["task"])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _detach(parent: int) -> None:
    """Leads a session of its own, which Ctrl-C does not reach, handles signals as usual, and dies with the server."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before
            os._exit(1)


def _redirect(log: str) -> None:
    """Lets what is printed go to the trial's log, and what crashes in C say where."""
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (written, 1), (written, 2)):
        os.dup2(source, target)
    os.close(written)
    os.close(nothing)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    faulthandler.enable()
