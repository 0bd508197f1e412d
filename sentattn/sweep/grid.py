"""A grid: every combination of several values and seeds, each an ordinary run. The run directories are its only state.

What is finished is not trained again, and what was interrupted is resumed, both found as `resume=auto` finds them.
"""

from __future__ import annotations

import shutil
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sentattn.errors import Fault, RunError
from sentattn.run import CONFIG, new_directory
from sentattn.sweep.callbacks import LOG
from sentattn.sweep.cells import Cell
from sentattn.sweep.plan import Plan
from sentattn.sweep.records import TrialOutcome
from sentattn.sweep.source import NextTrial
from sentattn.training.resume import find_begun, find_finished, find_interrupted, find_running


@dataclass
class Grid:
    """Hands out the trainings of a grid that are not finished, those that were interrupted first; see `TrialSource`.

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
    study: None = None
    failures: int = 0  # one model that fails with all seeds does not keep the others from theirs
    best_values: Mapping[int, Sequence[float]] = field(default_factory=dict)
    _running: dict[int, Path] = field(default_factory=dict)
    _attempts: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Looks for runs that exist.

        Raises:
            RunError: If another process trains one of them.
        """
        faults = []
        interrupted = []
        for number, cell in enumerate(self.cells):
            if finished := find_finished(cell.settings):
                self.runs[number] = finished
            elif busy := find_running(cell.settings):
                message = f"{cell.name}: {busy} is being trained by another process; wait for its end, or stop it."
                faults.append(Fault("resume", "busy", message))
            elif find_interrupted(cell.settings):
                interrupted.append(number)
        if faults:
            raise RunError(*faults)
        new = [number for number in range(len(self.cells)) if number not in self.runs and number not in interrupted]
        self.interrupted = len(interrupted)
        self._waiting = deque([*interrupted, *new])

    def waiting(self) -> list[Cell]:
        """Returns the trainings that are neither finished nor running nor failed."""
        return [self.cells[number] for number in self._waiting]

    def ask(self) -> NextTrial | None:
        """Returns the next training with its run directory, which may be that of an interrupted run."""
        if not self._waiting:
            return None
        number = self._waiting.popleft()
        cell = self.cells[number]
        folder = find_interrupted(cell.settings) or find_begun(cell.settings) or new_directory(cell.settings)
        folder.mkdir(parents=True, exist_ok=True)
        self._running[number] = folder
        return NextTrial(number, cell.values, cell.arguments, folder, cell.name)

    def report(self, number: int, step: int, value: float) -> bool:
        """Prunes nothing."""
        return False

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        """Notes a finished run, or why it failed; one that may succeed is tried again after the others."""
        folder = self._running.pop(number)
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

    def tick(self) -> float | None:
        """Nothing is due."""
        return None

    def running(self) -> int:
        """Returns how many run."""
        return len(self._running)

    def elsewhere(self) -> int:
        """Returns 0: one process trains a grid."""
        return 0

    def finished(self) -> int:
        """Returns how many are finished, those of earlier commands among them."""
        return len(self.runs)

    def ended(self) -> str:
        """Returns that nothing is left, or an empty string."""
        return "" if self._waiting or self._running else f"{len(self.runs)} of {len(self.cells)} runs are finished"
