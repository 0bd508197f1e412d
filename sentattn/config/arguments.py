"""The words of a command line: settings `key=value` in Hydra's grammar, texts and paths as they were typed."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from sentattn.config.groups import Choices
from sentattn.config.schema import RAW, TOP
from sentattn.errors import SettingError, suggestion

CONFIG_DIR = "--config-dir"
OPTIONS = "--help, --cfg job and --config-dir FOLDER"
KEY = re.compile(r"[A-Za-z_][\w]*(?:[./][A-Za-z_]\w*)*")
LAST = 1 << 30


@dataclass(frozen=True)
class Typed:
    """One setting as it was typed.

    Attributes:
        position: Which argument it was.
        key: Its key: dotted, or with slashes for a group inside a group.
        text: Its value's text.
        value: Its value as Hydra's grammar reads it, or the text itself for a raw key.
    """

    position: int
    key: str
    text: str
    value: Any

    def __str__(self) -> str:
        return f"{self.key}={self.text}"


class Faults:
    """Collects faults, to tell them all at once in the order in which they were typed."""

    def __init__(self) -> None:
        self._found: list[tuple[int, str]] = []

    def add(self, sentence: str, position: int = LAST) -> None:
        """Takes in a fault; without a position it belongs to no argument and is told last."""
        self._found.append((position, sentence))

    def tell(self) -> None:
        """Raises what was found.

        Raises:
            SettingError: If there was any fault.
        """
        if self._found:
            ordered = sorted(self._found, key=lambda fault: fault[0])
            raise SettingError(*dict.fromkeys(sentence for _, sentence in ordered))


def split_folders(arguments: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Takes `--config-dir FOLDER` out of the arguments: the rest, and the folders.

    Raises:
        SettingError: If the last one names no folder.
    """
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
            raise SettingError(f"{CONFIG_DIR} needs a folder: {CONFIG_DIR} FOLDER.")
    return rest, folders


def read(arguments: Sequence[str], choices: Choices, faults: Faults) -> list[Typed]:
    """Returns the settings that were typed; what cannot be one goes to the faults."""
    typed: dict[str, Typed] = {}
    for position, word in enumerate(arguments):
        try:
            one = _read(position, word, choices)
            other = typed.setdefault(one.key, one)
            if other.text != one.text:
                raise SettingError(f"{one.key} is given twice, as {other.text} and as {one.text}: leave one out.")
        except SettingError as error:
            faults.add(str(error), position)
    return list(typed.values())


def _read(position: int, word: str, choices: Choices) -> Typed:
    if word.startswith("-"):
        raise SettingError(_option(word, choices))
    if word.startswith("~"):
        group = word[1:].partition("=")[0]
        how = f"choose another with {group}=NAME" if group in choices.groups() else "give it another value"
        raise SettingError(f"{word}: no setting can be taken away; {how}.")
    key, equals, text = word.partition("=")
    if word.startswith("+"):
        bare = key.lstrip("+")
        how = f"type {word.lstrip('+')}" if _known(bare, choices) else f"there is no setting {bare!r}"
        raise SettingError(f"{word}: settings are never added with a plus; {how}.")
    if not equals:
        raise SettingError(_bare(word, choices))
    if not key:
        raise SettingError(f"{word}: there is no name before the =; settings are written key=value.")
    if key in RAW or not text:
        return Typed(position, key, text, text)
    return Typed(position, key, text, _value(word, key, text))


def _value(word: str, key: str, text: str) -> Any:
    if "${" in text:
        raise SettingError(f"{word}: give {key} its value itself; references (${{...}}) belong into YAML files.")
    try:
        override: Override = OverridesParser.create().parse_override(word)
    except HydraException as error:
        raise SettingError(_unreadable(word, key, text)) from error
    if override.package is not None:
        raise SettingError(f"{word}: a choice stands in its own place; leave out @{override.package}.")
    if override.is_sweep_override():
        hint = f" (a list is written {key}=[{text}])" if TOP.get(key, "").startswith("list") else ""
        raise SettingError(f"{word}: one value is needed here{hint}; several values are several trainings.")
    return override.value()


def _unreadable(word: str, key: str, text: str) -> str:
    if not KEY.fullmatch(key):
        return f"{word}: {key!r} cannot be the name of a setting; settings are written key=value."
    if "/" in key and "." in key:
        return f"{word}: a key has dots or slashes, not both; type {key.replace('/', '.')}={text}."
    if open_sign := _unbalanced(text):
        return f"{word}: the value of {key} cannot be read, since the {open_sign} in it has no partner."
    quoted = shlex.quote(f'{key}="{text}"')
    return f"{word}: the value of {key} cannot be read; put it in quotes inside quotes: {quoted}."


def _unbalanced(text: str) -> str:
    """Returns the first quote or bracket without a partner, or an empty string."""
    closing = {")": "(", "]": "[", "}": "{"}
    quote, expected = "", []
    for sign in text.replace("\\\\", "").replace("\\'", "").replace('\\"', ""):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in closing.values():
            expected.append(sign)
        elif sign in closing and (not expected or expected.pop() != closing[sign]):
            return sign
    return quote or "".join(expected[-1:])


def _option(word: str, choices: Choices) -> str:
    bare = word.lstrip("-")
    if "=" in bare and _known(bare.partition("=")[0], choices):
        return f"{word}: settings are written without dashes; type {bare}."
    close = suggestion(f"--{bare}", ["--help", "--cfg", CONFIG_DIR]) or suggestion(bare, _top(choices))
    return f"{word} is no option; there are {OPTIONS}, and settings are written key=value.{close}"


def _bare(word: str, choices: Choices) -> str:
    if word in choices.groups():
        return f"{word} has no value: type {word}=NAME, with NAME one of {', '.join(choices.names(word))}."
    if _known(word, choices):
        return f"{word} has no value: type {word}=VALUE."
    named = {name: f"{group}={name}" for group in reversed(choices.groups()) for name in choices.names(group)}
    name = closest(word, list(named))
    close = f" Did you mean {named[name]}?" if name else suggestion(word, _top(choices))
    return f"{word!r} is no setting: settings are written key=value.{close}"


def closest(word: str, legal: Sequence[str], *, cutoff: float = 0.6) -> str:
    """Returns the legal word closest to a word, the word itself where it is legal, or an empty string."""
    return next(iter(difflib.get_close_matches(word, legal, n=1, cutoff=cutoff)), "")


def _known(key: str, choices: Choices) -> bool:
    return key in choices.groups() or key in TOP or ("." in key and key.partition(".")[0] in choices.groups())


def _top(choices: Choices) -> Iterable[str]:
    return [*choices.groups(), *TOP]
