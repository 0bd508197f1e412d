"""`python -m sentattn.train -m`: trains every combination of several values and seeds, and compares the settings."""

from __future__ import annotations

import itertools
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob
from hydra.errors import HydraException

from sentattn.config import command_line
from sentattn.config.arguments import split_folders
from sentattn.config.command_line import CONFIG_DIR
from sentattn.config.groups import Choices
from sentattn.config.request import Request, read_request
from sentattn.config.schema import OWN, WITHOUT_EFFECT_ON_RESULT
from sentattn.config.types import parse
from sentattn.data import tables
from sentattn.errors import Fault, Interruption, SettingError, TrainingError, UserError
from sentattn.run import require_writable
from sentattn.sweep import resources
from sentattn.sweep.callbacks import SweepProgress, format_values
from sentattn.sweep.grid import Cell, Grid
from sentattn.sweep.plan import Budget, Objective, Plan
from sentattn.sweep.search_space import is_range, read_dimension
from sentattn.sweep.sweep_file import OPTIONS
from sentattn.training.resume import identity

FLAGS = ("-m", "--multirun")
SLOTS = ("slots", "slots_per_gpu")
"""Keys of a sweep that a grid has too; `threads` is a setting of the training."""
SHOWN = Objective("val/accuracy", "max")
"""What the progress shows of a run: every run has it, whatever its best epoch is chosen by."""
REFUSED = {
    "check": "it is about one training: leave -m out and name one value of each setting",
    "resume": "the same command with -m resumes what was interrupted; resume=DIR continues one run, without -m",
}
VARIED = WITHOUT_EFFECT_ON_RESULT - {"seed", "faithful", "data.vectors"}
SERVER_LOG = "grid.txt"


@dataclass(frozen=True)
class MultirunRequest:
    """What is to be trained: the cells, how many different settings they have, and the keys of the slots."""

    cells: Sequence[Cell]
    settings: int
    options: dict[str, Any]


def train_grid(arguments: Sequence[str]) -> None:
    """Trains what is not finished of a grid, and prints the comparison of its settings.

    Args:
        arguments: Those of `python -m sentattn.train`, with or without `-m`.

    Raises:
        UserError: If the arguments or the data are at fault.
        TrainingError: After the comparison, with the error of each training that failed.
        Interruption: If a signal ended it; the message holds the command that continues.
    """
    words = [word for word in arguments if word not in FLAGS]
    request = read_multirun(words)
    cells = request.cells
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
        **request.options,
    )
    grid = Grid(cells, plan)
    seeds = len({cell.settings["seed"] for cell in cells})
    print(f"{_count(len(cells), 'run')}: {_count(request.settings, 'setting')}, {_count(seeds, 'seed')} each; {grid.standing()}.")
    if grid.waiting():
        _run(grid, words)
    _compare(grid)
    if grid.errors:
        errors = {cells[number].name: reason for number, reason in sorted(grid.errors.items())}
        raise TrainingError(*(Fault("", "failed", f"missing: {name}: {why}") for name, why in errors.items()))


def read_multirun(words: Sequence[str]) -> MultirunRequest:
    """Reads the cells of a grid, each checked as its own command would be.

    Args:
        words: The arguments of a training; any setting that has an effect on the result may have several values.

    Raises:
        SettingError: With all faults of all cells.
    """
    rest, folders = split_folders(words)
    own, rest = command_line.take(rest, SLOTS)
    options, faults = command_line.read_values(own, {name: OPTIONS[name] for name in SLOTS})
    choices = Choices.of(*folders)
    varied: dict[str, list[str]] = {}
    fixed: list[str] = []
    for word in rest:
        key, _, text = word.partition("=")
        try:
            if key in REFUSED or word.startswith("--cfg"):
                message = f"{word} cannot be used with -m: {REFUSED.get(key, REFUSED['check'])}."
                raise SettingError(Fault(key, "unsupported", message))
            if not is_range(key, text):
                fixed.append(word)
            elif key in varied:
                raise SettingError(Fault(key, "conflict", f"{key} is given twice: leave one out."))
            else:
                varied[key] = _values(key, text, choices)
        except SettingError as error:
            faults += error.faults
            varied.setdefault(key, [])
    ...
