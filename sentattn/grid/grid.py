"""`python -m sentattn.train -m`: trains every combination of several values and seeds, and compares the settings.

Each is an ordinary run, and the run directories are the only state of a grid. What is finished is not trained again,
and what was interrupted is resumed, both found as `resume=auto` finds them.
"""

from __future__ import annotations

import shlex
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

from sentattn import run
from sentattn.config import types
from sentattn.config.types import Node
from sentattn.console import Progress, plural
from sentattn.distributed.devices import rank_info
from sentattn.errors import Fault, Interruption, RunError, SettingError, TrainingError
from sentattn.grid.cells import Cell, read_cells
from sentattn.jobs import pool, scheduler
from sentattn.jobs.progress import JobProgress
from sentattn.jobs.scheduler import Job
from sentattn.jobs.slots import SlotOptions, find_slots, slots_line
from sentattn.run import new_directory, require_writable
from sentattn.training.resume import SavedRuns, find_finished, find_interrupted, find_running, identity

GRID_METRIC = "val/accuracy"
"""What the progress shows of a run: all runs have it, also those that choose their best epoch by another metric."""
RETRIES = 1


def train_grid(arguments: Sequence[str]) -> Grid:
    """Trains what is not finished of a grid; `Grid.require_finished` raises the errors of trainings that failed.

    Args:
        arguments: Those of `python -m sentattn.train`, without `-m`.

    Raises:
        UserError: If the arguments or the data are at fault.
        Interruption: If a signal ended it; the message holds the command that continues.
    """
    if rank_info():
        message = "-m starts a process for each run itself: leave torchrun or srun out, or -m."
        raise SettingError(Fault("-m", "conflict", message))
    cells, options = read_cells(arguments)
    settings = cells[0].settings
    require_writable(settings["output_dir"])
    grid = Grid(cells)
    count = len({identity(cell.settings)[0] for cell in cells})
    seeds = plural(len({cell.settings["seed"] for cell in cells}), "seed")
    print(f"{plural(len(cells), 'run')}: {plural(count, 'setting')}, {seeds}. ", end="")
    print(f"{grid.finished()} finished, {grid.interrupted} to be resumed.", flush=True)
    if waiting := grid.waiting():
        jobs = pool.LocalPool()
        for data in {types.as_typed(cell.settings["data"]): cell.settings for cell in waiting}.values():
            prepare_data(data)
        own = SlotOptions(threads=settings["threads"], **options)
        slots = find_slots(own, settings["trainer"]["accelerator"], len(waiting))
        print(f"{slots_line(slots)}.", flush=True)
        try:
            with JobProgress([grid], len(slots)) as progress:
                scheduler.run([grid], slots, jobs, progress)
        except Interruption as interruption:
            command = shlex.join(["python", "-m", "sentattn.train", "-m", *arguments])
            advice = f"{grid.finished()} of {plural(len(cells), 'run')} are finished. Continue with:\n{command}"
            raise Interruption(interruption.number, advice) from None
    return grid


def prepare_data(settings: Node) -> str:
    """Prepares the data of settings, which jobs then find in the cache; returns its fingerprint.

    Raises:
        DataError: If the data is unusable.
    """
    from sentattn import build

    with Progress() as progress:
        data = build.build_data(settings)
        data.prepare(progress)
    return data.fingerprint


def train_cell(settings: Node, folder: Path, threads: int, devices: int) -> None:
    """Trains a cell in its process, on the devices of its slot."""
    import torch

    from sentattn.config.schema import Settings
    from sentattn.training.fit import fit

    torch.set_num_threads(threads)
    if devices > 1:
        settings = {**settings, "trainer": {**settings["trainer"], "devices": devices, "strategy": "ddp"}}
    resume = folder if run.Run(folder).last_checkpoint.is_file() else None
    fit(Settings.of(settings), resume=resume, directory=folder)


