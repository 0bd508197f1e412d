"""Where trials come from: what the scheduler and its progress need of a study or of a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from sentattn.sweep.spec.plan import Plan
    from sentattn.sweep.spec.search_space import Value


@dataclass(frozen=True)
class TrialTask:
    """A trial to be run, as the process that runs it receives it.

    Attributes:
        number: Its number.
        values: What it tries, by key.
        arguments: Its command line for `python -m sentattn.train`.
        folder: Its run directory; one that holds a checkpoint is resumed.
        metrics: The objectives.
        repeats: Trainings, with consecutive seeds.
        study: The study that it is a trial of; None for a run of a grid.
        name: What messages call it; empty for its number.
        threads: CPU threads of its slot.
        devices: How many devices its slot has.
    """

    number: int
    values: Mapping[str, Value]
    arguments: Sequence[str]
    folder: Path
    metrics: Sequence[str]
    repeats: int = 1
    study: str | None = None
    name: str = ""
    threads: int = 1
    devices: int = 1


@dataclass(frozen=True)
class TrialOutcome:
    """How a trial ended.

    Attributes:
        values: Of the objectives, where it is complete.
        error: Why it failed.
        log_lines: The last lines of its log, where it failed.
        retry: Whether another attempt may succeed.
        diverged: Whether it failed because its objective, or its loss, was not finite.
        killed: Whether something else has ended its process: another attempt resumes from its checkpoint.
        lost: Whether it failed because its machine died: it is tried again, and this attempt does not count.
    """

    state: Literal["complete", "pruned", "failed"]
    values: Sequence[float] | None = None
    error: str = ""
    log_lines: Sequence[str] = ()
    retry: bool = False
    diverged: bool = False
    killed: bool = False
    lost: bool = False

    @property
    def report(self) -> str:
        """The error with the last lines of the log, as the study keeps it."""
        return "\n".join([self.error, *self.log_lines]) if self.state == "failed" else ""


class TrialSource(Protocol):
    """Assigns trials to the scheduler, and records how they end."""

    @property
    def plan(self) -> Plan:
        """Objectives, budget and limits."""

    @property
    def resumable(self) -> bool:
        """Whether a trial that is stopped after its step can be resumed later."""

    @property
    def failures(self) -> int:
        """How many trials have failed in a row."""

    @property
    def best_values(self) -> Mapping[int, Sequence[float]]:
        """Objectives of the best trials by number, the best first."""

    def ask(self) -> TrialTask | None:
        """Returns the next trial; None if there is none now."""

    def report(self, number: int, step: int, value: float) -> bool:
        """Records what a trial has reached after a step; returns whether to prune it."""

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        """Records how a trial ended."""

    def interrupt(self, number: int) -> None:
        """Records that a trial ended together with the scheduler."""

    def tick(self) -> float | None:
        """Is called between events; returns the seconds after which to call it again, or None."""

    def running(self) -> int:
        """Returns how many trials run."""

    def elsewhere(self) -> int:
        """Returns how many trials other schedulers run; this one waits for them, and runs them again if those die."""

    def finished(self) -> int:
        """Returns how many trials are finished."""

    def ended(self) -> str:
        """Returns why no further trial is started, or an empty string."""
