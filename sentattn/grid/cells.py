"""The cells of a grid: every combination of several values and seeds, each checked as a training would be."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_type_hints

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from sentattn.config import command_line, types
from sentattn.config.arguments import split_folders
from sentattn.config.command_line import CONFIG_DIR
from sentattn.config.groups import Choices
from sentattn.config.request import Request, read_request
from sentattn.config.schema import COMMAND_KEYS, HASHED_BY_CONTENT, INIT_FROM, WITHOUT_EFFECT_ON_RESULT
from sentattn.config.search_space import Value, is_range, override, read_dimension
from sentattn.config.types import Node, Tree
from sentattn.data.readers import hub, tables
from sentattn.errors import Fault, SettingError, UserError
from sentattn.jobs.progress import format_values
from sentattn.jobs.slots import SlotOptions, require_one_device
from sentattn.training.resume import identity

SLOTS = ("slots", "slots_per_gpu")
"""Keys of a sweep that a grid has too; `threads` is a setting of the training."""
ONE_TRAINING = "it is about one training; leave -m out, and give each setting one value"
REFUSED_IN_GRID = {
    "check": ONE_TRAINING,
    "--cfg job": ONE_TRAINING,
    "resume": "the same command with -m resumes what was interrupted; resume=DIR continues one run, without -m",
}
ONE_VALUE_IN_GRID = WITHOUT_EFFECT_ON_RESULT - {"seed", *HASHED_BY_CONTENT}


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
    require_one_device(request.settings["trainer"], "with -m", "leave it out")
    tables.check(request.settings["data"])
    hub.check(request.settings["data"])
    return request
