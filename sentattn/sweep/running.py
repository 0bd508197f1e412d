"""How a trial ended, from its last message and its exit code."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentattn.sweep.callbacks import RunningTrial, TrialOutcome

SHOWN = 5
"""Lines of a trial's log that are kept of a failure."""
TAIL = 1 << 13


def ending(trial: RunningTrial, last: Mapping[str, Any], code: int, reason: str = "") -> TrialOutcome:
    """Returns what became of a trial whose process has ended.

    Args:
        trial: The trial.
        last: Its last words.
        code: Exit code of its process, or minus the signal that killed it.
        reason: Why there was no process, where there was none.
    """
    match last.get("end"):
        case "complete":
            return TrialOutcome("complete", values=last["values"])
        case "pruned":
            return TrialOutcome("pruned")
        case "failed":
            return TrialOutcome("failed", error=" ".join(last["sentences"]), retry=last["again"])
    reason = trial.killed or reason or _how(code)
    return TrialOutcome("failed", error=reason, log_lines=last_lines(trial.log), retry=True)


def last_lines(file: Path, count: int = SHOWN) -> list[str]:
    """Returns the last lines of a file that say anything, whatever is in it."""
    try:
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - TAIL))
            text = log.read().decode(errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def _how(code: int) -> str:
    if code == -signal.SIGKILL:
        return "it was killed (SIGKILL), as a system does that runs out of memory"
    if code < 0:
        return f"it was killed ({signal.Signals(-code).name})"
    return f"it ended with exit code {code}" if code else "it ended without a result"
