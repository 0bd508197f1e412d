"""Why a trial has no result: from the exit code of its process, with the last lines of its log."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

from sentattn.sweep.execution.callbacks import RunningTrial
from sentattn.sweep.execution.trial_source import TrialOutcome

SERVER_DIED = 255
"""Exit code that `multiprocessing` gives to the processes of a server that has died."""
LOG_LINES, LOG_TAIL = 5, 1 << 13
"""Lines of a trial's log that are kept of a failure, and bytes that are read for them."""


def exited(trial: RunningTrial, code: int) -> TrialOutcome:
    """Returns the outcome of a trial whose process has ended without it."""
    outcome = failed(trial, exit_reason(code))
    return replace(outcome, killed=outcome.retry and (code < 0 or code == SERVER_DIED))


def failed(trial: RunningTrial, reason: str, *, lost: bool = False) -> TrialOutcome:
    """Returns the outcome of a trial that has sent none; why the scheduler ended it comes before other reasons.

    One that took too long would take as long again.
    """
    lines, retry = last_lines(trial.log), not trial.killed
    return TrialOutcome("failed", error=trial.killed or reason, log_lines=lines, retry=retry, lost=lost)


def exit_reason(code: int) -> str:
    """Returns what an exit code says of a process that has sent no outcome."""
    if code == SERVER_DIED:
        return "the process that had started it has died"
    if code == -signal.SIGKILL:
        return "it was killed (SIGKILL), as the system does when memory runs out"
    if code < 0:
        return f"it was killed ({signal.Signals(-code).name})"
    return f"it ended with exit code {code}" if code else "it ended without a result"


def last_lines(file: Path) -> list[str]:
    """Returns the last lines of a file that are not empty; bytes that are no text are replaced."""
    try:
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - LOG_TAIL))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return [line.rstrip() for line in lines if line.strip()][-LOG_LINES:]
