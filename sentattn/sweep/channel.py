"""What a trial tells the owner of its study, and the answer: lines of JSON over a Unix socket."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from sentattn.errors import Interruption

ADDRESS = "SENTATTN_OWNER"
"""Names the variable with the path of the owner's socket."""


class Channel:
    """A trial's end.

    Args:
        key: The trial's own, which says to the owner who speaks.

    Raises:
        Interruption: From every method, if the owner has gone: what it does not hear of was in vain.
    """

    def __init__(self, key: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(os.environ[ADDRESS])
        except OSError as error:
            raise _gone() from error
        self._answers = self._socket.makefile("rb")
        self._tell(trial=key)

    def __enter__(self) -> Channel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._answers.close()
        self._socket.close()

    def begin(self, epochs: int | None, moment: float) -> None:
        """Tells that the first batch is being trained.

        Args:
            epochs: How many there will be at most.
            moment: When, by the clock that all processes of this machine share.
        """
        self._tell(began=moment, epochs=epochs)

    def report(self, step: int, value: float | None, figures: Mapping[str, float]) -> bool:
        """Tells what a step has come to, and waits for whether to go on.

        Args:
            step: The epoch, or the repeat, from 1.
            value: What the trial would be worth if it ended now; None where trials are not compared before their end.
            figures: All that was measured.

        Returns:
            Whether the trial is to end here.
        """
        self._tell(step=step, value=value, figures=dict(figures))
        try:
            answer = self._answers.readline()
        except OSError as error:
            raise _gone() from error
        if not answer.endswith(b"\n"):
            raise _gone()
        return bool(json.loads(answer)["prune"])

    def complete(self, values: Sequence[float]) -> None:
        """Tells the values of the objectives, the last word of a trial that came to its end."""
        self._tell(end="complete", values=list(values))

    def pruned(self) -> None:
        """Tells that the trial has ended as it was told to."""
        self._tell(end="pruned")

    def fail(self, sentences: Sequence[str], *, again: bool) -> None:
        """Tells why the trial cannot go on.

        Args:
            sentences: The faults.
            again: Whether another try may end better.
        """
        self._tell(end="failed", sentences=list(sentences), again=again)

    def _tell(self, **what: Any) -> None:
        try:
            self._socket.sendall(json.dumps(what).encode() + b"\n")
        except OSError as error:
            raise _gone() from error


def _gone() -> Interruption:
    return Interruption(signal.SIGTERM, "the process that owns the study has gone")
