"""Errors that a user can correct. Each is a `ValueError`; the command line prints them and exits with code 2."""

from __future__ import annotations

import difflib
import importlib.util
import re
import signal
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace

PASSWORD = re.compile(r"(?<=//)([^\s:/@]*):\S*@|(?<=[?&])(password)=[^&\s]*")
"""The password of a URL, up to the last `@`, or as one of its parameters."""
DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""They change the writing direction of all text that follows, also of the rest of the terminal's line."""
MALFORMED = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a file of JSON or YAML raises where it is missing, damaged or holds something else."""


def visible(text: str) -> str:
    """Returns a text whose control characters, which a terminal or a browser would execute, are visible signs."""

    def sign(character: str) -> str:
        if character in "\n\t" or character.isprintable():
            return character
        if character < " " or character == "\x7f":
            return chr(0x2400 + ord(character)) if character < " " else "\u2421"
        is_unsafe = character in DIRECTIONS or unicodedata.category(character) in ("Cc", "Cs")
        return "\ufffd" if is_unsafe else character

    return text if text.isprintable() else "".join(map(sign, text))


def without_passwords(text: str) -> str:
    """Returns a text in which the passwords of URLs are `***`."""
    return PASSWORD.sub(lambda match: f"{match[1]}:***@" if match[2] is None else f"{match[2]}=***", text)


def require_packages(key: str, needs: str, packages: Iterable[str], install: str) -> None:
    """Refuses a setting whose packages are not installed.

    Args:
        key: The setting.
        needs: What needs them, such as `to=wandb`.
        packages: Names by which they are imported.
        install: What pip installs for them.

    Raises:
        SettingError: With the packages that are missing.
    """
    if missing := [name for name in packages if importlib.util.find_spec(name) is None]:
        message = f'{needs} needs {", ".join(missing)}: type pip install "{install}".'
        raise SettingError(Fault(key, "package", message))


def first_line(error: Exception) -> str:
    """Returns the first line of a message without a full stop, or the type of an error without a message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


@dataclass(frozen=True)
class Fault:
    """One thing that the user can correct.

    Code and tests look at `key` and `kind`; `message` is for people only.

    Attributes:
        key: The setting, argument or file; may be empty.
        kind: What is wrong, as one word of `docs/decisions.md`, such as `unknown`, `type`, `missing` or `conflict`.
        message: What came in, what is legal, what to type.
    """

    key: str
    kind: str
    message: str

    def __str__(self) -> str:
        return visible(self.message)


class UserError(ValueError):
    """One or more faults, reported together, without the passwords of URLs."""

    def __init__(self, *faults: Fault) -> None:
        assert faults, "a UserError names at least one fault"
        self.faults = tuple(replace(fault, message=without_passwords(fault.message)) for fault in faults)
        super().__init__("\n".join(self.messages))

    def __reduce__(self) -> tuple[type[UserError], tuple[Fault, ...]]:
        """Pickles the faults, not the message alone."""
        return type(self), self.faults

    @property
    def messages(self) -> tuple[str, ...]:
        """The message of each fault."""
        return tuple(fault.message for fault in self.faults)


class SettingError(UserError):
    """A key, a value or a combination of settings that cannot be."""


class DataError(UserError):
    """Data that is missing, damaged or unusable."""


class RunError(UserError):
    """A run directory that is missing, incomplete or cannot be written."""


class TrainingError(UserError):
    """Training that cannot continue, such as a loss that became NaN."""


class Pruned(Exception):  # noqa: N818 - it is no error
    """A trial that is ended early because others do better."""


class Interruption(BaseException):
    """A signal that ends the work; no `Exception`, as `KeyboardInterrupt`, so that no handler of errors catches it.

    Args:
        number: The signal's number.
        advice: What is kept, and what to type to continue.
    """

    def __init__(self, number: int, advice: str = "") -> None:
        name = {signal.SIGINT: "interrupted", signal.SIGTERM: "ended by SIGTERM"}[signal.Signals(number)]
        super().__init__(f"{name}; {advice}" if advice else name)
        self.number = number
        self.exit_code = 128 + number


def closest(word: str, legal: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Returns the legal word closest to a word, the word itself where it is legal, or an empty string."""
    return next(iter(difflib.get_close_matches(word, list(legal), n=1, cutoff=cutoff)), "")


def suggestion(word: str, legal: Iterable[str]) -> str:
    """Returns ` Did you mean 'x'?` for the closest legal word, or an empty string."""
    return f" Did you mean {near!r}?" if (near := closest(word, legal)) else ""
