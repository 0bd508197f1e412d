"""A trial on several devices: a fresh process for each, as a training command of its own would have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from sentattn.distributed.places import on_this_machine

GRACE = 10.0
"""Seconds in which the others may end by themselves once one has ended."""


def together(task: Mapping[str, Any]) -> int:
    """Runs a trial's processes, which find one another by their environment; returns the first one's exit code.

    They are of this process's group, and so die with it.
    """
    command = [sys.executable, "-m", "sentattn.sweep.trial", json.dumps(dict(task))]
    places = on_this_machine(task["devices"])
    started = [subprocess.Popen(command, env={**os.environ, **place.environment()}) for place in places]
    while all(process.poll() is None for process in started):
        time.sleep(0.05)
    until = time.monotonic() + GRACE
    while any(process.poll() is None for process in started) and time.monotonic() < until:
        time.sleep(0.05)
    for process in started:
        process.kill()
        process.wait()
    codes = [process.returncode for process in started]
    return codes[0] if codes[0] >= 0 else 1
