"""SIGINT (Ctrl-C) and SIGTERM (as a scheduler sends it): at once, or in training when the step is done."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

from sentattn.errors import Interruption

CAUGHT = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """While it is entered, a signal raises `Interruption`; while `deferred`, the first one is only noted.

    Attributes:
        deferred: Whether the work at hand looks at `received` itself.
        received: The signal that came first, or None.
    """

    def __init__(self) -> None:
        self.deferred = False
        self.received: int | None = None
        self._owner = os.getpid()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
            self._before = {number: signal.getsignal(number) for number in CAUGHT}
            self.take_over()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def take_over(self) -> None:
        """Takes the signals back from a library that handles them in its own way."""
        if self._before:
            for number in CAUGHT:
                signal.signal(number, self._receive)

    def raise_received(self) -> None:
        """Raises what was noted.

        Raises:
            Interruption: If a signal came.
        """
        if self.received is not None:
            raise Interruption(self.received)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:
            self._in_a_worker(number)
        elif self.deferred and self.received is None:
            self.received = number
            print("\nending after this step; once more ends at once", file=sys.stderr, flush=True)
        else:
            self.received = number
            raise Interruption(number)

    def _in_a_worker(self, number: int) -> None:
        """A process that makes batches inherits the handler: Ctrl-C is its parent's to answer, a SIGTERM ends it."""
        if number == signal.SIGTERM:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
