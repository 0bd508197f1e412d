"""Faults that a user can mend. Each is a `ValueError`; the command line prints them and exits with code 2."""

from __future__ import annotations

import difflib
import signal
from collections.abc import Iterable


class UserError(ValueError):
    """One or more faults of the user's, told together.

    Args:
        faults: One clear sentence each: what came in, what is legal, what to type.
    """

    def __init__(self, *faults: str) -> None:
        assert faults, "a UserError names at least one fault"
        super().__init__("\n".join(faults))
        self.faults = faults


class SettingError(UserError):
    """A key, a value or a combination of settings that cannot be."""


class DataError(UserError):
    """Data that is missing, damaged or unusable."""


class RunError(UserError):
    """A run directory that is missing, incomplete or cannot be written."""


class TrainingError(UserError):
    """Training that cannot go on, such as a loss that became NaN."""


class Pruned(Exception):  # noqa: N818 - it is no error
    """A trial that is ended early because others do better."""


class Interruption(BaseException):
    """A signal that ends the work.

    Like `KeyboardInterrupt` it is no `Exception`, so that nothing takes it for a fault and goes on.

    Args:
        number: The signal's number.
        advice: What is kept, and what to type to go on.

    Attributes:
        exit_code: What a shell expects of a process that a signal has ended.
    """

    def __init__(self, number: int, advice: str = "") -> None:
        name = {signal.SIGINT: "interrupted", signal.SIGTERM: "ended by SIGTERM"}[signal.Signals(number)]
        super().__init__(f"{name}; {advice}" if advice else name)
        self.number = number
        self.exit_code = 128 + number


def suggestion(word: str, legal: Iterable[str]) -> str:
    """Returns ` Did you mean 'x'?` for the closest legal word, or an empty string."""
    close = difflib.get_close_matches(word, list(legal), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""
