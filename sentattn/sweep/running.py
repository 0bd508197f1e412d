"""A trial that runs, and what became of it."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from sentattn.sweep.member import Member
    from sentattn.sweep.slots import Slot
    from sentattn.sweep.study import Asked

LOG = "log.txt"
SHOWN = 5
"""Lines of a trial's log that are kept of a failure."""
TAIL = 1 << 13
State = Literal["complete", "pruned", "failed"]


@dataclass
class Running:
    """A trial in a slot.

    Attributes:
        member: The study that it is of.
        asked: Its number and what it varies.
        slot: Where it runs.
        since: When its process was started, or before that when it was handed over.
        started: Whether it has a process: the first ones wait until the server is warm.
        began: When its first batch came; None before that.
        epochs: How many there will be at most.
        epoch: The last that has ended, or the last repeat.
        value: What it would be worth if it ended now; None where that is not known.
        last: Its last words.
        killed: Why the owner ended it.
    """

    member: Member
    asked: Asked
    slot: Slot
    since: float = field(default_factory=time.monotonic)
    started: bool = False
    began: float | None = None
    epochs: int | None = None
    epoch: int = 0
    value: float | None = None
    last: dict[str, Any] = field(default_factory=dict)
    killed: str = ""

    @property
    def key(self) -> str:
        """What tells it from all other trials that run."""
        return f"{self.member.plan.study}/{self.asked.number}"

    @property
    def folder(self) -> Path:
        """Its run directory."""
        return self.member.trials / str(self.asked.number)

    @property
    def log(self) -> Path:
        """What it has printed."""
        return self.folder / LOG


@dataclass(frozen=True)
class Ending:
    """What became of a trial.

    Attributes:
        state: As the study keeps it.
        values: Of the objectives, where it is complete.
        reason: Why it failed, in a sentence.
        lines: What it printed last, where it failed.
        again: Whether another try may end better.
    """

    state: State
    values: Sequence[float] | None = None
    reason: str = ""
    lines: Sequence[str] = ()
    again: bool = False

    @property
    def note(self) -> str:
        """What the study keeps of a failure."""
        return "\n".join([self.reason, *self.lines])


def ending(trial: Running, code: int, reason: str = "") -> Ending:
    """Returns what became of a trial whose process has ended.

    Args:
        trial: The trial, with its last words.
        code: Exit code of its process, or minus the signal that killed it.
        reason: Why there was no process, where there was none.
    """
    match trial.last.get("end"):
        case "complete":
            return Ending("complete", values=trial.last["values"])
        case "pruned":
            return Ending("pruned")
        case "failed":
            return Ending("failed", reason=" ".join(trial.last["sentences"]), again=trial.last["again"])
    reason = trial.killed or reason or _how(code)
    return Ending("failed", reason=reason, lines=last_lines(trial.log), again=True)


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
