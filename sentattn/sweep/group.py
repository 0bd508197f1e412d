"""A trial on several devices: a fresh process for each, as a training command of its own would have."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentattn.distributed.launch import run_ranks


def together(task: Mapping[str, Any]) -> int:
    """Runs a trial's processes; returns the exit code of rank 0. They die with this process."""
    with tempfile.TemporaryDirectory(prefix="sentattn-") as logs:
        failures = run_ranks(["-m", "sentattn.sweep.trial", json.dumps(dict(task))], task["devices"], Path(logs))
    return min(1, abs(failures[0].exitcode)) if 0 in failures else 0
