"""How long a study has been worked on, over all starts."""

from __future__ import annotations

import time

from sentattn.sweep.opening import SECONDS
from sentattn.sweep.storage import Disk

BETWEEN_WRITES = 5.0
"""Seconds between two notes of the time on disk."""


class Clock:
    """Runs while a study is open, and notes the time on disk.

    Args:
        before: Seconds that earlier starts took.
        disk: Where the time is noted.
    """

    def __init__(self, before: float, disk: Disk) -> None:
        self._before = before
        self._disk = disk
        self._began = self._noted = time.monotonic()

    def seconds(self) -> float:
        """Returns how long the study was worked on, over all starts."""
        return self._before + time.monotonic() - self._began

    def note(self, *, always: bool = False) -> None:
        """Writes the time down, where the last note is old enough."""
        now = time.monotonic()
        if always or now - self._noted >= BETWEEN_WRITES:
            self._noted = now
            self._disk.note(SECONDS, self.seconds())