class Grid:
    """The trainings of a grid that are not finished, those that were interrupted first; a `JobSource`.

    Args:
        cells: The trainings.
        name: What messages call the grid.

    Attributes:
        errors: Why trainings failed, by the place of their cell.
        runs: The finished runs, by the same.
        interrupted: How many were interrupted before.
    """

    limit_minutes = None
    stops_at_signal = True

    def __init__(self, cells: Sequence[Cell], name: str = "grid") -> None:
        self.cells, self.name, self.total = cells, name, len(cells)
        self.errors: dict[int, str] = {}
        self._locks: dict[int, ExitStack] = {}
        self._busy: set[int] = set()
        self._attempts: Counter[int] = Counter()
        self._saved = SavedRuns()
        finished = {number: find_finished(cell.settings, self._saved) for number, cell in enumerate(cells)}
        self.runs = {number: path for number, path in finished.items() if path}
        is_new = {n: not find_interrupted(cells[n].settings, self._saved) for n, path in finished.items() if not path}
        self.interrupted = len(is_new) - sum(is_new.values())
        self._waiting = deque(sorted(is_new, key=is_new.__getitem__))

    def waiting(self) -> list[Cell]:
        """Returns the trainings that are neither finished nor running nor failed."""
        return [self.cells[number] for number in self._waiting]

    def next(self) -> Job | None:
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
                folder = begun or run.create(cell.settings).path
                self._locks[number] = stack.pop_all()
                return Job(number, cell.name, folder, train_cell, (cell.settings, folder), cell.values, GRID_METRIC)
        return None

    def has_ended(self, job: Job, code: int, killed: str) -> str:
        """Keeps a finished run; a run that may succeed is tried again after the others."""
        self._locks.pop(job.number).close()
        self._attempts[job.number] += 1
        if code == 0:
            self.runs[job.number] = job.folder
            return f"{GRID_METRIC} {run.Run(job.folder).metrics[GRID_METRIC]:.4f}"
        lines = list(pool.last_lines(job.log))
        reason = lines[-1] if code in (pool.REFUSED, pool.TRY_AGAIN) and lines else pool.explain(code)
        reason = f"{reason.rstrip('.')} (log: {job.log})"
        if code != pool.REFUSED and self._attempts[job.number] <= RETRIES:
            self._waiting.append(job.number)
        else:
            self.errors[job.number] = reason
        return f"failed: {reason}"

    def interrupt(self, job: Job) -> None:
        self._locks.pop(job.number).close()
        self._waiting.appendleft(job.number)

    def over(self) -> str:
        is_over = len(self.runs) + len(self.errors) == self.total
        return f"{len(self.runs)} of {self.total} runs are finished" if is_over else ""

    def finished(self) -> int:
        """Returns how many are finished, those of earlier commands among them."""
        return len(self.runs)

    def elsewhere(self) -> int:
        return len(self._busy)

    def best(self) -> str:
        return ""

    def require_finished(self) -> None:
        """Raises a `TrainingError` with the error of each training that failed."""
        errors = [(self.cells[number].name, reason) for number, reason in sorted(self.errors.items())]
        if errors:
            raise TrainingError(*(Fault(name, "failed", f"missing: {name}: {reason}") for name, reason in errors))


def _busy(cell: Cell, saved: SavedRuns, stack: ExitStack) -> str:
    """Locks a cell until the stack closes; returns which other process trains it, or an empty string."""
    folder = new_directory(cell.settings).parent
    folder.mkdir(parents=True, exist_ok=True)
    name = f".{sha256(repr(identity(cell.settings)).encode()).hexdigest()[:16]}{run.LOCK}"
    if run.is_locked(folder, name):
        return run.holder(folder, name)
    try:
        stack.enter_context(run.lock(folder, name))
    except RunError:
        return run.holder(folder, name)
    running = find_running(cell.settings, saved)  # by a command without -m
    return run.holder(running) if running else ""
