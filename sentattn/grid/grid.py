"""`python -m sentattn.train -m`: trains every combination of several values and seeds, and compares the settings.

Each is an ordinary run, and the run directories are the only state of a grid. What is finished is not trained again,
and what was interrupted is resumed, both found as `resume=auto` finds them.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from sentattn import run
from sentattn.config.types import as_typed
from sentattn.console import plural
from sentattn.errors import Fault, Interruption, RunError, TrainingError
from sentattn.grid.cells import Cell, read_cells
from sentattn.run import CONFIG, new_directory, require_writable
from sentattn.sweep.execution import resources
from sentattn.sweep.execution.interfaces import LOG, TrialOutcome, TrialTask
from sentattn.sweep.execution.local import LocalEngine
from sentattn.sweep.execution.progress import SweepProgress
from sentattn.sweep.execution.resources import SlotRequest
from sentattn.sweep.execution.scheduler import Scheduler
from sentattn.sweep.spec.plan import Budget, Objective, Plan
from sentattn.training.resume import (
    SavedRuns,
    find_finished,
    find_interrupted,
    find_running,
    identity,
)

SHOWN = Objective("val/accuracy", "max")
"""What the progress shows of a run: all runs have it, also those that choose their best epoch by another metric."""
SERVER_LOG = "grid.txt"
LOOK_AGAIN = 1.0
"""Seconds between two looks for the end of what another process trains."""


def train_grid(arguments: Sequence[str]) -> None:
    """Trains what is not finished of a grid, and prints the comparison of its settings.

    Args:
        arguments: Those of `python -m sentattn.train`, without `-m`.

    Raises:
        UserError: If the arguments or the data are at fault.
        TrainingError: After the comparison, with the error of each training that failed.
        Interruption: If a signal ended it; the message holds the command that continues.
    """
    cells, options = read_cells(arguments)
    settings = cells[0].settings
    require_writable(settings["output_dir"])
    plan = Plan(
        study="grid",
        overrides=(),
        space={},
        objectives=(SHOWN,),
        budget=Budget(len(cells), None),
        sampler={},
        pruner={},
        threads=settings["threads"],
        output_dir=settings["output_dir"],
        **options,
    )
    grid = Grid(cells, plan)
    count = len({identity(cell.settings)[0] for cell in cells})
    seeds = plural(len({cell.settings["seed"] for cell in cells}), "seed")
    print(f"{plural(len(cells), 'run')}: {plural(count, 'setting')}, {seeds}. ", end="")
    print(f"{grid.finished()} finished, {grid.interrupted} to be resumed.", flush=True)
    if grid.waiting():
        try:
            _run(grid)
        except Interruption as interruption:
            command = shlex.join(["python", "-m", "sentattn.train", "-m", *arguments])
            advice = f"{grid.finished()} of {plural(len(cells), 'run')} are finished. Continue with:\n{command}"
            raise Interruption(interruption.number, advice) from None
    if grid.runs:
        _compare(grid)
    if grid.errors:
        errors = [(cells[number].name, reason) for number, reason in sorted(grid.errors.items())]
        raise TrainingError(*(Fault(name, "failed", f"missing: {name}: {reason}") for name, reason in errors))


def _run(grid: Grid) -> None:
    """Trains the unfinished runs on the slots of this machine."""
    plan, waiting = grid.plan, grid.waiting()
    request = SlotRequest(
        accelerator=waiting[0].settings["trainer"]["accelerator"],
        slots=plan.slots,
        slots_per_gpu=plan.slots_per_gpu,
        threads=plan.threads,
        trials=len(waiting),
    )
    slots = resources.find(request)
    print(f"{resources.slots_line(slots)}.", flush=True)
    by_data = {as_typed(cell.settings["data"]): cell.arguments for cell in waiting}
    log = Path(plan.output_dir) / SERVER_LOG
    engine = LocalEngine("sentattn.sweep.execution.trial", list(by_data.values()), log)
    try:
        with SweepProgress([grid], len(slots)) as progress:
            Scheduler([grid], slots, engine, [progress]).run()
    finally:
        if not isinstance(sys.exception(), RunError):  # which says to read it
            log.unlink(missing_ok=True)  # each run has its own


def _compare(grid: Grid) -> None:
    """Prints the comparison of the finished runs."""
    from sentattn.compare.comparison import read_comparisons
    from sentattn.compare.leaderboard import board_lines, message_lines

    split = "test" if grid.cells[0].settings["test"] else "val"
    found, faults = read_comparisons(list(grid.runs.values()), split=split)
    for fault in faults:
        print(f"warning: {fault}", file=sys.stderr)
    for comparison in found:
        messages = message_lines(comparison)
        print("", *board_lines(comparison), *(["", *messages] if messages else []), sep="\n")


@dataclass
class Grid:
    """Assigns the trainings of a grid that are not finished, those that were interrupted first; see `TrialSource`.

    Attributes:
        cells: The trainings.
        plan: What the scheduler reads of a plan.
        errors: Why trainings failed, by the place of their cell.
        runs: The finished runs, by the same.
        interrupted: How many were interrupted before.
    """

    cells: Sequence[Cell]
    plan: Plan
    errors: dict[int, str] = field(default_factory=dict)
    resumable = True
    failures: int = 0  # one model that fails with all seeds does not keep the others from theirs
    best_values: Mapping[int, Sequence[float]] = field(default_factory=dict)
    _running: dict[int, tuple[Path, ExitStack]] = field(default_factory=dict)
    _busy: set[int] = field(default_factory=set)
    _attempts: Counter[int] = field(default_factory=Counter)
    _saved: SavedRuns = field(default_factory=SavedRuns)

    def __post_init__(self) -> None:
        """Looks for runs that exist."""
        finished = {number: find_finished(cell.settings, self._saved) for number, cell in enumerate(self.cells)}
        self.runs = {number: path for number, path in finished.items() if path}
        is_new = {
            n: not find_interrupted(self.cells[n].settings, self._saved) for n, path in finished.items() if not path
        }
        self.interrupted = len(is_new) - sum(is_new.values())
        self._waiting = deque(sorted(is_new, key=is_new.__getitem__))

    def waiting(self) -> list[Cell]:
        """Returns the trainings that are neither finished nor running nor failed."""
        return [self.cells[number] for number in self._waiting]

    def ask(self) -> TrialTask | None:
        """Returns the next training with its run directory, which may be that of an interrupted run.

        What other processes train is looked for again after the others: it is finished then, or trained here.
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
                begun = find_interrupted(cell.settings, self._saved) or find_interrupted(
                    cell.settings, self._saved, has_checkpoint=False
                )
                folder = begun or new_directory(cell.settings)
                folder.mkdir(parents=True, exist_ok=True)
                self._running[number] = folder, stack.pop_all()
                metrics = [objective.metric for objective in self.plan.objectives]
                return TrialTask(number, cell.values, cell.arguments, folder, metrics, name=cell.name)
        return None

    def report(self, number: int, step: int, value: float) -> bool:
        """Prunes nothing."""
        return False

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        """Records a finished run, or why it failed; a run that may succeed is tried again after the others."""
        folder, lock = self._running.pop(number)
        lock.close()
        self._attempts[number] += 1
        if outcome.state == "complete":
            self.runs[number] = folder
        elif outcome.retry and self._attempts[number] <= self.plan.retries:
            self._waiting.append(number)
        else:
            self.errors[number] = f"{outcome.error.rstrip('.')} (log: {folder / LOG})"

    def interrupt(self, number: int) -> None:
        """Leaves a run for the next time; a folder without a run is removed."""
        folder, lock = self._running.pop(number)
        self._waiting.appendleft(number)
        if not (folder / CONFIG).is_file():
            shutil.rmtree(folder, ignore_errors=True)
        lock.close()

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
