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

from sentattn.config.command_line import CONFIG_DIR
from sentattn.config.groups import Choices
from sentattn.config.schema import RAW, TOP
from sentattn.errors import Fault, SettingError, suggestion

OPTIONS = "--help, --cfg job and --config-dir FOLDER"
KEY = re.compile(r"[A-Za-z_][\w]*(?:[./][A-Za-z_]\w*)*")
LAST = 1 << 30


@dataclass(frozen=True)
class Argument:
    """One setting as it was typed.

    Attributes:
        position: Which word of the command line it was.
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
    """Collects faults, to report them all at once in the order in which they were typed."""

    def __init__(self) -> None:
        self._collected: list[tuple[int, Fault]] = []

    def add(self, fault: Fault | str, position: int = LAST) -> None:
        """Adds a fault; one without a position belongs to no argument and comes last."""
        self._collected.append((position, fault if isinstance(fault, Fault) else Fault("", SettingError.kind, fault)))

    def raise_any(self) -> None:
        """Raises what was collected.

        Raises:
            SettingError: If there is any fault.
        """
        if self._collected:
            by_message: dict[str, Fault] = {}
            for _, fault in sorted(self._collected, key=lambda one: one[0]):
                by_message.setdefault(fault.message, fault)
            raise SettingError(*by_message.values())


def split_folders(arguments: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Splits `--config-dir FOLDER` from the arguments: the rest, and the folders.

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
            raise SettingError(Fault(CONFIG_DIR, "missing", f"{CONFIG_DIR} needs a folder: {CONFIG_DIR} FOLDER."))
    return rest, folders


def read(words: Sequence[str], choices: Choices, faults: Faults) -> list[Argument]:
    """Returns the settings that were typed; what cannot be one is added to the faults."""
    arguments: dict[str, Argument] = {}
    for position, word in enumerate(words):
        try:
            argument = _read(position, word, choices)
            other = arguments.setdefault(argument.key, argument)
            if other.text != argument.text:
                message = f"{other.key} is given twice, as {other.text} and as {argument.text}: leave one out."
                raise SettingError(Fault(other.key, "conflict", message))
        except SettingError as error:
            faults.add(error.faults[0], position)
    return list(arguments.values())


def _read(position: int, word: str, choices: Choices) -> Argument:
    key, equals, text = word.partition("=")
    if word.startswith("-"):
        raise SettingError(_option(word, choices))
    if word.startswith("~"):
        group = key[1:]
        how = f"choose another with {group}=NAME" if group in choices.groups() else "give it another value"
        raise SettingError(Fault(group, "unsupported", f"{word}: no setting can be removed; {how}."))
    if word.startswith("+"):
        bare = key.lstrip("+")
        how = f"type {word.lstrip('+')}" if _known(bare, choices) else f"there is no setting {bare!r}"
        raise SettingError(Fault(bare, "unknown", f"{word}: settings are never added with a plus; {how}."))
    if not equals:
        raise SettingError(_without_value(word, choices))
    if not key:
        message = f"{word}: there is no name before the =; settings are written key=value."
        raise SettingError(Fault("", "unreadable", message))
    if key in RAW or not text:
        return Argument(position, key, text, text)
    return Argument(position, key, text, _value(word, key, text))


def _value(word: str, key: str, text: str) -> Any:
    if "${" in text:
        message = f"{word}: give {key} its value itself; references (${{...}}) belong in YAML files."
        raise SettingError(Fault(key, "unsupported", message))
    try:
        override: Override = OverridesParser.create().parse_override(word)
    except HydraException as error:
        raise SettingError(Fault(key, "unreadable", _unreadable(word, key, text))) from error
    if override.package is not None:
        message = f"{word}: a choice has one place; leave out @{override.package}."
        raise SettingError(Fault(key, "unsupported", message))
    if override.is_sweep_override():
        is_list = getattr(TOP.get(key), "__origin__", None) is list
        hint = f" (a list is written {key}=[{text}])" if is_list else ""
        message = f"{word}: {key} takes one value{hint}; several values are several trainings."
        raise SettingError(Fault(key, "type", message))
    return override.value()


def _unreadable(word: str, key: str, text: str) -> str:
    if not KEY.fullmatch(key):
        return f"{word}: {key!r} cannot be the name of a setting; settings are written key=value."
    if "/" in key and "." in key:
        return f"{word}: a key has dots or slashes, not both; type {key.replace('/', '.')}={text}."
    if sign := _unbalanced(text):
        return f"{word}: the value of {key} cannot be read, since the {sign} in it has no partner."
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


def _option(word: str, choices: Choices) -> Fault:
    bare, equals, _ = word.lstrip("-").partition("=")
    if equals and _known(bare, choices):
        message = f"{word}: settings are written without dashes; type {word.lstrip('-')}."
    else:
        bare = word.lstrip("-")
        close = suggestion(f"--{bare}", ["--help", "--cfg", CONFIG_DIR]) or suggestion(bare, _top(choices))
        message = f"{word} is no option; there are {OPTIONS}, and settings are written key=value.{close}"
    return Fault(bare, "unknown", message)


def _without_value(word: str, choices: Choices) -> Fault:
    if word in choices.groups():
        names = ", ".join(choices.names(word))
        return Fault(word, "missing", f"{word} has no value: type {word}=NAME, with NAME one of {names}.")
    if _known(word, choices):
        return Fault(word, "missing", f"{word} has no value: type {word}=VALUE.")
    named = {name: f"{group}={name}" for group in reversed(choices.groups()) for name in choices.names(group)}
    name = closest(word, list(named))
    close = f" Did you mean {named[name]}?" if name else suggestion(word, _top(choices))
    return Fault(word, "unknown", f"{word!r} is no setting: settings are written key=value.{close}")


def closest(word: str, legal: Sequence[str], *, cutoff: float = 0.6) -> str:
    """Returns the legal word closest to a word, the word itself where it is legal, or an empty string."""
    return next(iter(difflib.get_close_matches(word, legal, n=1, cutoff=cutoff)), "")


def _known(key: str, choices: Choices) -> bool:
    return key in choices.groups() or key in TOP or ("." in key and key.partition(".")[0] in choices.groups())


def _top(choices: Choices) -> Iterable[str]:
    return [*choices.groups(), *TOP]
