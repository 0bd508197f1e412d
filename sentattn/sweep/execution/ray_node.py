"""What `engine=ray` runs on the nodes of the cluster: trials, and the checks of each node before the first trial.

It is imported by Ray's workers, so that it imports neither torch nor, at its top, Ray.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.metadata
import os
import platform
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentattn
from sentattn.errors import Interruption, UserError
from sentattn.sweep.execution.interfaces import LOG, Message, Report, TrialConnection, TrialOutcome, TrialTask
from sentattn.sweep.execution.local import redirect_output


class Mailbox:
    """An actor on the scheduler's node, through which trials and the scheduler send messages to each other."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[tuple[int, Message | None]] = asyncio.Queue()
        self._replies: dict[int, asyncio.Future[bool]] = {}

    async def send(self, trial: int, message: Message | None) -> bool:
        """Takes a message of a trial, None once it begins; a report waits for its reply, whether to prune."""
        reply = None
        if isinstance(message, Report):
            reply = self._replies[trial] = asyncio.get_running_loop().create_future()
        self._messages.put_nowait((trial, message))
        return reply is not None and await reply

    async def receive(self) -> list[tuple[int, Message | None]]:
        """Waits for messages, and returns all in the order of their arrival."""
        first = await self._messages.get()
        return [first, *(self._messages.get_nowait() for _ in range(self._messages.qsize()))]

    async def reply(self, trial: int, prune: bool) -> None:
        """Answers a report, unless the trial has died meanwhile."""
        if not (waiting := self._replies.pop(trial)).done():
            waiting.set_result(prune)


class RayConnection(TrialConnection):
    """A connection through the mailbox; it keeps the outcome, which the task returns.

    Args:
        mailbox: The actor.
        trial: The number by which the scheduler knows the task.
    """

    def __init__(self, mailbox: Any, trial: int) -> None:
        self._mailbox = mailbox
        self._trial = trial
        self.outcome: TrialOutcome | None = None

    def send(self, message: Message | None) -> bool:
        """Sends a message, None once the trial has left Ray's queue; see `TrialConnection.send`."""
        import ray

        if isinstance(message, TrialOutcome):
            self.outcome = message
            return False
        try:
            return bool(ray.get(self._mailbox.send.remote(self._trial, message)))
        except ray.exceptions.RayError as error:
            raise Interruption(signal.SIGTERM, "the scheduler of the study has ended") from error


@dataclass(frozen=True)
class WorkerContext:
    """What the processes on all nodes share.

    Attributes:
        module: The module that trials run, as in `LocalEngine`.
        directory: The scheduler's working directory; nodes that have it work there.
        environment: Variables of the scheduler that are set on the nodes too.
    """

    module: str
    directory: str
    environment: Mapping[str, str]

    def enter(self, **variables: str) -> Any:
        """Sets up this process; returns the module."""
        if os.path.isdir(self.directory):
            os.chdir(self.directory)
        os.environ.update({**self.environment, **variables})
        return importlib.import_module(self.module)


def run_trial(
    context: WorkerContext, task: TrialTask, variables: Mapping[str, str], mailbox: Any, trial: int
) -> tuple[int, TrialOutcome | None]:
    """Runs a trial in this process, which ends after it.

    Returns:
        The exit code that its process would have, and its outcome if it has sent one.
    """
    connection, code = RayConnection(mailbox, trial), 0
    connection.send(None)
    redirect_output(str(task.folder / LOG))
    try:
        context.enter(**variables).run(task, connection)
    except SystemExit as end:  # which would end the worker before it has returned anything
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        traceback.print_exc()
        code = error.exit_code if isinstance(error, Interruption) else 1
    sys.stdout.flush()
    return code, connection.outcome


def versions() -> dict[str, str]:
    """Returns the versions that must be the same on all nodes; of sentattn also a checksum of its code."""
    package = Path(sentattn.__file__).parent
    code = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(package.rglob("*.py"))))
    return {
        "Python": platform.python_version(),
        **{name: importlib.metadata.version(name.lower()) for name in ("Ray", "torch")},
        "sentattn": f"{sentattn.__version__} (code {code.hexdigest()[:8]})",
    }


def check_node(file: str) -> tuple[dict[str, str], str]:
    """Returns the versions on this node, and why the file that shows which folder it sees could not be written."""
    import ray

    try:
        Path(f"{file}-{ray.get_runtime_context().get_node_id()}").touch()
    except OSError as error:
        return versions(), str(error.strerror)
    return versions(), "what it writes there does not arrive here"


def prepare_node(context: WorkerContext, studies: Sequence[Sequence[str]], log: str) -> UserError | str:
    """Prepares the data on this node; returns the error, or an empty string."""
    redirect_output(log)
    try:
        context.enter().preload(studies)
    except UserError as error:
        return error
    except BaseException as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    return ""
