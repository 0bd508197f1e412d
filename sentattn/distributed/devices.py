"""The devices of a training, the precision it computes in, and which of a launcher's processes this one is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sentattn.config.types import Node, as_typed
from sentattn.errors import Fault, SettingError

AUTO, SINGLE, MIXED = "auto", "32-true", "bf16-mixed"
"""Values of `trainer.precision`."""
GPU_ACCELERATORS = ("auto", "gpu", "cuda")
"""Values of `trainer.accelerator` that take an NVIDIA GPU if there is one."""
TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
STEP_TASKS = "SLURM_STEP_NUM_TASKS"
FIRST_PORT, PORTS = 15000, 10000
LOOPBACK_ADDRESS = "127.0.0.1"
CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")
"""Microseconds of all cores that a container may use, as with `docker run --cpus=2`, in a period of so many."""


class RankInfo(NamedTuple):
    """Which of several processes this one is: its number, that of all processes, and that of those on each machine."""

    rank: int
    world: int
    local_world: int

    @property
    def nodes(self) -> int:
        """Number of machines."""
        return self.world // self.local_world


def rank_info(environ: Mapping[str, str] = os.environ) -> RankInfo | None:
    """Returns which rank a process with these variables is, or None where no launcher has started several.

    Raises:
        SettingError: If SLURM has not divided the processes evenly among the machines.
    """
    environ = {**environ, **launcher_variables(environ)}
    if not _has_torchrun(environ):
        return None
    return RankInfo(int(environ["RANK"]), int(environ["WORLD_SIZE"]), int(environ["LOCAL_WORLD_SIZE"]))


def _has_torchrun(environ: Mapping[str, str]) -> bool:
    return all(name in environ for name in TORCHRUN) and environ["WORLD_SIZE"] != "1"


def leave_step() -> None:
    """Removes this process from the step of srun in which it, or its parent, was started."""
    os.environ.pop(STEP_TASKS, None)


def launcher_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of torchrun that are to be set: those of srun's task, none where torchrun has set its own.

    Raises:
        SettingError: If the tasks of srun are not divided evenly among the machines.
    """
    world = int(environ.get(STEP_TASKS, "1"))  # a batch script itself is no step
    if world == 1 or _has_torchrun(environ):
        return {}
    from lightning_fabric.plugins.environments.slurm import SLURMEnvironment

    local_world, _, repeated = environ["SLURM_STEP_TASKS_PER_NODE"].partition("(")
    if "," in local_world + repeated or world % int(local_world):
        message = (
            f"srun divided {world} tasks as {environ['SLURM_STEP_TASKS_PER_NODE']} among the machines, and each must "
            "have as many as the others: set --nodes and --ntasks-per-node."
        )
        raise SettingError(Fault("trainer.num_nodes", "conflict", message))
    nodes = environ.get("SLURM_STEP_NODELIST", LOOPBACK_ADDRESS)
    address = LOOPBACK_ADDRESS if world == int(local_world) else SLURMEnvironment.resolve_root_node_address(nodes)
    step = int(environ.get("SLURM_JOB_ID", "0")) + int(environ.get("SLURM_STEP_ID", "0"))
    return {
        "RANK": environ["SLURM_PROCID"],
        "LOCAL_RANK": environ["SLURM_LOCALID"],
        "GROUP_RANK": environ["SLURM_NODEID"],
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": local_world,
        "MASTER_ADDR": environ.get("MASTER_ADDR", address),
        "MASTER_PORT": environ.get("MASTER_PORT", str(FIRST_PORT + step % PORTS)),
    }


