"""The warm server: it has imported all that a trial needs, and forks a process for each one.

usage, by the owner of a study: python -m sentattn.sweep.server MODULE

MODULE has `warm(arguments)`, called once, and `run(task)`, which is a trial. Requests come in on standard input and
events go out on standard output, a JSON object a line:

  {"warm": [...]}                       {"ready": threads} or {"refused": [sentences]}
  {"start": key, "task": {...},
   "log": file, "environment": {...}}   {"started": key, "pid": pid}, and {"ended": key, "code": exit code or -signal}
  {"kill": key}

When standard input ends, so do all trials, and then the server; when the server dies, so do they.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import selectors
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from sentattn.errors import UserError
from sentattn.sweep.child import become

CHUNK = 1 << 16
REQUESTS = 0


class Server:
    """Forks trials and tells of their ends. One thread does it all, as a process that forks should have.

    Args:
        run: What a trial is.
        events: File descriptor to which events are written.
    """

    def __init__(self, run: Callable[[Mapping[str, Any]], None], events: int) -> None:
        self._run = run
        self._events = events
        self._pids: dict[str, int] = {}
        self._unread = b""
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(REQUESTS, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def serve(self) -> None:
        """Answers requests until they end."""
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        while True:
            ready = {key.fd for key, _ in self._selector.select()}
            if self._woken in ready:
                os.read(self._woken, CHUNK)
            self._reap()
            if REQUESTS in ready and not self._read():
                break
        for key in [*self._pids]:
            self._kill(key)

    def _read(self) -> bool:
        """Does what is asked for; returns whether anyone is left who asks."""
        chunk = os.read(REQUESTS, CHUNK)
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if "kill" in request:
                self._kill(request["kill"])
            else:
                self._start(request)
        return bool(chunk)

    def _start(self, request: Mapping[str, Any]) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:  # too many processes, or too little memory
            self.tell(ended=request["start"], code=1, reason=f"no process could be started: {error.strerror}")
            return
        if pid == 0:
            self._become(request, parent)
        self._pids[request["start"]] = pid
        self.tell(started=request["start"], pid=pid)

    def _become(self, request: Mapping[str, Any], parent: int) -> NoReturn:
        """Lets go, in the forked process, of all that is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for own in (self._woken, self._wake, self._events):
            os.close(own)
        become(self._run, request, parent)

    def _kill(self, key: str) -> None:
        """Kills a trial with all processes that it has started."""
        if (pid := self._pids.get(key)) is not None:
            kill_with_all(pid)

    def _reap(self) -> None:
        """Tells of the trials that have ended."""
        for key, pid in [*self._pids.items()]:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                kill_with_all(pid)  # what a trial has started does not outlive it; nobody has its number yet
                _, status = os.waitpid(pid, 0)
                del self._pids[key]
                self.tell(ended=key, code=os.waitstatus_to_exitcode(status))

    def tell(self, **event: Any) -> None:
        """Writes an event."""
        try:
            os.write(self._events, json.dumps(event).encode() + b"\n")
        except BrokenPipeError:  # the owner has gone, and its requests end next
            return


def kill_with_all(pid: int) -> None:
    """Kills a process and the group that it leads, as far as they are there."""
    for kill in (os.kill, os.killpg):  # by itself too: it may not lead its group yet
        try:
            kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def main() -> int:
    """Serves until there are no more requests; returns the exit code."""
    events = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no event
    module = importlib.import_module(sys.argv[1])
    server = Server(module.run, events)
    request = sys.stdin.buffer.raw.readline()  # type: ignore[union-attr]  # byte by byte: nothing is taken too much
    if not request:
        return 0
    try:
        module.warm(json.loads(request)["warm"])
    except UserError as error:
        server.tell(refused=error.messages)
        return 2
    gc.collect()
    gc.freeze()  # pages shared with trials stay shared: no collection writes to them
    server.tell(ready=_threads())
    server.serve()
    return 0


def _threads() -> int:
    """How many threads this process has: forking with more than one is forking with their locks held."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:  # another system than Linux
        return 1


if __name__ == "__main__":
    sys.exit(main())
