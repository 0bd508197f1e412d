"""Imported once by the server from which trials are forked: imports what they need, and ends with the scheduler.

`multiprocessing` passes no arguments to such a module and hides its ImportError, so that arguments come through the
environment, and the first process that is forked reports `error`.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import traceback

from sentattn.sweep.engines.processes import PoolSettings, end_with_parent, redirect_output

SERVER = os.getpid()
error = ""
"""Why the imports failed; empty if they succeeded."""

_settings = PoolSettings.from_environment()
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the scheduler handles it
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
end_with_parent(_settings.scheduler)
redirect_output(_settings.log)
try:
    importlib.import_module(_settings.module).preload(_settings.studies)
except Exception as reason:
    traceback.print_exc()
    error = f"{type(reason).__name__}: {reason}"
gc.collect()
gc.freeze()  # a collection would write to the pages that trials share
