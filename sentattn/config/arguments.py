"""Arguments of a training: settings `key=value` in Hydra's grammar; texts and paths are taken as typed."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from sentattn.config.command_line import CONFIG_DIR, reference_fault
from sentattn.config.groups import Choices
from sentattn.config.schema import COLUMNS, COMMAND_KEYS, RAW, TOP
from sentattn.errors import Fault, SettingError, suggestion

OPTIONS = ("--help", "--cfg job", CONFIG_DIR, "--multirun")
LAST = 1 << 30
OF_HYDRA: dict[str, str] = {
    "-cn": "experiment={}, a file in conf/experiment or in experiment/ of a --config-dir FOLDER",
    "--config-name": "experiment={}, a file in conf/experiment or in experiment/ of a --config-dir FOLDER",
    "-cp": "--config-dir {}",
    "--config-path": "--config-dir {}",
    "-cd": "--config-dir {}",
    "-c": "--cfg {}",
    "--experimental-rerun": "from={}",
    "--resolve": "--cfg job",
    "--info": "--cfg job",
    "-i": "--cfg job",
    "--hydra-help": "--help",
    "hydra.run.dir": "output_dir={}",
    "hydra.sweep.dir": "output_dir={}",
    "hydra.searchpath": "--config-dir FOLDER",
    "hydra.mode": "python -m sentattn.train -m",
    "hydra/launcher": "python -m sentattn.sweep engine=NAME",
    "hydra/sweeper": "python -m sentattn.sweep sampler=NAME",
}
"""Options and keys of Hydra -> what to type instead, with the value."""


@dataclass(frozen=True)
class Argument:
    """A typed setting: its place among the arguments, its key, and its value as text and as Hydra reads it."""

    position: int
    key: str
    text: str
    value: Any

    def __str__(self) -> str:
        return f"{self.key}={self.text}"


class Faults:
    """Collects faults, to report them all at once in the order in which they were typed."""

    def __init__(self) -> None:
        self._collected: list[tuple[int, Fault]] = []

    def add(self, fault: Fault, position: int = LAST) -> None:
        """Adds a fault; a fault without a position, which belongs to no argument, comes last."""
        self._collected.append((position, fault))

    def raise_any(self) -> None:
        """Raises what was collected, if anything, as `SettingError`."""
        in_order = sorted(self._collected, key=lambda placed: placed[0])
        if by_message := {fault.message: fault for _, fault in in_order}:
            raise SettingError(*by_message.values())


def split_folders(arguments: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Splits `--config-dir FOLDER` from the arguments: the rest, and the folders."""
    rest: list[str] = []
    folders: list[Path] = []
    words = iter(arguments)
    for word in words:
        option, equals, folder = word.partition("=")
        if option != CONFIG_DIR:
            rest.append(word)
        elif folder := folder if equals else next(words, ""):
            folders.append(Path(folder))
        else:
            raise SettingError(Fault(CONFIG_DIR, "missing", f"{CONFIG_DIR} needs a folder: {CONFIG_DIR} FOLDER."))
    return rest, folders


def read(words: Sequence[str], choices: Choices, faults: Faults) -> list[Argument]:
    """Returns the settings that were typed; what cannot be one is added to the faults."""
    arguments: dict[str, Argument] = {}
    for position, word in enumerate(_with_values(words)):
        try:
            argument = _read(position, word, choices)
        except SettingError as error:
            faults.add(error.faults[0], position)
            continue
        other = arguments.setdefault(argument.key, argument)
        if other.text != argument.text:
            message = f"{other.key} is given twice, as {other.text} and as {argument.text}: leave one out."
            faults.add(Fault(other.key, "conflict", message), position)
    return list(arguments.values())


def _with_values(words: Sequence[str]) -> Iterator[str]:
    """Yields the words, an option of Hydra together with its value."""
    rest = iter(words)
    for word in rest:
        takes_value = word.startswith("-") and "{}" in OF_HYDRA.get(word, "")
        yield f"{word}={next(rest, '')}" if takes_value else word


def _instead(key: str, text: str, choices: Choices) -> str | None:
    """Returns what to type in place of what only Hydra's own command line has, or None where it has no such thing."""
    bare = key.lstrip("+~")
    if key in OF_HYDRA:
        return f"type {OF_HYDRA[key].format(text or 'NAME')}"
    if key.startswith(("hydra.", "hydra/")):
        return "leave it out: Hydra composes the settings, and does nothing else"
    if key.startswith("+"):
        return f"type {bare}={text or 'VALUE'}"
    if key.startswith("~") and bare in choices.groups():
        names = choices.names(bare)
        return f"type {bare}=none" if "none" in names else f"type {bare}=NAME, one of {', '.join(names)}"
    return f"type {bare}=null" if key.startswith("~") else None


def _read(position: int, word: str, choices: Choices) -> Argument:
    key, equals, text = word.partition("=")
    legal = [*choices.groups(), *TOP, *COMMAND_KEYS]
    if instead := _instead(key, text, choices):
        raise SettingError(Fault(key.lstrip("-+~"), "unknown", f"{word} is not supported: {instead}."))
    if (bare := key.lstrip("-")) != key:
        options = [option for option in OPTIONS if option != word]  # which only some commands have
        close = suggestion(bare, legal) or suggestion(f"--{bare}", options)
        message = (
            f"{word} is not an option: the options are {', '.join(options)}, and settings are written key=value.{close}"
        )
        raise SettingError(Fault(bare, "unknown", message))
    if not equals:
        named = {name: f"{group}={name}" for group in reversed(choices.groups()) for name in choices.names(group)}
        near = closest(word, [*legal, *named])
        close = f" Did you mean {named.get(near, f'{near}=VALUE')}?" if near else ""
        raise SettingError(Fault(word, "missing", f"{word} has no value: settings are written key=value.{close}"))
    if key in RAW and key not in COLUMNS and (fault := reference_fault(key, text)):
        raise SettingError(fault)
    if key in RAW or not text:
        return Argument(position, key, text, text)
    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException as error:
        quoted = shlex.quote(f'{key}="{text}"')
        message = f"{word} cannot be read: {error}. A text with such signs is written {quoted}."
        raise SettingError(Fault(key, "unreadable", message)) from error
    if override.is_sweep_override() or override.package is not None or "${" in text:
        message = (
            f"{word}: {key} takes one plain value; a list is written [a,b], references belong in YAML files, "
            "and `python -m sentattn.train -m` trains several values."
        )
        raise SettingError(Fault(key, "type", message))
    return Argument(position, key, text, override.value())


def closest(word: str, legal: Sequence[str], *, cutoff: float = 0.6) -> str:
    """Returns the legal word closest to a word, the word itself where it is legal, or an empty string."""
    return next(iter(difflib.get_close_matches(word, legal, n=1, cutoff=cutoff)), "")
