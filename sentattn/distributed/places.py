"""Which of the processes that a launcher has started this one is: torchrun's, SLURM's srun's, or our own's."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import NamedTuple

from sentattn.errors import SettingError

FIRST_PORT, PORTS = 15000, 10000
LOOPBACK = "127.0.0.1"


class Place(NamedTuple):
    """Which of several processes this one is.

    Attributes:
        rank: Its number among all, from 0.
        local_rank: Its number among those of this machine.
        node: The number of this machine.
        world: How many processes there are.
        local_world: How many of them each machine has.
        address: The machine of the first.
        port: Where it listens.
    """

    rank: int
    local_rank: int
    node: int
    world: int
    local_world: int
    address: str
    port: int

    @property
    def nodes(self) -> int:
        """Number of machines."""
        return self.world // self.local_world

    def environment(self) -> dict[str, str]:
        """Returns the variables by which torch and Lightning know it."""
        return {
            "RANK": str(self.rank),
            "LOCAL_RANK": str(self.local_rank),
            "NODE_RANK": str(self.node),
            "GROUP_RANK": str(self.node),
            "WORLD_SIZE": str(self.world),
            "LOCAL_WORLD_SIZE": str(self.local_world),
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
        }


def place() -> Place | None:
    """Returns the place of this process, or None where no launcher has started several.

    Raises:
        SettingError: If SLURM has not divided the processes evenly among the machines.
    """
    return from_torchrun(os.environ) or from_srun(os.environ)


def on_this_machine(devices: int) -> list[Place]:
    """Returns the places of processes that find one another at a free port of this machine, one a device."""
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        port = free.getsockname()[1]
    return [Place(rank, rank, 0, devices, devices, LOOPBACK, port) for rank in range(devices)]


def from_torchrun(environ: Mapping[str, str]) -> Place | None:
    """Reads the variables that torchrun sets, and our own launcher."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    if not all(name in environ for name in names) or environ["WORLD_SIZE"] == "1":
        return None
    rank, local_rank, world, local_world = (int(environ[name]) for name in names[:4])
    node = int(environ.get("GROUP_RANK", rank // local_world))
    return Place(rank, local_rank, node, world, local_world, environ["MASTER_ADDR"], int(environ["MASTER_PORT"]))


def from_srun(environ: Mapping[str, str]) -> Place | None:
    """Reads the variables that srun sets for each task of a step; a batch script itself is no step.

    Raises:
        SettingError: If the tasks are not divided evenly among the machines.
    """
    world = int(environ.get("SLURM_STEP_NUM_TASKS", "1"))
    if world == 1:
        return None
    from lightning_fabric.plugins.environments.slurm import SLURMEnvironment

    local_world, _, repeated = environ["SLURM_STEP_TASKS_PER_NODE"].partition("(")
    if "," in local_world + repeated or world % int(local_world):
        raise SettingError(
            f"srun divided {world} tasks as {environ['SLURM_STEP_TASKS_PER_NODE']} among the machines, and each has to "
            "have as many as the others: ask with --nodes and --ntasks-per-node."
        )
    nodes = environ.get("SLURM_STEP_NODELIST", LOOPBACK)
    address = LOOPBACK if world == int(local_world) else SLURMEnvironment.resolve_root_node_address(nodes)
    step = int(environ.get("SLURM_JOB_ID", "0")) + int(environ.get("SLURM_STEP_ID", "0"))
    return Place(
        rank=int(environ["SLURM_PROCID"]),
        local_rank=int(environ["SLURM_LOCALID"]),
        node=int(environ["SLURM_NODEID"]),
        world=world,
        local_world=int(local_world),
        address=environ.get("MASTER_ADDR", address),
        port=int(environ.get("MASTER_PORT", FIRST_PORT + step % PORTS)),
    )
