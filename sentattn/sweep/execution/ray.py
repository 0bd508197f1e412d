"""Trials on a Ray cluster: each is a task in a separate worker process, on any node that has the resources.

Messages go through an actor on the scheduler's node, and the outcome comes back as the result of the task. Ray ends all
of them when the scheduler dies.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sentattn.console import plural
from sentattn.errors import Fault, RunError, SettingError, UserError
from sentattn.sweep.execution import ray_node
from sentattn.sweep.execution.interfaces import Engine, Message, RunningTrial, TrialOutcome
from sentattn.sweep.execution.local import exited, failed
from sentattn.sweep.execution.resources import VISIBLE, Slot, SlotRequest, require_gpus, slots_line
from sentattn.sweep.spec.components import AUTO

T = TypeVar("T")
SENT = ("WANDB_", "MLFLOW_")
"""Beginnings of the variables that trials get from the scheduler; others are those of their node."""
ANSWER, CONNECT = 10.0, 60.0
"""Seconds in which the head of a cluster answers, and in which Ray finds the cluster of this machine."""
SKIPPED = "Raylet is terminated"
"""What Ray prints of a node that dies, with 20 lines of its log: its trials are reported."""
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


@dataclass(frozen=True)
class RaySlot(Slot):
    """A place for one trial on any node: Ray chooses the GPUs; `num_gpus` counts them, and may be a fraction."""

    num_gpus: float = 0

    def environment(self) -> dict[str, str]:
        """Returns the variables of a trial's process; Ray itself names the GPUs of a trial that has some."""
        variables = super().environment()
        if self.gpus:
            del variables[VISIBLE]
        return variables


@contextmanager
def connected(address: str) -> Iterator[list[Node]]:
    """Connects this process to a cluster; yields the nodes that are alive.

    Args:
        address: `HOST:PORT` of the head, or `auto` for the cluster that this machine is a node of.

    Raises:
        RunError: If there is none, or it has another version of Ray or Python.
    """
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", SKIPPED)  # read when Ray is imported
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


