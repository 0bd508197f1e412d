"""Arguments of a training: settings `key=value` in Hydra's grammar; texts and paths are taken as typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from sentattn.config.command_line import CONFIG_DIR, reference_fault
from sentattn.config.groups import Choices
from sentattn.config.schema import COMMAND_KEYS, LIST_KEYS, RAW, TOP
from sentattn.config.types import as_typed, is_several, parse, parse_names, unquoted
from sentattn.errors import Fault, SettingError, closest

OPTIONS = f"--help, --cfg job, {CONFIG_DIR} FOLDER, -m and --multirun"


@dataclass(frozen=True)
class Argument:
    """A typed setting: its key, and its value as text and as it is read."""

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


def read(words: Sequence[str], choices: Choices) -> tuple[list[Argument], list[Fault]]:
    """Returns the settings that were typed, and the faults of words that are none."""
    arguments: dict[str, Argument] = {}
    faults: list[Fault] = []
    for position, word in enumerate(words):
        if position and words[position - 1].startswith("-") and "=" not in word and not word.startswith("-"):
            continue  # the value of an option that is refused
        try:
            argument = _read(word, choices)
        except SettingError as error:
            faults += error.faults
            continue
        other = arguments.setdefault(argument.key, argument)
        if other.text != argument.text:
            message = f"{other.key} is given twice, as {other.text} and as {argument.text}: leave one out."
            faults.append(Fault(other.key, "conflict", message))
    return list(arguments.values()), faults


def _read(word: str, choices: Choices) -> Argument:
    key, equals, text = word.partition("=")
    legal = [*choices.groups(), *TOP, *COMMAND_KEYS]
    bare = key.partition("@")[0].lstrip("+~-")
    if bare != key or key.replace("/", ".").partition(".")[0] == "hydra":
        rule = f"a setting is written key=value with no sign before it, and the options are {OPTIONS}"
        near = closest(bare, legal, cutoff=0.75)  # an option of Hydra's, such as --info, is near to no setting
        close = f" Did you mean {near!r}?" if near else ""
        raise SettingError(Fault(bare, "unknown", f"{word} is not supported: {rule}.{close}"))
    if not equals:
        named = {name: f"{group}={name}" for group in reversed(choices.groups()) for name in choices.names(group)}
        near = closest(word, [*legal, *named])
        close = f" Did you mean {named.get(near, f'{near}=VALUE')}?" if near else ""
        close = f" A table is data=table data.train={word}." if PurePath(word).suffix else close
        raise SettingError(Fault(word, "missing", f"{word} has no value: settings are written key=value.{close}"))
    if fault := reference_fault(key, text):
        raise SettingError(fault)
    if key in RAW or not text:
        return Argument(key, text, parse_names(text) if key in LIST_KEYS else unquoted(text))
    if is_several(text):
        message = (
            f"{word}: {key} takes one plain value; a list is written [a,b], a text in quotes, and "
            "`python -m sentattn.train -m`, in Python sentattn.fit_grid, trains several values."
        )
        raise SettingError(Fault(key, "type", message))
    return Argument(key, text, parse(text))
