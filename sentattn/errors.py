"""Faults that a user can mend. Each is a `ValueError`; the command line prints them and exits with code 2."""

from __future__ import annotations

import difflib
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


def suggestion(word: str, legal: Iterable[str]) -> str:
    """Returns ` Did you mean 'x'?` for the closest legal word, or an empty string."""
    close = difflib.get_close_matches(word, list(legal), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""
