"""SIGINT (Ctrl-C) and SIGTERM (as a cluster's scheduler sends it): raised at once, or deferred to the end of a step."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType, TracebackType

from sentattn.distributed import ranks
from sentattn.errors import Interruption, RunError
from sentattn.run import CONFIG_FILE, Run
from sentattn.training.resume import advice

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


@contextmanager
def explained_end(run: Run, signals: Signals) -> Iterator[None]:
    """Adds what to type to continue after an interruption, or where files cannot be written.

    Raises:
        Interruption: If a signal has ended this rank, or all.
        RunError: If the run cannot be written.
    """
    try:
        yield
    except Interruption as interruption:
        if (run.path / CONFIG_FILE).is_file() and not run.last_checkpoint.is_file() and ranks.is_rank_zero():
            shutil.rmtree(run.path, ignore_errors=True)  # nothing was trained yet
        raise Interruption(interruption.number, advice(run)) from None
    except RunError as error:
        if error.faults[0].kind != "unwritable" or not run.last_checkpoint.is_file():
            raise
        raise RunError(*(replace(fault, message=f"{fault} {advice(run)}") for fault in error.faults)) from error
    except RuntimeError as error:
        if ranks.several() and signals.received:  # another rank has ended first
            raise Interruption(signals.received, advice(run)) from None
        error.add_note(advice(run))
        raise
