"""Trials on a Ray cluster: each is a task in a separate worker process, on any node that has the resources.

Messages go through an actor on the scheduler's node, and the outcome comes back as the result of the task. Ray ends all
of them when the scheduler dies. Workers import this module too, so it imports neither torch nor, at its top, Ray.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.metadata
import logging
import os
import platform
import secrets
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sentattn.console import plural
from sentattn.errors import Fault, Interruption, RunError, SettingError, UserError
from sentattn.sweep.execution.interfaces import (
    LOG,
    Engine,
    Message,
    Report,
    RunningTrial,
    TrialConnection,
    TrialOutcome,
    TrialTask,
)
from sentattn.sweep.execution.local import exited, failed, preload, redirect_output
from sentattn.sweep.execution.resources import Slot, require_gpus, slots_line
from sentattn.sweep.spec.components import AUTO
from sentattn.sweep.spec.plan import Options

T = TypeVar("T")
SENT = ("WANDB_", "MLFLOW_")
"""Beginnings of the variables that trials get from the scheduler; others are those of their node."""
ANSWER, CONNECT = 10.0, 60.0
"""Seconds in which the head of a cluster answers, and in which Ray finds the cluster of this machine."""
PATIENCE = 10.0
"""Seconds in which trials that were killed end."""
INTERVAL, SILENCE = 10.0, 30.0
"""Seconds between two checks whether the head answers, and after which one that does not ends the sweep: after 60 Ray
ends this process with a message of its own."""


class Node(NamedTuple):
    """A node that is alive, with the resources that Ray gives to tasks."""

    id: str
    address: str
    cores: int
    gpus: int


@contextmanager
def connected(address: str) -> Iterator[list[Node]]:
    """Connects this process to a cluster; yields the nodes that are alive.

    Args:
        address: `HOST:PORT` of the head, or `auto` for the cluster that this machine is a node of.

    Raises:
        RunError: If there is none, or it has another version of Ray or Python.
    """
    import ray

    address = os.environ.get("RAY_ADDRESS") or address if address == AUTO else address
    handler = signal.getsignal(signal.SIGTERM)  # Ray sets its own
    try:
        _require_answer(address)
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, namespace="sentattn")
    except OSError as error:
        start = "start one with ray start --head, or type engine.address=HOST:PORT of its head"
        message = f"engine.address={address}: there is no Ray cluster; {start}. The same command resumes."
        raise RunError(Fault("engine.address", "not_found", message)) from error
    except (RuntimeError, ValueError) as error:
        message = f"engine.address={address}: Ray does not connect: {' '.join(str(error).split())}"
        raise RunError(Fault("engine.address", "conflict", message)) from error
    finally:
        signal.signal(signal.SIGTERM, handler)
    try:
        yield [
            Node(node["NodeID"], node["NodeManagerAddress"], int(total.get("CPU", 0)), int(total.get("GPU", 0)))
            for node in ray.nodes()  # type: ignore[no-untyped-call]
            if node["Alive"] and (total := node["Resources"]) is not None
        ]
    finally:
        ray.shutdown()


def _require_answer(address: str) -> None:
    """Tries an address, since Ray itself waits for minutes for a cluster that is gone, and cannot be interrupted."""
    if address != AUTO:
        host, _, port = address.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), ANSWER).close()
        return
    attempt = [sys.executable, "-c", "import ray; ray.init('auto', log_to_driver=False, logging_level='ERROR')"]
    try:
        subprocess.run(attempt, capture_output=True, timeout=CONNECT, check=False)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError("the cluster of this machine is gone") from error


def find_slots(
    nodes: Sequence[Node], options: Options, accelerator: str = "auto", trials: int | None = None
) -> list[Slot]:
    """Returns the slots that a cluster has, as `resources.find`; all devices of a slot are on one node.

    Raises:
        SettingError: If there are not as many.
    """
    shares, group = options.slots_per_gpu, options.gpus_per_trial
    gpus = sum(node.gpus for node in nodes) if accelerator in ("auto", "gpu", "cuda") else 0
    require_gpus(options, accelerator, gpus, _resources(nodes), needed_by=("gpu", "cuda", "mps", "tpu"))
    if gpus and group == 1:
        shares = max(shares, -(-(options.slots or 1) // gpus))

    def places(threads: int) -> int:
        on_gpus = [node.gpus // group * shares if gpus else node.cores for node in nodes]
        return sum(min(count, node.cores // threads) for count, node in zip(on_gpus, nodes, strict=True))

    needed, least = options.slots or 1, options.threads or 1
    if places(least) < needed:
        key = "slots" if options.slots else "gpus_per_trial" if group > 1 else "threads"
        each = f"{plural(group if gpus else 0, 'GPU')} and {plural(least, 'CPU core')} each"
        message = f"{key}: {plural(needed, 'trial')} with {each} do not fit; {_resources(nodes)}."
        raise SettingError(Fault(key, "resources", message))
    count = options.slots or places(least)
    count = min(count, trials or count)
    threads = options.threads or max(t for t in range(1, max(node.cores for node in nodes) + 1) if places(t) >= count)
    devices, num_gpus = (tuple(map(str, range(group))), group / shares) if gpus else ((), 0)
    return [Slot(f"Ray {number}", devices, threads, num_gpus) for number in range(1, count + 1)]


def description(slots: Sequence[Slot], nodes: Sequence[Node]) -> str:
    """Returns the line that describes the slots and the cluster."""
    return f"{slots_line(slots)}, GPUs each: {slots[0].num_gpus:.3g}; {_resources(nodes)}."


def _resources(nodes: Sequence[Node]) -> str:
    """Returns what the cluster has, in words; GPUs by node, since a trial cannot use those of two."""
    cores, gpus = sum(node.cores for node in nodes), "+".join(str(node.gpus) for node in nodes if node.gpus) or "no"
    return f"the Ray cluster has {plural(cores, 'CPU core')} and {gpus} GPUs on {plural(len(nodes), 'node')}"


def _check_nodes(nodes: Sequence[Node], folder: Path) -> None:
    """Requires that all nodes have the versions of this one, and see a folder."""
    file = folder / f".node-{secrets.token_hex(8)}"
    expected, faults = versions(), []
    for node, (found, reason) in _on_nodes(nodes, check_node, str(file)):
        if differing := [name for name, version in expected.items() if found[name] != version]:
            theirs, ours = (", ".join(f"{name} {of[name]}" for name in differing) for of in (found, expected))
            faults.append(_fault("engine", "conflict", node, f"has {theirs}; here is {ours}: install the same"))
        seen = file.with_name(f"{file.name}-{node.id}")
        if not seen.exists():
            reason = f"does not see {folder} ({reason}): type output_dir=FOLDER on a file system that all nodes share"
            faults.append(_fault("output_dir", "not_found", node, reason))
        seen.unlink(missing_ok=True)
    if faults:
        raise SettingError(*faults)


def _on_nodes(nodes: Sequence[Node], function: Callable[..., T], *arguments: object) -> list[tuple[Node, T]]:
    """Calls a function on all nodes at the same time; returns what it returned by node, without those that died."""
    import ray

    remote = ray.remote(num_cpus=0, max_retries=0, max_calls=1)(function)
    results = [remote.options(scheduling_strategy=_on_node(node.id)).remote(*arguments) for node in nodes]
    values = []
    for node, result in zip(nodes, results, strict=True):
        try:
            values.append((node, ray.get(result)))
        except (ray.exceptions.NodeDiedError, ray.exceptions.TaskUnschedulableError):
            continue
        except ray.exceptions.RayError as error:  # such as sentattn, which is not installed there
            raise RunError(_fault("engine", "failed", node, f"can start no trial: {_reason(error)}")) from error
    return values


def _on_node(node: str) -> object:
    """Returns Ray's strategy that runs a task on a node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def _reason(error: Exception) -> str:
    """Returns the last line of an error, in which Ray has that of the task, or its name."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1]


def _fault(key: str, kind: str, node: Node, reason: str) -> Fault:
    return Fault(key, kind, f"Ray's node {node.address} ({node.id[:6]}) {reason}.")


@dataclass
class _Worker:
    """A trial, the result of its task, and whether it has left Ray's queue."""

    trial: RunningTrial
    result: Any
    has_begun: bool = False


