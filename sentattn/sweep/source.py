"""Where trials come from: what the scheduler and its progress need of a study or of a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sentattn.sweep.plan import Plan
    from sentattn.sweep.records import TrialOutcome
    from sentattn.sweep.search_space import Value


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


class TrialSource(Protocol):
    """Hands out trials, and records how they end."""

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
        """Is called between events; returns the seconds after which it wants to be called again, or None."""

    def running(self) -> int:
        """Returns how many trials run."""

    def elsewhere(self) -> int:
        """Returns how many trials other schedulers run, for which this one waits: should those die, it has them."""

    def finished(self) -> int:
        """Returns how many trials are finished."""

    def ended(self) -> str:
        """Returns why no further trial is started, or an empty string."""