def count_here(trainer: Node) -> int:
    """Returns the number of devices of this machine that a training uses, each with a process of its own.

    Args:
        trainer: The `trainer` settings.

    Raises:
        SettingError: If this machine does not have them, or other machines are needed.
    """
    import torch

    devices, accelerator, nodes = trainer["devices"], trainer["accelerator"], trainer.get("num_nodes", 1)
    if nodes > 1:
        message = f"trainer.num_nodes={nodes} needs srun or torchrun --nnodes={nodes}, to start it on each machine."
        raise SettingError(Fault("trainer.num_nodes", "missing", message))
    gpus = torch.cuda.device_count() if accelerator in GPU_ACCELERATORS else 0
    if devices in (-1, "auto"):
        return max(1, gpus)
    numbers = list(devices) if isinstance(devices, list) else list(range(devices))
    on_cpu = accelerator == "cpu" or (accelerator == "auto" and not torch.backends.mps.is_available())
    available = gpus or (0 if isinstance(devices, list) else cores() if on_cpu else 1)
    if not numbers or len(set(numbers)) < len(numbers) or max(numbers) >= available:
        has_none = accelerator in GPU_ACCELERATORS[1:] and not gpus
        fit = "trainer.accelerator=cpu" if has_none else f"trainer.devices={max(1, available)}"
        message = (
            f"trainer.devices={as_typed(devices)} does not fit trainer.accelerator={accelerator} here: this process "
            f"may use GPUs with CUDA: {gpus}, CPU cores: {cores()}. Type {fit}."
        )
        raise SettingError(Fault("trainer.devices", "resources", message))
    return len(numbers)


def as_launched(trainer: Node, info: RankInfo | None) -> Node:
    """Returns `trainer` settings with the numbers of devices and machines that a launcher has started processes for.

    Raises:
        SettingError: If the settings ask for other numbers.
    """
    if info is None:
        return trainer
    devices = trainer["devices"]
    numbers = {
        "devices": (len(devices) if isinstance(devices, list) else devices, info.local_world),
        "num_nodes": (trainer.get("num_nodes", 1), info.nodes),
    }
    for key, (number, started) in numbers.items():
        if number not in (1, -1, "auto", started):
            message = f"trainer.{key}={as_typed(trainer[key])}, but processes were started for {started}: leave it out."
            raise SettingError(Fault(f"trainer.{key}", "conflict", message))
    kept = devices if isinstance(devices, list) and len(devices) == info.local_world else info.local_world
    return {**trainer, "devices": kept, "num_nodes": info.nodes}


def of_rank(trainer: Node) -> object:
    """Returns the device of a process, as a trainer takes it: the one of its number on this machine, or any.

    A process that sees one GPU, as with `srun --gpus-per-task=1`, takes that.
    """
    import torch

    devices = trainer["devices"]
    if not isinstance(devices, list):
        number = torch.cuda.device_count() if trainer["accelerator"] in GPU_ACCELERATORS else 0
        devices = list(range(number)) if "LOCAL_RANK" in os.environ else []
    return [devices[int(os.environ.get("LOCAL_RANK", "0")) % len(devices)]] if devices else 1


def cores() -> int:
    """Returns the number of CPU cores that this process may use; that of a container may be limited."""
    number = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no Linux, or no limit
        quota, period = CPU_LIMIT.read_text(encoding="utf-8").split()
        number = min(number, max(1, int(quota) // int(period)))
    return number


def resolve_precision(trainer: Node) -> Node:
    """Returns `trainer` settings with what `precision=auto` is on the device that they train on.

    It is `bf16-mixed` on a GPU that computes in bfloat16, and `32-true` elsewhere. As it changes results, it is
    resolved before a setting is hashed or stored.
    """
    if trainer.get("precision") != AUTO:
        return trainer
    devices = trainer["devices"]
    index = devices[0] if isinstance(devices, list) else 0
    return {**trainer, "precision": MIXED if is_on_gpu(trainer) and gpu_has_bfloat16(index) else SINGLE}


def is_on_gpu(trainer: Node) -> bool:
    """Returns whether a training uses CUDA."""
    if trainer["accelerator"] not in GPU_ACCELERATORS:
        return False
    import torch

    return torch.cuda.is_available()


@cache
def gpu_has_bfloat16(index: int) -> bool:
    """Returns whether a GPU has arithmetic in bfloat16.

    Unless this process uses CUDA already, another process finds out: a scheduler of trainings that initialized CUDA
    would hold memory of a GPU, or the whole GPU where it admits one process.
    """
    import torch

    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch has no types for it
        return torch.version.hip is not None or torch.cuda.get_device_properties(index).major >= 8
    code = f"import torch, {__name__} as d; torch.cuda.init(); print(d.gpu_has_bfloat16({index}))"
    return subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout.strip() == b"True"