class RayEngine(Engine):
    """Runs trials as tasks of the cluster that this process is connected to, with the arguments of `LocalEngine`.

    All nodes must see the folder of the log.
    """

    def __init__(self, module: str, studies: Sequence[Sequence[str]], log: Path, nodes: Sequence[Node]) -> None:
        variables = {name: value for name, value in os.environ.items() if name.startswith(SENT)}
        self._context = WorkerContext(module, os.getcwd(), variables)
        self._studies = studies
        self._log = log.absolute()
        self._nodes = nodes
        self._running: dict[str, _Worker] = {}
        self._mailbox: Any = None
        self._inbox: Any = None
        self._run_trial: Any = None
        self._head = ""
        self._checked = self._answered = 0.0

    def __exit__(self, *_: object) -> None:
        import ray

        with suppress(ray.exceptions.RayError):
            for worker in self._running.values():
                ray.cancel(worker.result, force=True, recursive=False)
            if results := [worker.result for worker in self._running.values()]:
                ray.wait(results, num_returns=len(results), timeout=PATIENCE)

    def prepare(self) -> None:
        """Checks all nodes, prepares the data on each, and starts the actor.

        Raises:
            SettingError: If a node has other versions, or does not see the study's folder.
            UserError: If the data is unusable.
            RunError: If trials cannot be started on a node.
        """
        import ray

        _check_nodes(self._nodes, self._log.parent)
        for node, error in _on_nodes(self._nodes, prepare_node, self._context, self._studies, str(self._log)):
            if isinstance(error, UserError):
                raise error
            if error:
                raise RunError(_fault("engine", "failed", node, f"can start no trial: {error}"))
        context = ray.get_runtime_context()
        here = _on_node(context.get_node_id())
        self._mailbox = ray.remote(Mailbox).options(num_cpus=0, scheduling_strategy=here).remote()
        self._inbox = self._mailbox.receive.remote()
        self._run_trial = ray.remote(max_retries=0, max_calls=1)(run_trial)
        self._head = context.gcs_address
        self._checked = self._answered = time.monotonic()

    def start(self, trial: RunningTrial) -> None:
        """Puts a trial into Ray's queue, from which it begins on a node with free resources."""
        slot, task = trial.slot, replace(trial.task, folder=trial.task.folder.absolute())
        run = self._run_trial.options(num_cpus=slot.threads, num_gpus=slot.num_gpus)
        result = run.remote(self._context, task, slot.environment(), self._mailbox, trial.key)
        self._running[trial.key] = _Worker(trial, result)

    def messages(self, seconds: float) -> Iterator[tuple[RunningTrial, Message]]:
        import ray

        results = {worker.result: key for key, worker in self._running.items()}
        ready, _ = ray.wait([self._inbox, *results], timeout=seconds)
        for worker in self._running.values():
            if not worker.has_begun:  # the time in Ray's queue does not count
                worker.trial.since = time.monotonic()
        for result in ready:
            if result == self._inbox:
                yield from self._received()
            else:
                worker = self._running.pop(results[result])
                yield worker.trial, self._outcome(worker.trial, result)
        self._require_head()

    def _received(self) -> Iterator[tuple[RunningTrial, Message]]:
        import ray

        try:
            messages: list[tuple[str, Message | None]] = ray.get(self._inbox)
        except ray.exceptions.RayError as error:
            text = "The connection to the trials on Ray was lost; the same command resumes."
            raise RunError(Fault("engine", "failed", text)) from error
        self._inbox = self._mailbox.receive.remote()
        for key, message in messages:
            if (worker := self._running.get(key)) is None:
                continue
            if message is None:
                worker.has_begun = True
            else:
                yield worker.trial, message

    def _outcome(self, trial: RunningTrial, result: Any) -> TrialOutcome:
        """Returns how a trial has ended whose task has ended."""
        import ray

        try:
            code, outcome = ray.get(result)
        except ray.exceptions.RayError as error:
            lost = isinstance(error, ray.exceptions.NodeDiedError | ray.exceptions.ObjectLostError)
            reason = f"its task on Ray has failed ({type(error).__name__}): {_reason(error)}"
            return failed(trial, reason, lost=lost and not trial.killed)
        return outcome or exited(trial, code)

    def _require_head(self) -> None:
        """Checks at intervals whether the head answers; raises RunError where it has not for `SILENCE` seconds."""
        if time.monotonic() - self._checked < INTERVAL:
            return
        try:
            _require_answer(self._head)
            self._answered = time.monotonic()
        except OSError as error:
            if time.monotonic() - self._answered >= SILENCE:
                message = f"The head of the Ray cluster, {self._head}, does not answer; the same command resumes."
                raise RunError(Fault("engine.address", "network", message)) from error
        self._checked = time.monotonic()

    def reply(self, trial: RunningTrial, *, prune: bool) -> None:
        if trial.key in self._running:
            self._mailbox.reply.remote(trial.key, prune)

    def stop(self, trial: RunningTrial) -> None:
        self._cancel(trial, force=False)

    def kill(self, trial: RunningTrial) -> None:
        self._cancel(trial, force=True)

    def _cancel(self, trial: RunningTrial, *, force: bool) -> None:
        import ray

        if worker := self._running.get(trial.key):
            ray.cancel(worker.result, force=force, recursive=False)


