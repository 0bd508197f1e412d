"""SIGINT (Ctrl-C) and SIGTERM (as a cluster's scheduler sends it): raised at once, or deferred to the end of a step."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

from sentattn.distributed import ranks
from sentattn.errors import Interruption

HANDLED = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Context in which a signal raises `Interruption`; while `deferred`, the first one is only stored.

    Attributes:
        deferred: Whether the running code checks `received` itself.
        received: The signal that came first, or None.
    """

    def __init__(self) -> None:
        self.deferred = False
        self.received: int | None = None
        self._owner = os.getpid()
        self._previous: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():  # Python allows handlers in no other thread
            self._previous = {number: signal.getsignal(number) for number in HANDLED}
            self.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def install(self) -> None:
        """Installs the handlers, also over those that a library has installed in between."""
        if self._previous:
            for number in HANDLED:
                signal.signal(number, self._receive)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:  # a data loader's worker inherits the handler: only SIGTERM ends it
            if number == signal.SIGTERM:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
        elif self.deferred and ranks.several():  # what has started the ranks also ends them at a second signal
            self.received = number
        elif self.deferred and self.received is None:
            self.received = number
            print("\nstopping after this step; a second signal stops at once", file=sys.stderr, flush=True)
        else:
            self.received = number
            raise Interruption(number)
