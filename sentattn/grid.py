"""`python -m sentattn.train -m`: trains every combination of several values and seeds, and compares the settings.

Each is a cell, checked as a training would be, and then an ordinary run; the run directories are the only state of a
grid. What is finished is not trained again, what was interrupted is resumed, both found as `resume=auto` finds them.
"""

from __future__ import annotations

import itertools
import shlex
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import get_type_hints

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from sentattn import run
from sentattn.config import command_line, types
from sentattn.config.arguments import split_folders
from sentattn.config.command_line import CONFIG_DIR
from sentattn.config.compose import ENCODER_KEY
from sentattn.config.groups import Choices, get_path
from sentattn.config.request import Request, read_request
from sentattn.config.schema import COMMAND_KEYS, FOLD, HASHED_BY_CONTENT, WITHOUT_EFFECT_ON_RESULT
from sentattn.config.search_space import CAST, Value, is_range, override, read_dimension
from sentattn.config.types import Node, Tree
from sentattn.console import Progress, plural
from sentattn.data.readers import hub, tables
from sentattn.distributed.devices import rank_info
from sentattn.errors import Fault, Interruption, RunError, SettingError, TrainingError, UserError
from sentattn.jobs import pool, scheduler
from sentattn.jobs.job import Job
from sentattn.jobs.progress import JobProgress
from sentattn.jobs.slots import SlotOptions, find_slots, require_one_device, slots_line
from sentattn.run import new_directory, require_writable
from sentattn.training.resume import find_finished, find_interrupted, find_running, identity

SLOTS = ("slots", "slots_per_gpu")
"""Keys of a sweep that a grid has too; `threads` is a setting of the training."""
ONE_TRAINING = "it is about one training; leave -m out, and give each setting one value"
REFUSED_IN_GRID = {
    "check": ONE_TRAINING,
    "--cfg job": ONE_TRAINING,
    "resume": "the same command with -m resumes what was interrupted; resume=DIR continues one run, without -m",
}
ONE_VALUE_IN_GRID = WITHOUT_EFFECT_ON_RESULT - {"seed", FOLD, *HASHED_BY_CONTENT}
GRID_METRIC = "val/accuracy"
"""What the progress shows of a run: all runs have it, also those that choose their best epoch by another metric."""
RETRIES = 1


@dataclass(frozen=True)
class Cell:
    """One training of a grid.

    Attributes:
        name: What sets it apart, such as `model=mean, seed=0`.
        values: The same by key.
        settings: Its resolved settings.
    """

    name: str
    values: Mapping[str, Value]
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
    hints = get_type_hints(SlotOptions, include_extras=True)
    options, faults = command_line.read_values(own, {name: hints[name] for name in SLOTS})
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
    varied = {_split(values[0])[0] for values in legal if len(values) > 1}
    for fault, wrong in faulty.items():
        typed = [word for word in wrong[0] if _split(word)[0] in varied - {fault.key}]
        is_everywhere = not typed or len(wrong) == len(combinations)
        faults.append(fault if is_everywhere else replace(fault, message=f"with {' '.join(typed)}: {fault}"))
    if faults:
        raise SettingError(*dict.fromkeys(faults))
    cells: dict[tuple[object, ...], Cell] = {}  # of equal cells the first
    # The first run of each, then the second of each: all settings with their first seed and fold come first.
    runs = itertools.zip_longest(*([(words, run) for run in each.runs()] for words, each in requests.items()))
    for combination, settings in filter(None, itertools.chain.from_iterable(runs)):
        fold, texts = get_path(settings, FOLD), dict(_split(word) for word in combination)
        texts |= {} if fold is None else {FOLD: str(fold)}
        values = {key: types.parse(text) for key, text in texts.items() if key in varied | {FOLD}}
        values["seed"] = settings["seed"]
        cells.setdefault(identity(settings), Cell(types.format_values(values), values, settings))
    _cache_layers([cell.settings["model"]["embedding"] for cell in cells.values()])
    return list(cells.values()), options


def _cache_layers(embeddings: Sequence[Tree]) -> None:
    """Lets the first run over a frozen encoder cache the states of all layers that the grid trains on."""
    layers: dict[tuple[object, object], list[int]] = {}
    frozen = [each for each in embeddings if each.get("frozen") and each.get("layer", "mix") != "mix"]
    for embedding in frozen:
        layers.setdefault((embedding["name"], embedding["revision"]), []).append(embedding["layer"])
    for embedding in frozen:
        embedding["cache_layers"] = sorted({*layers[embedding["name"], embedding["revision"]]})


def _split(word: str) -> tuple[str, str]:
    key, _, text = word.partition("=")
    return key, text


