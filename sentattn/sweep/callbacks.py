"""What a sweep reports while it runs, to a table on the screen, to files and to loggers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sentattn.sweep.records import TRIALS, TrialOutcome

if TYPE_CHECKING:
    from sentattn.sweep.resources import Slot
    from sentattn.sweep.search_space import Value
    from sentattn.sweep.study import SweepStudy

LOG = "log.txt"


@dataclass
class RunningTrial:
    """A trial in a slot.

    Attributes:
        study: Its study.
        number: Its number in the study.
        values: What it tries, by key.
        arguments: Its command line for `python -m sentattn.train`.
        slot: Where it runs.
        since: When it was assigned to its slot, and then when its process started, by `time.monotonic`.
        has_process: Whether its process has started: the first trials wait until the pool is ready.
        first_batch: When its first training batch began; None before that.
        epochs: How many there will be at most.
        epoch: The last finished epoch or repeat.
        value: Its objective if it ended now; None where that is unknown.
        killed: Why the scheduler ended it; empty otherwise.
    """

    study: SweepStudy
    number: int
    values: Mapping[str, Value]
    arguments: Sequence[str]
    slot: Slot
    since: float = field(default_factory=time.monotonic)
    has_process: bool = False
    first_batch: float | None = None
    epochs: int | None = None
    epoch: int = 0
    value: float | None = None
    killed: str = ""

    @property
    def key(self) -> str:
        """A name that is unique among all running trials."""
        return f"{self.study.plan.study}/{self.number}"

    @property
    def folder(self) -> Path:
        """Its run directory."""
        return self.study.folder / TRIALS / str(self.number)

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self.folder / LOG


class SweepCallback(Protocol):
    """Is called by the scheduler, in its only thread: whatever takes long belongs in a thread of the callback's own."""

    def started(self, trial: RunningTrial) -> None:
        """A trial was assigned to a slot."""

    def moved(self, trial: RunningTrial, metrics: Mapping[str, float]) -> None:
        """An epoch or a repeat of a trial has ended; without metrics its first batch began."""

    def ended(self, trial: RunningTrial, outcome: TrialOutcome) -> None:
        """A trial has ended, and the study has recorded it."""

    def message(self, text: str) -> None:
        """There is something to print."""

    def tick(self) -> float | None:
        """Is called between events; returns the seconds after which it wants to be called again, or None."""