def find_slots(request: SlotRequest, nodes: Sequence[Node]) -> list[RaySlot]:
    """Returns the slots that a cluster has for a request; all devices of a slot are on one node.

    Raises:
        SettingError: If there are not as many.
    """
    shares, group = request.slots_per_gpu, request.gpus_per_trial
    gpus = sum(node.gpus for node in nodes) if request.accelerator in ("auto", "gpu", "cuda") else 0
    require_gpus(request, gpus, is_needed=request.accelerator not in ("auto", "cpu"), place=_resources(nodes))
    if gpus and group == 1:
        shares = max(shares, -(-(request.slots or 1) // gpus))

    def places(threads: int) -> int:
        on_gpus = [node.gpus // group * shares if gpus else node.cores for node in nodes]
        return sum(min(count, node.cores // threads) for count, node in zip(on_gpus, nodes, strict=True))

    needed, least = request.slots or 1, request.threads or 1
    if places(least) < needed:
        key = "slots" if request.slots else "gpus_per_trial" if group > 1 else "threads"
        each = f"{plural(group if gpus else 0, 'GPU')} and {plural(least, 'CPU core')} each"
        message = f"{key}: {plural(needed, 'trial')} with {each} do not fit; {_resources(nodes)}."
        raise SettingError(Fault(key, "resources", message))
    count = request.slots or places(least)
    count = min(count, request.trials or count)
    threads = request.threads or max(t for t in range(1, max(node.cores for node in nodes) + 1) if places(t) >= count)
    devices, num_gpus = (tuple(map(str, range(group))), group / shares) if gpus else ((), 0)
    return [RaySlot(f"Ray {number}", devices, threads, num_gpus) for number in range(1, count + 1)]


def description(slots: Sequence[RaySlot], nodes: Sequence[Node]) -> str:
    """Returns the line that describes the slots and the cluster."""
    return f"{slots_line(slots)}, GPUs each: {slots[0].num_gpus:.3g}; {_resources(nodes)}."


def _resources(nodes: Sequence[Node]) -> str:
    """Returns what the cluster has, in words; GPUs by node, since a trial cannot use those of two."""
    cores, gpus = sum(node.cores for node in nodes), "+".join(str(node.gpus) for node in nodes if node.gpus) or "no"
    return f"the Ray cluster has {plural(cores, 'CPU core')} and {gpus} GPUs on {plural(len(nodes), 'node')}"


def _check_nodes(nodes: Sequence[Node], folder: Path) -> None:
    """Requires that all nodes have the versions of this one, and see a folder."""
    file = folder / f".node-{secrets.token_hex(8)}"
    expected, faults = ray_node.versions(), []
    for node, (found, reason) in _on_nodes(nodes, ray_node.check_node, str(file)):
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
    """Runs trials as tasks of the cluster that this process is connected to.

    Args:
        module: The module that trials run, as in `LocalEngine`.
        studies: For each study the arguments that all its trials share.
        log: File for the output of the preparation, in the study's folder, which all nodes must see.
        nodes: The nodes of the cluster, which are checked.
    """

    def __init__(self, module: str, studies: Sequence[Sequence[str]], log: Path, nodes: Sequence[Node]) -> None:
        variables = {name: value for name, value in os.environ.items() if name.startswith(SENT)}
        self._context = ray_node.WorkerContext(module, os.getcwd(), variables)
        self._studies = studies
        self._log = log.absolute()
        self._nodes = nodes
        self._running: dict[int, _Worker] = {}
        self._started = 0
        self._mailbox: Any = None
        self._run_trial: Any = None
        self._head = ""
        self._checked = self._answered = 0.0
        self._done: deque[tuple[int | None, Future[Any]]] = deque()  # a trial, or None for the mailbox
        self._wakeup, self._wake = os.pipe()
        os.set_blocking(self._wakeup, False)

    def __exit__(self, *_: object) -> None:
        import ray

        with suppress(ray.exceptions.RayError):
            for worker in self._running.values():
                ray.cancel(worker.result, force=True, recursive=False)
            if results := [worker.result for worker in self._running.values()]:
                ray.wait(results, num_returns=len(results), timeout=PATIENCE)
        ray.shutdown()
        os.close(self._wakeup)
        os.close(self._wake)

    def prepare(self) -> None:
        """Checks all nodes, prepares the data on each, and starts the actor.

        Raises:
            SettingError: If a node has other versions, or does not see the study's folder.
            UserError: If the data is unusable.
            RunError: If trials cannot be started on a node.
        """
        import ray

        _check_nodes(self._nodes, self._log.parent)
        arguments = (self._context, self._studies, str(self._log))
        for node, error in _on_nodes(self._nodes, ray_node.prepare_node, *arguments):
            if isinstance(error, UserError):
                raise error
            if error:
                raise RunError(_fault("engine", "failed", node, f"can start no trial: {error}"))
        context = ray.get_runtime_context()
        here = _on_node(context.get_node_id())
        self._mailbox = ray.remote(ray_node.Mailbox).options(num_cpus=0, scheduling_strategy=here).remote()
        self._run_trial = ray.remote(max_retries=0, max_calls=1)(ray_node.run_trial)
        self._head = context.gcs_address
        self._checked = self._answered = time.monotonic()
        self._notice(None, self._mailbox.receive.remote())

    def start(self, trial: RunningTrial) -> None:
        """Puts a trial into Ray's queue, from which it begins on a node with free resources."""
        slot = trial.slot
        assert isinstance(slot, RaySlot)
        task = replace(trial.task, folder=trial.task.folder.absolute())
        self._started += 1
        run = self._run_trial.options(num_cpus=slot.threads, num_gpus=slot.num_gpus)
        result = run.remote(self._context, task, slot.environment(), self._mailbox, self._started)
        self._running[self._started] = _Worker(trial, result)
        self._notice(self._started, result)

    def messages(self, timeout: float | None, wakeup: int) -> Iterator[tuple[RunningTrial, Message]]:
        """Yields messages of trials; see `Engine.messages`."""
        wait([wakeup, self._wakeup], INTERVAL if timeout is None else min(timeout, INTERVAL))
        with suppress(BlockingIOError):
            os.read(self._wakeup, 1 << 10)
        for worker in self._running.values():
            if not worker.has_begun:  # the time in Ray's queue does not count
                worker.trial.since = time.monotonic()
        while self._done:
            number, future = self._done.popleft()
            if number is None:
                yield from self._received(future)
            else:
                worker = self._running.pop(number)
                yield worker.trial, self._outcome(worker.trial, future)
        self._require_head()

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
        """Answers a report; a trial that has died meanwhile needs no answer."""
        for number, worker in self._running.items():
            if worker.trial is trial:
                self._mailbox.reply.remote(number, prune)

    def stop(self, trial: RunningTrial) -> None:
        """Interrupts a trial as Ctrl-C does, so that a training stops after its step."""
        self._cancel(trial, force=False)

    def kill(self, trial: RunningTrial) -> None:
        """Ends the worker of a trial, with all processes that it has started."""
        self._cancel(trial, force=True)

    def _cancel(self, trial: RunningTrial, *, force: bool) -> None:
        import ray

        for worker in self._running.values():
            if worker.trial is trial:
                ray.cancel(worker.result, force=force, recursive=False)

    def _notice(self, number: int | None, result: Any) -> None:
        """Lets `messages` handle a result when it is there; Ray calls back in a thread of its own."""

        def done(future: Future[Any]) -> None:
            self._done.append((number, future))
            os.write(self._wake, b"\0")

        result.future().add_done_callback(done)

    def _received(self, future: Future[list[tuple[int, Message | None]]]) -> Iterator[tuple[RunningTrial, Message]]:
        import ray

        try:
            messages = future.result()
        except ray.exceptions.RayError as error:
            text = "The connection to the trials on Ray was lost; the same command resumes."
            raise RunError(Fault("engine", "failed", text)) from error
        self._notice(None, self._mailbox.receive.remote())
        for number, message in messages:
            if (worker := self._running.get(number)) is None:
                continue
            if message is None:
                worker.has_begun = True
            else:
                yield worker.trial, message

    def _outcome(self, trial: RunningTrial, future: Future[tuple[int, TrialOutcome | None]]) -> TrialOutcome:
        """Returns how a trial has ended whose task has ended."""
        import ray

        try:
            code, outcome = future.result()
        except (ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError):
            return failed(trial, "its node has died", lost=not trial.killed)
        except ray.exceptions.OutOfMemoryError:
            return failed(trial, "Ray ended it because its node ran out of memory")
        except ray.exceptions.WorkerCrashedError:
            return failed(trial, "its process has died")
        except ray.exceptions.RayError as error:
            return failed(trial, f"its task on Ray has failed: {_reason(error)}")
        return outcome or exited(trial, code)
