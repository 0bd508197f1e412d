"""`python -m sentattn.train -m`: trains every combination of several values and seeds, and compares the settings.

Each is an ordinary run, and the run directories are the only state of a grid. What is finished is not trained again,
and what was interrupted is resumed, both found as `resume=auto` finds them.
"""

from __future__ import annotations

import itertools
import shlex
import shutil
import sys
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from sentattn import run
from sentattn.config import command_line, types
from sentattn.config.arguments import split_folders
from sentattn.config.command_line import CONFIG_DIR
from sentattn.config.groups import Choices
from sentattn.config.request import Request, read_request
from sentattn.config.schema import COMMAND_KEYS, INIT_FROM, WITHOUT_EFFECT_ON_RESULT
from sentattn.config.types import Node, Tree
from sentattn.console import plural
from sentattn.data.readers import hub, tables
from sentattn.distributed.devices import rank_info
from sentattn.errors import Fault, Interruption, RunError, SettingError, TrainingError, UserError
from sentattn.run import CONFIG, new_directory, require_writable
from sentattn.sweep.execution import resources
from sentattn.sweep.execution.interfaces import LOG, TrialOutcome, TrialTask
from sentattn.sweep.execution.local import LocalEngine
from sentattn.sweep.execution.progress import SweepProgress, format_values
from sentattn.sweep.execution.scheduler import Scheduler
from sentattn.sweep.spec.plan import OPTIONS, Objective, Plan
from sentattn.config.search_space import Value, deciding, is_range, override, read_dimension
from sentattn.training.resume import SavedRuns, find_finished, find_interrupted, find_running, identity

