"""A grid: every combination of several values and seeds, each an ordinary run. The run directories are its only state.

What is finished is not trained again, and what was interrupted is resumed, both found as `resume=auto` finds them.
"""

from __future__ import annotations

import shutil
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from sentattn import run
from sentattn.errors import RunError
from sentattn.grid.cells import Cell
from sentattn.run import CONFIG, new_directory
from sentattn.sweep.execution.interfaces import LOG, TrialOutcome, TrialTask
from sentattn.sweep.spec.plan import Plan
from sentattn.training.resume import (
    SavedRuns,
    find_begun,
    find_finished,
    find_interrupted,
    find_running,
    identity,
)

LOOK_AGAIN = 1.0
"""Seconds between two looks for the end of what another process trains."""


@dataclass
class Grid:
    """Assigns the trainings of a grid that are not finished, those that were interrupted first; see `TrialSource`.

    Attributes:
        cells: The trainings.
        plan: What the scheduler reads of a plan.
        runs: The finished runs, by the place of their cell.
        errors: Why the others failed.
        interrupted: How many were interrupted before.
    """

    cells: Sequence[Cell]
    plan: Plan
    runs: dict[int, Path] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    interrupted: int = 0
    resumable = True
    failures: int = 0  # one model that fails with all seeds does not keep the others from theirs
    best_values: Mapping[int, Sequence[float]] = field(default_factory=dict)
    _running: dict[int, Path] = field(default_factory=dict)
    _locks: dict[int, ExitStack] = field(default_factory=dict)
    _busy: set[int] = field(default_factory=set)
    _attempts: Counter[int] = field(default_factory=Counter)
    _saved: SavedRuns = field(default_factory=SavedRuns)

    def __post_init__(self) -> None:
        """Looks for runs that exist."""
        interrupted: list[int] = []
        new: list[int] = []
        for number, cell in enumerate(self.cells):
            if finished := find_finished(cell.settings, self._saved):
                self.runs[number] = finished
            else:
                (interrupted if find_interrupted(cell.settings, self._saved) else new).append(number)
        self.interrupted = len(interrupted)
        self._waiting = deque([*interrupted, *new])

    def waiting(self) -> list[Cell]:
        """Returns the trainings that are neither finished nor running nor failed."""
        return [self.cells[number] for number in self._waiting]

    def ask(self) -> TrialTask | None:
        """Returns the next training with its run directory, which may be that of an interrupted run.

        What other processes train, such as the same command in another terminal, is left to them, and looked for again
        after the others: it is finished then, or trained here.
        """
        self._saved.refresh()
        for number in list(self._waiting):
            cell = self.cells[number]
            with ExitStack() as stack:
                if process := _busy(cell, self._saved, stack):
                    if number not in self._busy:
                        print(f"{cell.name} is being trained by {process}: it is waited for.", flush=True)
                    self._busy.add(number)
                    continue
                self._busy.discard(number)
                self._waiting.remove(number)
                if finished := find_finished(cell.settings, self._saved):
                    self.runs[number] = finished
                    continue
                begun = find_interrupted(cell.settings, self._saved) or find_begun(cell.settings, self._saved)
                folder = begun or new_directory(cell.settings)
                folder.mkdir(parents=True, exist_ok=True)
                self._running[number] = folder
                self._locks[number] = stack.pop_all()
                metrics = [objective.metric for objective in self.plan.objectives]
                return TrialTask(number, cell.values, cell.arguments, folder, metrics, name=cell.name)
        return None

    def report(self, number: int, step: int, value: float) -> bool:
        """Prunes nothing."""
        return False

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        """Records a finished run, or why it failed; a run that may succeed is tried again after the others."""
        folder = self._running.pop(number)
        self._locks.pop(number).close()
        self._attempts[number] += 1
        if outcome.state == "complete":
            self.runs[number] = folder
        elif outcome.retry and self._attempts[number] <= self.plan.retries:
            self._waiting.append(number)
        else:
            self.errors[number] = f"{outcome.error.rstrip('.')} (log: {folder / LOG})"

    def interrupt(self, number: int) -> None:
        """Leaves a run for the next time; a folder without a run is removed."""
        folder = self._running.pop(number)
        self._waiting.appendleft(number)
        if not (folder / CONFIG).is_file():
            shutil.rmtree(folder, ignore_errors=True)
        self._locks.pop(number).close()

    def tick(self) -> float | None:
        """Returns the seconds after which to look again for what other processes train; None while there is nothing."""
        return LOOK_AGAIN if self._busy else None

    def running(self) -> int:
        """Returns how many run."""
        return len(self._running)

    def elsewhere(self) -> int:
        """Returns how many other processes train."""
        return len(self._busy)

    def finished(self) -> int:
        """Returns how many are finished, those of earlier commands among them."""
        return len(self.runs)

    def ended(self) -> str:
        """Returns that nothing is left, or an empty string."""
        return "" if self._waiting or self._running else f"{len(self.runs)} of {len(self.cells)} runs are finished"


def _busy(cell: Cell, saved: SavedRuns, stack: ExitStack) -> str:
    """Locks a cell until the stack closes; returns which other process trains it, or an empty string."""
    folder = new_directory(cell.settings).parent
    folder.mkdir(parents=True, exist_ok=True)
    name = f".{sha256(repr(identity(cell.settings)).encode()).hexdigest()[:16]}{run.LOCK}"
    try:
        stack.enter_context(run.lock(folder, name))
    except RunError:
        return run.holder(folder, name)
    running = find_running(cell.settings, saved)  # by a command without -m
    return run.holder(running) if running else ""
