"""A Ray cluster as a sweep finds it: the connection, the slots it has, and the checks of its nodes."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sentattn.console import plural
from sentattn.errors import Fault, RunError, SettingError
from sentattn.sweep.execution.engines import ray_node
from sentattn.sweep.execution.resources import VISIBLE, Slot, SlotRequest, slots_line
from sentattn.sweep.spec.components import AUTO

ANSWER, CONNECT = 10.0, 60.0
"""Seconds in which the head of a cluster answers, and in which Ray finds the cluster of this machine."""
SKIPPED = "Raylet is terminated"
"""What Ray prints of a node that dies, with 20 lines of its log: its trials are reported."""


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
        require_answer(address)
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


def require_answer(address: str) -> None:
    """Tries an address, since Ray itself waits for minutes for a cluster that is gone, and cannot be interrupted.

    Raises:
        OSError: If nothing answers.
    """
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
    if shares > 1 and group > 1:
        message = f"slots_per_gpu={shares} has no effect with gpus_per_trial={group}."
        raise SettingError(Fault("slots_per_gpu", "conflict", message))
    gpus = sum(node.gpus for node in nodes) if request.accelerator in ("auto", "gpu", "cuda") else 0
    needing = {"slots_per_gpu": shares > 1, "gpus_per_trial": group > 1}
    needing["trainer.accelerator"] = request.accelerator not in ("auto", "cpu")
    for key in (key for key, needs_gpus in needing.items() if needs_gpus and not gpus):
        message = f"{key}={getattr(request, key.removeprefix('trainer.'))} needs GPUs; {_resources(nodes)}."
        raise SettingError(Fault(key, "resources", message))
    if gpus and group == 1:
        shares = max(shares, -(-(request.slots or 1) // gpus))

    def places(threads: int) -> int:
        on_gpus = [node.gpus // group * shares if gpus else node.cores for node in nodes]
        return sum(min(count, node.cores // threads) for count, node in zip(on_gpus, nodes, strict=True))

    needed = request.slots or 1
    if places(request.threads or 1) < needed:
        key = "slots" if request.slots else "gpus_per_trial" if group > 1 else "threads"
        each = [f"{group} GPU{'s' if group > 1 else ''}"] * bool(gpus) + [f"{plural(request.threads or 1, 'CPU core')}"]
        message = f"{key}: {plural(needed, 'trial')} with {' and '.join(each)} each do not fit; {_resources(nodes)}."
        raise SettingError(Fault(key, "resources", message))
    count = request.slots or places(request.threads or 1)
    count = min(count, request.trials or count)
    threads = request.threads or max(t for t in range(1, max(node.cores for node in nodes) + 1) if places(t) >= count)
    devices, num_gpus = (tuple(map(str, range(group))), group / shares) if gpus else ((), 0)
    return [RaySlot(f"Ray {number}", devices, threads, num_gpus) for number in range(1, count + 1)]


def description(slots: Sequence[RaySlot], nodes: Sequence[Node]) -> str:
    """Returns the line that describes the slots and the cluster."""
    gpus = slots[0].num_gpus
    each = f", {gpus:.3g} GPU{'s' if gpus > 1 else ''} each" if gpus else ""
    return f"{slots_line(slots)}{each}; {_resources(nodes)}."


def _resources(nodes: Sequence[Node]) -> str:
    """Returns what the cluster has, in words; GPUs by node, since a trial cannot use those of two."""
    cores, gpus = sum(node.cores for node in nodes), [str(node.gpus) for node in nodes if node.gpus]
    has = f"{plural(cores, 'CPU core')} and {'+'.join(gpus)} GPUs" if gpus else f"{plural(cores, 'CPU core')}, no GPU"
    return f"the Ray cluster has {has} on {plural(len(nodes), 'node')}"


def check_nodes(nodes: Sequence[Node], folder: Path) -> None:
    """Compares the versions on all nodes, and requires that each sees a folder.

    Raises:
        SettingError: With an error for each node that differs.
    """
    file = folder / f".node-{secrets.token_hex(8)}"
    expected, faults = ray_node.versions(), []
    for node, (found, reason) in _on_nodes(nodes, ray_node.check_node, str(file)):
        if differing := [name for name, version in expected.items() if found[name] != version]:
            theirs, ours = (", ".join(f"{name} {of[name]}" for name in differing) for of in (found, expected))
            faults.append(_fault("engine", "conflict", node, f"has {theirs}; here is {ours}: install the same"))
        seen = file.with_name(f"{file.name}-{node.id}")
        if not seen.exists():
            legal = "type output_dir=FOLDER on a file system that all nodes share"
            faults.append(_fault("output_dir", "not_found", node, f"does not see {folder} ({reason}): {legal}"))
        seen.unlink(missing_ok=True)
    if faults:
        raise SettingError(*faults)


def prepare_nodes(
    nodes: Sequence[Node], context: ray_node.WorkerContext, studies: Sequence[Sequence[str]], log: Path
) -> None:
    """Prepares the data on all nodes.

    Raises:
        UserError: If the data is unusable.
        RunError: If trials cannot be started on a node.
    """
    for node, error in _on_nodes(nodes, ray_node.prepare_node, context, studies, str(log)):
        if isinstance(error, tuple):
            kind, faults = error
            raise kind(*faults)
        if error:
            raise RunError(_fault("engine", "failed", node, f"can start no trial: {error}"))


def _on_nodes(nodes: Sequence[Node], function: Any, *arguments: Any) -> list[tuple[Node, Any]]:
    """Calls a function on all nodes at the same time; returns what it returned by node, without those that died."""
    import ray

    remote = ray.remote(num_cpus=0, max_retries=0, max_calls=1)(function)
    results = [remote.options(scheduling_strategy=on_node(node.id)).remote(*arguments) for node in nodes]
    values = []
    for node, result in zip(nodes, results, strict=True):
        try:
            values.append((node, ray.get(result)))
        except (ray.exceptions.NodeDiedError, ray.exceptions.TaskUnschedulableError):
            continue
        except ray.exceptions.RayError as error:  # such as sentattn, which is not installed there
            raise RunError(_fault("engine", "failed", node, f"can start no trial: {reason_of(error)}")) from error
    return values


def on_node(node: str) -> Any:
    """Returns Ray's strategy that runs a task on a node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def reason_of(error: Exception) -> str:
    """Returns the last line of an error, in which Ray has that of the task, or its name."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1]


def _fault(key: str, kind: str, node: Node, reason: str) -> Fault:
    return Fault(key, kind, f"Ray's node {node.address} ({node.id[:6]}) {reason}.")