SLOTS = ("slots", "slots_per_gpu")
"""Keys of a sweep that a grid has too; `threads` is a setting of the training."""
ONE_TRAINING = "it is about one training; leave -m out, and give each setting one value"
REFUSED = {
    "check": ONE_TRAINING,
    "--cfg job": ONE_TRAINING,
    "resume": "the same command with -m resumes what was interrupted; resume=DIR continues one run, without -m",
}
NO_EFFECT = WITHOUT_EFFECT_ON_RESULT - {"seed", "data.vectors"}
DEVICES: Node = {"devices": 1, "num_nodes": 1, "strategy": "auto"}
"""What the trainer of a cell has, which trains in one slot."""
SHOWN = Objective("val/accuracy", "max")
"""What the progress shows of a run: all runs have it, also those that choose their best epoch by another metric."""
SERVER_LOG = "grid.txt"
LOOK_AGAIN = 1.0
"""Seconds between two looks for the end of what another process trains."""


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
    plan = Plan(
        study="grid",
        overrides=(),
        space={},
        objectives=(SHOWN,),
        trials=len(cells),
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
    return grid


def _run(grid: Grid) -> None:
    """Trains the unfinished runs on the slots of this machine."""
    plan, waiting = grid.plan, grid.waiting()
    slots = resources.find(plan, waiting[0].settings["trainer"]["accelerator"], len(waiting))
    print(f"{resources.slots_line(slots)}.", flush=True)
    by_data = {types.as_typed(cell.settings["data"]): cell.arguments for cell in waiting}
    log = Path(plan.output_dir) / SERVER_LOG
    engine = LocalEngine("sentattn.sweep.execution.trial", list(by_data.values()), log)
    try:
        with SweepProgress([grid], len(slots)) as progress:
            Scheduler([grid], slots, engine, [progress]).run()
    finally:
        if not isinstance(sys.exception(), RunError):  # which says to read it
            log.unlink(missing_ok=True)  # each run has its own


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
        return len(self._running)

    def elsewhere(self) -> int:
        return len(self._busy)

    def finished(self) -> int:
        """Returns how many are finished, those of earlier commands among them."""
        return len(self.runs)

    def require_finished(self) -> None:
        """Raises a `TrainingError` with the error of each training that failed."""
        errors = [(self.cells[number].name, reason) for number, reason in sorted(self.errors.items())]
        if errors:
            raise TrainingError(*(Fault(name, "failed", f"missing: {name}: {reason}") for name, reason in errors))

    def ended(self) -> str:
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


@dataclass(frozen=True)
class Cell:
    """One training of a grid.

    Attributes:
        name: What sets it apart, such as `model=mean, seed=0`.
        values: The same by key.
        arguments: Its command line for `python -m sentattn.train`.
        settings: Its resolved settings.
    """

    name: str
    values: Mapping[str, Value]
    arguments: list[str]
    settings: Node


def read_cells(words: Sequence[str]) -> tuple[list[Cell], Tree]:
    """Reads the cells of a grid, each checked as a training of its own would be.

    Args:
        words: The arguments of a training; settings that have an effect on the result may have several values.

    Returns:
        The cells, all settings with their first seed before any with its second, none twice; and the keys of `SLOTS`.

    Raises:
        SettingError: With the faults of all cells.
    """
    rest, paths = split_folders(words)
    rest, show = command_line.take_cfg(rest)
    own, rest = command_line.take(rest, SLOTS)
    options, faults = command_line.read_values(own, {name: OPTIONS[name] for name in SLOTS})
    choices, folders = Choices.of(*paths), [f"{CONFIG_DIR}={path.resolve()}" for path in paths]
    legal: list[list[str]] = []
    for word in [*rest, *(["--cfg job"] if show else [])]:
        try:
            legal.append(_values(word, choices))
        except SettingError as error:
            faults += error.faults
    combinations = list(itertools.product(*legal))
    requests: dict[tuple[str, ...], Request] = {}
    faulty: dict[Fault, list[tuple[str, ...]]] = {}
    for combination in combinations:
        try:
            requests[combination] = _read([*folders, *combination])
        except UserError as error:
            for fault in error.faults:
                faulty.setdefault(fault, []).append(combination)
    for fault, wrong in faulty.items():
        right = [combination for combination in combinations if combination not in wrong]
        bad, good = ([dict(map(_split, combination)) for combination in side] for side in (wrong, right))
        decides = deciding([key for key in bad[0] if key != fault.key], bad, good)
        where = f"with {decides[0]}={' or '.join(map(str, decides[1]))}: " if decides else ""
        faults.append(replace(fault, message=f"{where}{fault}"))
    if faults:
        raise SettingError(*dict.fromkeys(faults))
    varied = {values[0].partition("=")[0] for values in legal if len(values) > 1}
    cells: dict[tuple[object, ...], Cell] = {}  # of equal cells the first
    seeds = max(request.seeds for request in requests.values())
    for number, (combination, request) in itertools.product(range(seeds), requests.items()):
        settings, texts = request.runs()[number], dict(_split(word) for word in combination)
        seed = settings["seed"]
        values = {key: types.parse(text) for key, text in texts.items() if key in varied - {"seed"}}
        values["seed"] = seed
        texts |= {key: settings[key] for key in (INIT_FROM,) if settings[key]}  # for all cells the same `latest`
        arguments = [f"{key}={text}" for key, text in texts.items() if key not in ("seed", "seeds")]
        cell = Cell(format_values(values), values, [*folders, *arguments, f"seed={seed}"], settings)
        cells.setdefault(identity(settings), cell)
    return list(cells.values()), options


def _split(word: str) -> tuple[str, str]:
    key, _, text = word.partition("=")
    return key, text


def _values(word: str, choices: Choices) -> list[str]:
    """Returns a word with each of its values.

    Raises:
        SettingError: If they cannot be read, or the setting takes one value.
    """
    key, text = _split(word)
    if key in REFUSED:
        raise SettingError(Fault(key, "unsupported", f"{word} cannot be used with -m: {REFUSED[key]}."))
    if not is_range(key, text):
        return [word]
    if key in COMMAND_KEYS:
        raise SettingError(Fault(key, "unsupported", f"{word}: {key} takes one value."))
    if key in NO_EFFECT or key.partition(".")[0] in NO_EFFECT:
        message = f"{word}: {key} has no effect on the result, and so takes one value."
        raise SettingError(Fault(key, "no_effect", message))
    try:
        parsed = OverridesParser.create().parse_override(word)
        if isinstance(parsed.value(), ChoiceSweep):  # also of lists, which no study can search
            return [f"{key}={text}" for text in parsed.sweep_string_iterator()]
    except (HydraException, OmegaConfBaseException):
        pass  # `read_dimension` raises it, with the closest spelling
    values = read_dimension(key, text, choices).values()
    if values is None:
        message = f"{word} has no list of values: type {key}=range(0.1,0.5,0.1), choice(a,b) or a,b."
        raise SettingError(Fault(key, "range", message))
    return [override(key, value) for value in values]


def _read(arguments: Sequence[str]) -> Request:
    """Reads one setting of a grid.

    Raises:
        UserError: If it is no legal training, or none that one slot can run.
    """
    request = read_request(arguments)
    trainer = request.settings["trainer"]
    if others := [key for key, only in DEVICES.items() if trainer.get(key, only) != only]:
        key = f"trainer.{others[0]}"
        slot = "each run has one slot, which is a GPU, a share of one, or cores of the processor"
        message = f"{key}={types.as_typed(trainer[others[0]])} cannot be used with -m: {slot}."
        raise SettingError(Fault(key, "unsupported", message))
    tables.check(request.settings["data"])
    hub.check(request.settings["data"])
    return request
