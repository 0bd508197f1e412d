"""Arguments of a training: settings `key=value` in Hydra's grammar; texts and paths are taken as typed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from sentattn.config.command_line import CONFIG_DIR, reference_fault
from sentattn.config.groups import Choices
from sentattn.config.schema import COLUMNS, COMMAND_KEYS, LISTS, RAW, TOP
from sentattn.config.types import as_typed, parse_names
from sentattn.errors import Fault, SettingError, closest, suggestion

OPTIONS = ("--help", "--cfg job", CONFIG_DIR, "--multirun")
HYDRA = {
    **dict.fromkeys(("-cn", "--config-name"), "from=FILE, or experiment=NAME"),
    **dict.fromkeys(("-cd", "-cp", "--config-path"), f"{CONFIG_DIR} FOLDER"),
    **dict.fromkeys(("-c", "--cfg", "-i", "--info"), "--cfg job, or `python -m sentattn.list` for all choices"),
    "hydra": "output_dir=FOLDER for its folders, `train -m` with slots=N for its launchers, `python -m sentattn.sweep` "
    "with trials=N for its sweepers; it has no other settings here",
}
"""What to type in place of options of Hydra, and of its settings."""
LAST = 1 << 30
"""The position of a fault that belongs to no argument."""
Placed: TypeAlias = tuple[int, Fault]
"""A fault with the position of the argument that it belongs to."""


@dataclass(frozen=True)
class Argument:
    """A typed setting: its place among the arguments, its key, and its value as text and as Hydra reads it."""

    position: int
    key: str
    text: str
    value: object

    def __str__(self) -> str:
        return f"{self.key}={self.text}"


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


def as_arguments(overrides: str | Sequence[str], **options: object) -> list[str]:
    """Returns what is passed in Python as it is typed: overrides, and options other than None; commas join a list."""
    words = [overrides] if isinstance(overrides, str) else list(overrides)
    for key, value in options.items():
        values = value if isinstance(value, list | tuple) else [value]
        words += [] if value is None else [f"{key}={','.join(map(as_typed, values))}"]
    return words


def read(words: Sequence[str], choices: Choices) -> tuple[list[Argument], list[Placed]]:
    """Returns the settings that were typed, and the faults of words that are none."""
    arguments: dict[str, Argument] = {}
    faults: list[Placed] = []
    for position, word in enumerate(words):
        if position and words[position - 1] in HYDRA and "=" not in word and not word.startswith("-"):
            continue  # the value of an option that is refused
        try:
            argument = _read(position, word, choices)
        except SettingError as error:
            faults.append((position, error.faults[0]))
            continue
        other = arguments.setdefault(argument.key, argument)
        if other.text != argument.text:
            message = f"{other.key} is given twice, as {other.text} and as {argument.text}: leave one out."
            faults.append((position, Fault(other.key, "conflict", message)))
    return list(arguments.values()), faults


def _read(position: int, word: str, choices: Choices) -> Argument:
    key, equals, text = word.partition("=")
    legal = [*choices.groups(), *TOP, *COMMAND_KEYS]
    if (bare := key.partition("@")[0].lstrip("+~")) == key:
        advice = HYDRA.get(key.replace("/", ".").partition(".")[0])
    elif key.startswith("~"):
        names = choices.names(bare) if bare in choices.groups() else ["null"]
        advice = f"{bare}={next((name for name in names if name in ('none', 'null')), 'NAME')}"
    else:
        advice = f"{bare}={text or 'VALUE'}"
    if advice:
        message = f"{word.rstrip('=')} is not supported: type {advice}."
        raise SettingError(Fault(bare.lstrip("-"), "unknown", message))
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
    if key not in COLUMNS and (fault := reference_fault(key, text)):
        raise SettingError(fault)
    if key in RAW or not text:
        return Argument(position, key, text, parse_names(text) if key in LISTS else text)
    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException as error:
        quoted = shlex.quote(f'{key}="{text}"')
        message = f"{word} cannot be read: {error}. A text with such signs is written {quoted}."
        raise SettingError(Fault(key, "unreadable", message)) from error
    if override.is_sweep_override() or "${" in text:
        message = (
            f"{word}: {key} takes one plain value; a list is written [a,b], "
            "and `python -m sentattn.train -m`, in Python sentattn.fit_grid, trains several values."
        )
        raise SettingError(Fault(key, "type", message))
    return Argument(position, key, text, override.value())
