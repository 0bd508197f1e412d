"""Which process of this machine works on a study."""

from __future__ import annotations

import json
import os
import shlex
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sentattn.errors import Fault, RunError
from sentattn.run import write_atomically

LOCK, OWNER = ".owner.lock", "owner.json"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds a study's folder for this process; the system releases it when the process dies.

    Raises:
        RunError: If another process holds it, with its ID.
    """
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        stop = f"`python -m sentattn.sweep stop {shlex.quote(folder.name)}` stops it"
        message = f"{folder} is in use by process {owner(folder) or 'unknown'}; {stop}."
        raise RunError(Fault("study", "busy", message)) from error
    try:
        write_atomically(folder / OWNER, json.dumps(identity(os.getpid())) + "\n")
        yield
    finally:
        (folder / OWNER).unlink(missing_ok=True)
        lock.release()


def owner(folder: Path) -> int | None:
    """Returns the ID of the process of this machine that works on a study, or None, without taking its lock."""
    try:
        content = json.loads((folder / OWNER).read_text(encoding="utf-8"))
        pid: int = content["pid"]
        os.kill(pid, 0)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if content == identity(pid) else None


def identity(pid: int) -> dict[str, Any]:
    """Returns what tells a process from all others: on Linux also when it started, since numbers are used again."""
    started = machine = None
    with suppress(OSError):
        # Containers with one host name differ in their namespaces of processes, or run on different kernels.
        machine = f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return {"pid": pid, "host": socket.gethostname(), "machine": machine, "started": started}


def has_ended(process: Mapping[str, Any]) -> bool:
    """Whether a process, by what `identity` returned of it, is one of this machine and runs no more."""
    now = identity(process["pid"])
    return now["machine"] is not None and process["machine"] == now["machine"] and process["started"] != now["started"]
