"""The owner's end of the warm server: starting it, again if it dies, and what it tells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from sentattn.errors import RunError, SettingError

ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",  # threads that libraries start when they are imported
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # whether there is a GPU can be asked without CUDA, which no fork survives
}
CHUNK = 1 << 16
DEATHS = 3
"""How often in a row the server may die before it has started anything."""
Event = dict[str, Any]


class Warm:
    """A server and its events.

    Args:
        module: What trials run, by its name.
        arguments: What it is warmed with.
        log: File for what the server itself prints.
    """

    def __init__(self, module: str, arguments: Any, log: Path) -> None:
        self._module = module
        self._arguments = arguments
        self._log = log
        self._unread = b""
        self._deaths = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Warm:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Starts a server; it is ready some seconds later, and takes requests at once."""
        searched = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sentattn.sweep.server", self._module],
                env={**os.environ, **ENVIRONMENT, "PYTHONPATH": searched},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is the owner's to answer
            )
        self._unread = b""
        self._ask(warm=self._arguments)

    def fileno(self) -> int:
        """The descriptor on which events arrive, for a selector."""
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def events(self) -> list[Event] | None:
        """Returns what there is to hear, or None if the server has died.

        Raises:
            SettingError: If it refused what it was to be warmed with.
        """
        chunk = os.read(self.fileno(), CHUNK)
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        events: list[Event] = [json.loads(line) for line in lines]
        if refused := [sentence for event in events for sentence in event.get("refused", ())]:
            raise SettingError(*refused)
        if any("started" in event for event in events):
            self._deaths = 0
        return events if chunk or events else None

    def begin(self, key: str, task: Mapping[str, Any], *, log: Path, environment: Mapping[str, str]) -> None:
        """Asks for the start of a trial."""
        self._ask(start=key, task=task, log=str(log), environment=environment)

    def kill(self, key: str) -> None:
        """Asks for the end of a trial."""
        self._ask(kill=key)

    def restart(self) -> None:
        """Starts another server in the place of one that has died.

        Raises:
            RunError: If they die one after another.
        """
        self.close()
        self._deaths += 1
        if self._deaths >= DEATHS:
            said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise RunError(f"No trial can be started, see {self._log}: {' '.join(said) or 'it says nothing'}")
        self.start()

    def close(self) -> None:
        """Ends the server and all its trials."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:  # it imports, and does not listen yet
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process = None

    def _ask(self, **request: Any) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:  # it has died, as its events will tell
            return
