"""The ranks of a training: which one this process is, and the collective operations between them.

A training on one device has one rank, and each of these functions returns at once then.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from datetime import timedelta
from typing import TypeVar

import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from torch import Tensor, distributed
from torch.distributed.rendezvous import rendezvous

from sentattn.distributed.devices import RankInfo, launcher_variables
from sentattn.errors import Interruption

T = TypeVar("T")

CONNECT = timedelta(minutes=10)
"""How long ranks wait for one another at the beginning."""
WORK = timedelta(days=7)
"""How long they wait later, as for rank 0 to read the data; over gloo a dead rank is noticed without this limit."""
ON_GPU = timedelta(minutes=10)
"""How long GPUs wait for one another inside a step. A rank that waits for its GPU notices a dead one by this alone."""
GRACE = 10.0
"""Seconds that an error of another rank waits for one of rank 0, which writes the record: torchrun ends all ranks once
one has ended."""
LAUNCHER = "SENTATTN_LAUNCHER"
"""Holds the process ID of the training that has started torchrun."""

_alone = False
_host: distributed.ProcessGroup | None = None
"""The connection for values in main memory; None for that of the process group, as before it is made."""


class Environment(LightningEnvironment):
    """Reads the rank from torchrun's variables, and leaves them as they are for the next training.

    SLURM's own environment would answer signals by queueing the job again, and refuse what srun allows. To Lightning
    each rank is a machine of its own, with one device.
    """

    def local_rank(self) -> int:
        """Returns the number of the rank on its machine."""
        return 0

    def node_rank(self) -> int:
        """Returns the number of the machine."""
        return rank()

    def teardown(self) -> None:
        """Keeps the variables."""


@contextmanager
def connected(here: RankInfo | None) -> Iterator[None]:
    """Connects this process, the rank `here`, with the other ranks, if there are any, for the time of the block.

    An error is raised on ranks other than 0 after `GRACE` only: where rank 0 fails too, torchrun has ended them then.
    An interruption is raised by rank 0 alone.
    """
    global _host
    if here is None or distributed.is_initialized():
        yield
        return
    os.environ.update(launcher_variables(os.environ))
    if "TORCHELASTIC_RUN_ID" in os.environ:
        end_with_torchrun()
    try:
        with ExitStack() as stack:
            store, rank, world = next(rendezvous("env://", here.rank, here.world, timeout=CONNECT))
            backend, timeout = ("cpu:gloo,cuda:nccl", ON_GPU) if torch.cuda.is_available() else ("gloo", WORK)
            distributed.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timeout)
            stack.callback(distributed.destroy_process_group)
            _host = distributed.new_group(backend="gloo", timeout=WORK)
            if here.rank:
                stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
            yield
    except Interruption as interruption:
        if here.rank == 0:
            raise
        sys.exit(interruption.exit_code)
    except (Exception, SystemExit):
        if here.rank:
            time.sleep(GRACE)
        raise
    finally:
        _host = None


@functools.cache
def end_with_torchrun() -> None:
    """Ends this process and its workers when torchrun has died, or the training that has started it.

    Ranks lead sessions of their own, so that no signal to another group of processes reaches them.
    """
    torchrun, launcher = os.getppid(), int(os.environ.get(LAUNCHER, "0"))

    def watch() -> None:
        try:
            while os.getppid() == torchrun:
                os.kill(launcher, 0)  # raises if there is no such process; 0 is this one
                time.sleep(0.5)
        except OSError:
            with suppress(OSError):  # another rank may have ended it
                os.kill(torchrun, signal.SIGKILL)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def several() -> bool:
    """Returns whether there are other ranks."""
    return world() > 1


def world() -> int:
    """Returns the number of ranks."""
    return 1 if _alone or not distributed.is_initialized() else distributed.get_world_size()


def rank() -> int:
    """Returns the number of this process among the ranks, from 0."""
    return 0 if _alone or not distributed.is_initialized() else distributed.get_rank()


def is_rank_zero() -> bool:
    """Returns whether this is the one rank that prints, logs and writes."""
    return rank() == 0


@contextmanager
def as_single_process() -> Iterator[None]:
    """Runs the block as in a training of one process, such as the evaluation by rank 0."""
    global _alone
    before, _alone = _alone, True
    try:
        yield
    finally:
        _alone = before


@contextmanager
def rank_zero_first() -> Iterator[None]:
    """Runs the block on rank 0 before the others, which find its result in the cache."""
    if not is_rank_zero():
        all_reduce_max(0)
    try:
        yield
    finally:
        if is_rank_zero():
            all_reduce_max(0)


def all_reduce_max(number: int) -> int:
    """Returns the largest number of all ranks."""
    if not several():
        return number
    # In main memory, so that no GPU is waited for, and a rank that has died is noticed at once.
    over_all = torch.tensor(number, dtype=torch.int64)
    distributed.all_reduce(over_all, distributed.ReduceOp.MAX, group=_host)
    return int(over_all)


def all_gather(value: T) -> list[T]:
    """Returns the object of each rank, by rank."""
    values = [value] * world()
    if several():
        distributed.all_gather_object(values, value, group=_host)
    return values


def broadcast(value: T) -> T:
    """Returns rank 0's object on every rank."""
    values = [value]
    if several():
        distributed.broadcast_object_list(values, src=0, group=_host)
    return values[0]


def wait_for_rank_zero() -> None:
    """Waits for rank 0, which itself does not fail if the others have ended."""
    try:
        broadcast(None)
    except RuntimeError:
        if not is_rank_zero():
            raise


def all_reduce_sum(local: Tensor) -> Tensor:
    """Returns the sum of a tensor over the ranks, without a gradient."""
    if not several():
        return local
    over_all = local.detach().clone()
    distributed.all_reduce(over_all)
    return over_all


def differentiable_sum(local: Tensor) -> Tensor:
    """Returns the sum of a tensor over the ranks, with a gradient.

    A loss made of such sums is the same on every rank, and its gradient is that of one process with all rows once
    `DistributedDataParallel` has averaged it over the ranks: hence the factor, which that mean undoes.
    """
    return all_reduce_sum(local) + world() * (local - local.detach()) if several() else local


def offset_seed_by_rank() -> None:
    """Offsets the seed by the rank, so that dropout differs between ranks; rank 0 keeps its random numbers."""
    if rank():
        torch.manual_seed(torch.initial_seed() + rank())