class Mailbox:
    """An actor on the scheduler's node, through which trials and the scheduler send messages to each other."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[tuple[str, Message | None]] = asyncio.Queue()
        self._replies: dict[str, asyncio.Future[bool]] = {}

    async def send(self, trial: str, message: Message | None) -> bool:
        """Takes a message of a trial, None once it begins; a report waits for its reply, whether to prune."""
        reply = None
        if isinstance(message, Report):
            reply = self._replies[trial] = asyncio.get_running_loop().create_future()
        self._messages.put_nowait((trial, message))
        return reply is not None and await reply

    async def receive(self) -> list[tuple[str, Message | None]]:
        """Waits for messages, and returns all in the order of their arrival."""
        first = await self._messages.get()
        return [first, *(self._messages.get_nowait() for _ in range(self._messages.qsize()))]

    async def reply(self, trial: str, prune: bool) -> None:
        """Answers a report, unless the trial has died meanwhile."""
        if not (waiting := self._replies.pop(trial)).done():
            waiting.set_result(prune)


class RayConnection(TrialConnection):
    """A connection through the mailbox; it keeps the outcome, which the task returns.

    Args:
        mailbox: The actor.
        trial: The key by which the scheduler knows the trial.
    """

    def __init__(self, mailbox: Any, trial: str) -> None:
        self._mailbox = mailbox
        self._trial = trial
        self.outcome: TrialOutcome | None = None

    def send(self, message: Message | None) -> bool:
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
    """What the processes on all nodes share: the module of trials, the scheduler's working directory and variables."""

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
    context: WorkerContext, task: TrialTask, variables: Mapping[str, str], mailbox: Any, trial: str
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
    package = Path(__file__).parents[2]
    code = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(package.rglob("*.py"))))
    return {
        "Python": platform.python_version(),
        **{name: importlib.metadata.version(name.lower()) for name in ("Ray", "torch")},
        "sentattn": f"{importlib.metadata.version('sentattn')} (code {code.hexdigest()[:8]})",
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
    context.enter()
    return preload(context.module, studies)
