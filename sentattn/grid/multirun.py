"""`python -m sentattn.train -m`: trains every combination of several values and seeds, and compares the settings."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from sentattn.config.compose import setting_hash
from sentattn.config.types import as_typed
from sentattn.console import plural
from sentattn.errors import Fault, Interruption, RunError, TrainingError
from sentattn.grid.cells import read_cells
from sentattn.grid.grid import Grid
from sentattn.run import require_writable
from sentattn.sweep.execution import resources
from sentattn.sweep.execution.local import LocalEngine
from sentattn.sweep.execution.progress import SweepProgress
from sentattn.sweep.execution.resources import SlotRequest
from sentattn.sweep.execution.scheduler import Scheduler
from sentattn.sweep.spec.plan import Budget, Objective, Plan
from sentattn.training.precision import resolve_precision

SHOWN = Objective("val/accuracy", "max")
"""What the progress shows of a run: every run has it, whatever its best epoch is chosen by."""
SERVER_LOG = "grid.txt"


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
    print(_standing(grid), flush=True)
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


def _standing(grid: Grid) -> str:
    """Returns how many runs there are, and how far they are."""
    settings = len({setting_hash(resolve_precision(cell.settings)) for cell in grid.cells})
    seeds = len({cell.settings["seed"] for cell in grid.cells})
    runs = f"{plural(len(grid.cells), 'run')}: {plural(settings, 'setting')}, {plural(seeds, 'seed')}"
    return f"{runs}. {grid.finished()} finished, {grid.interrupted} to be resumed."