def _values(word: str, choices: Choices) -> list[str]:
    """Returns a word with each of its values.

    Raises:
        SettingError: If they cannot be read, or the setting takes one value.
    """
    key, text = _split(word)
    if key in REFUSED_IN_GRID:
        raise SettingError(Fault(key, "unsupported", f"{word} cannot be used with -m: {REFUSED_IN_GRID[key]}."))
    if not is_range(key, text):
        return [word]
    if key in COMMAND_KEYS:
        raise SettingError(Fault(key, "unsupported", f"{word}: {key} takes one value."))
    if key in ONE_VALUE_IN_GRID or key.partition(".")[0] in ONE_VALUE_IN_GRID:
        message = f"{word}: {key} has no effect on the result, and so takes one value."
        raise SettingError(Fault(key, "no_effect", message))
    try:
        parsed = OverridesParser.create().parse_override(word)
        if isinstance(parsed.value(), ChoiceSweep) and not CAST.search(text):
            # Also of lists, which no study can search.
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
    require_one_device(request.settings["trainer"], "with -m", "leave it out")
    tables.check(request.settings["data"])
    hub.check(request.settings["data"])
    return request


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
    folds = len({get_path(cell.settings, FOLD) for cell in cells} - {None})
    counted = [plural(count, "setting"), seeds, *([plural(folds, "fold")] if folds else [])]
    print(f"{plural(len(cells), 'run')}: {', '.join(counted)}. ", end="")
    print(f"{grid.finished()} finished, {grid.interrupted} to be resumed.", flush=True)
    if waiting := grid.waiting():
        for folder in {new_directory(cell.settings).parent for cell in waiting}:
            require_writable(str(folder))
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
    """Prepares the data of settings, which jobs then find in the cache; returns the fingerprint of rows and vectors.

    Raises:
        DataError: If the data is unusable.
    """
    from sentattn import build
    from sentattn.data.pieces import read_tokenizer

    if get_path(settings, ENCODER_KEY) is not None:  # whose tokenizer was not typed
        read_tokenizer(settings["data"]["tokenizer"], key=ENCODER_KEY)
    with Progress() as progress:
        data = build.build_data(settings)
        data.prepare(progress)
    return data.fingerprint + (f", vectors {data.word_vectors.fingerprint}" if data.word_vectors else "")


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

    limit_minutes: float | None = None
    stops_at_signal = True

    def __init__(self, cells: Sequence[Cell], name: str = "grid") -> None:
        self.cells, self.name = cells, name
        self.total: int | None = len(cells)
        self.errors: dict[int, str] = {}
        self._locks: dict[int, ExitStack] = {}
        self._busy: set[int] = set()
        self._attempts: Counter[int] = Counter()
        finished = {number: find_finished(cell.settings) for number, cell in enumerate(cells)}
        self.runs = {number: path for number, path in finished.items() if path}
        is_new = {number: not find_interrupted(cells[number].settings) for number, path in finished.items() if not path}
        self.interrupted = len(is_new) - sum(is_new.values())
        self._waiting = deque(sorted(is_new, key=is_new.__getitem__))

    def waiting(self) -> list[Cell]:
        """Returns the trainings that are neither finished nor running nor failed."""
        return [self.cells[number] for number in self._waiting]

    def next(self) -> Job | None:
        """Returns the next training with its run directory, which may be that of an interrupted run.

        What other processes train is looked for again after the others: it is finished then, or trained here.
        """
        for number in list(self._waiting):
            cell = self.cells[number]
            with ExitStack() as stack:
                if process := _busy(cell, stack):
                    if number not in self._busy:
                        print(f"{cell.name} is being trained by {process}: it is waited for.", flush=True)
                    self._busy.add(number)
                    continue
                self._busy.discard(number)
                self._waiting.remove(number)
                if finished := find_finished(cell.settings):
                    self.runs[number] = finished
                    continue
                begun = find_interrupted(cell.settings) or find_interrupted(cell.settings, has_checkpoint=False)
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


def _busy(cell: Cell, stack: ExitStack) -> str:
    """Locks a cell until the stack closes; returns which other process trains it, or an empty string."""
    folder = new_directory(cell.settings).parent
    with run.writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    name = f".{sha256(repr(identity(cell.settings)).encode()).hexdigest()[:16]}{run.LOCK_FILE}"
    if run.is_locked(folder, name):
        return run.holder(folder, name)
    try:
        stack.enter_context(run.lock(folder, name))
    except RunError as error:
        if error.faults[0].kind != "busy":
            raise
        return run.holder(folder, name)
    running = find_running(cell.settings)  # by a command without -m
    return run.holder(running) if running else ""
