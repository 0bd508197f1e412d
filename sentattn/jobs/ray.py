"""Jobs on a Ray cluster: each is a task that starts the job's process on a node. Ray ends them with the scheduler."""

import logging
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sentattn.console import plural
from sentattn.distributed.devices import GPU_ACCELERATORS
from sentattn.errors import Fault, RunError, SettingError
from sentattn.jobs.pool import LOST, JobProcess, LocalPool
from sentattn.jobs.slots import Slot, SlotOptions, require_gpus

SENT = ("WANDB_", "MLFLOW_")
"""Beginnings of the variables that jobs get from the scheduler; others are those of their node."""


class RayProcess:
    """A job as a task of Ray, whose exit code is its `result`."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def kill(self) -> None:
        ray.cancel(self.result, force=True)

    stop = kill  # what is stopped is resumed

    def join(self) -> int:
        try:
            if not ray.wait([self.result], timeout=0)[0]:
                self.kill()
            return int(ray.get(self.result))
        except ray.exceptions.RayError:
            return LOST


class RayPool:
    """Runs jobs on the nodes of the cluster that this process is connected to; `nodes` have its resources."""

    def __init__(self, nodes: Sequence[Mapping[str, float]]) -> None:
        self._nodes = [(int(node.get("CPU", 0)), int(node.get("GPU", 0))) for node in nodes]
        self._run = ray.remote(max_retries=0)(_run)

    def __str__(self) -> str:
        """What the cluster has; GPUs by node, since a job cannot use those of two."""
        cores, gpus = sum(cores for cores, _ in self._nodes), "+".join(str(gpus) for _, gpus in self._nodes)
        return f"the Ray cluster has {plural(cores, 'CPU core')} and {gpus} GPUs on {plural(len(self._nodes), 'node')}"

    def find_slots(self, options: SlotOptions, accelerator: str, jobs: int | None) -> list[Slot]:
        """Returns the slots as `slots.find_slots`; all devices of a slot are on one node."""
        nodes = [(cores, gpus * (accelerator in GPU_ACCELERATORS)) for cores, gpus in self._nodes]
        gpus, shares, group = sum(gpus for _, gpus in nodes), options.slots_per_gpu, options.gpus_per_trial
        require_gpus(options, accelerator, gpus, str(self))
        if gpus and group == 1:
            shares = max(shares, -(-(options.slots or 1) // gpus))
        places = [min(cores // (options.threads or 1), n // group * shares if gpus else cores) for cores, n in nodes]
        if (count := options.slots or max(1, sum(places))) > sum(places):
            raise SettingError(Fault("slots", "resources", f"slots={count} do not fit: {self}."))
        count = min(count, jobs or count)
        usable = [cores for (cores, _), place in zip(nodes, places, strict=True) if place]
        threads = options.threads or max(1, min(usable) // -(-count // len(usable)))
        devices, num_gpus = (tuple(map(str, range(group))), group / shares) if gpus else ((), 0)
        return [Slot(f"Ray {number}", devices, threads, num_gpus) for number in range(1, count + 1)]

    def start(self, function: Callable[..., None], arguments: tuple[object, ...], log: Path, slot: Slot) -> RayProcess:
        run = self._run.options(num_cpus=slot.threads, num_gpus=slot.num_gpus)
        return RayProcess(run.remote(os.getcwd(), function, arguments, log.absolute(), slot))

    def ended(self, running: Iterable[JobProcess], seconds: float) -> list[JobProcess]:
        jobs = {job.result: job for job in running if isinstance(job, RayProcess)}
        ray.wait([*jobs], timeout=seconds)
        return [jobs[result] for result in ray.wait([*jobs], num_returns=len(jobs), timeout=0)[0]]


def _run(folder: str, *job: Any) -> int:
    """Runs a job on a node, in the working directory of the scheduler; returns its exit code."""
    os.chdir(folder)
    process = LocalPool().start(*job)
    process.process.join()
    return process.join()


@contextmanager
def connected(folder: Path) -> Iterator[RayPool]:
    """Connects to the cluster of `RAY_ADDRESS`, HOST:PORT of its head, or else to that of this machine.

    Raises:
        RunError: If there is none, or not all of its nodes see the output folder.
    """
    address = os.environ.get("RAY_ADDRESS", "auto")
    variables = {name: value for name, value in os.environ.items() if name.startswith(SENT)}
    handler = signal.getsignal(signal.SIGTERM)  # Ray sets its own
    try:
        if address != "auto":
            host, _, port = address.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), 10).close()  # Ray itself waits for minutes
        ray.init(address, runtime_env={"env_vars": variables}, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        advice = "start a cluster with ray start --head, or export RAY_ADDRESS=HOST:PORT of its head."
        message = f"engine=ray: RAY_ADDRESS={address} does not connect ({' '.join(str(error).split())}): {advice}"
        raise RunError(Fault("engine", "not_found", message)) from error
    finally:
        signal.signal(signal.SIGTERM, handler)
    try:
        nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        with tempfile.TemporaryDirectory(dir=folder, prefix=".ray-") as file:
            there = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
            exists = [ray.remote(num_cpus=0)(os.path.exists).options(scheduling_strategy=node) for node in there]
            found = ray.get([task.remote(os.path.abspath(file)) for task in exists])
        if blind := [node["NodeManagerAddress"] for node, sees in zip(nodes, found, strict=True) if not sees]:
            message = f"output_dir={folder}: {', '.join(blind)} of the Ray cluster do not see it; all nodes must."
            raise RunError(Fault("output_dir", "not_found", message))
        yield RayPool([node["Resources"] for node in nodes])
    finally:
        ray.shutdown()
