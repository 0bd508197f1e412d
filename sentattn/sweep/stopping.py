"""Ctrl-C once: no new trials. Twice, or SIGTERM: the end."""

from __future__ import annotations

import os
import selectors
import signal
from types import FrameType, TracebackType
from typing import Any

from sentattn.errors import Interruption

CAUGHT = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Notes signals while it is entered, and wakes up whoever waits on a selector.

    Attributes:
        received: The signal that came last, or None.
        at_once: Whether running trials are to be ended too.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.received: int | None = None
        self.at_once = False
        self._selector = selector
        self._woken, self._wake = os.pipe()
        self._before: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return self.received is not None

    def __enter__(self) -> Stop:
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._before = {number: signal.signal(number, self._receive) for number in CAUGHT}
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._selector.unregister(self._woken)
        os.close(self._woken)
        os.close(self._wake)

    def look(self) -> bool:
        """Returns whether a signal has come since the last look."""
        try:
            return bool(os.read(self._woken, 1 << 10))
        except BlockingIOError:
            return False

    def interruption(self, advice: str) -> Interruption:
        """Returns what a command raises that was ended so."""
        assert self.received is not None
        return Interruption(self.received, advice)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.at_once = number == signal.SIGTERM or self.received is not None
        self.received = number
