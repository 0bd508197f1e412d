"""The ranks of a training: which one this process is, and the collective operations between them.

A training on one device has one rank, and each of these functions returns at once then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from sentattn.errors import UserError

Thing = TypeVar("Thing")

LOST = "Another process of this training has ended, and so this one ends"
"""What a rank says that was left behind."""

_alone = False
_agreed: UserError | None = None


def several() -> bool:
    """Returns whether other ranks take part in what is being done."""
    return not _alone and distributed.is_available() and distributed.is_initialized() and world() > 1


def world() -> int:
    """Returns the number of ranks."""
    return 1 if _alone or not distributed.is_initialized() else distributed.get_world_size()


def rank() -> int:
    """Returns the number of this process among the ranks, from 0."""
    return 0 if _alone or not distributed.is_initialized() else distributed.get_rank()


def is_rank_zero() -> bool:
    """Returns whether this is the one rank that prints, logs and writes."""
    return not distributed.is_initialized() or distributed.get_rank() == 0


@contextmanager
def alone() -> Iterator[None]:
    """What is done inside is the matter of this process, such as judging a model that all have trained."""
    global _alone
    before, _alone = _alone, True
    try:
        yield
    finally:
        _alone = before


@contextmanager
def rank_zero_first() -> Iterator[None]:
    """Runs the block on rank 0 before the others, which find its result in the cache."""
    if several() and not is_rank_zero():
        largest(0)
    try:
        yield
    finally:
        if several() and is_rank_zero():
            largest(0)


@contextmanager
def together() -> Iterator[None]:
    """All ranks leave the block, or else all raise the faults of all.

    Raises:
        UserError: If any rank raised one inside.
    """
    global _agreed
    found: UserError | None = None
    try:
        yield
    except UserError as error:
        found = error
    everyone = [error for error in gather(found) if error is not None]
    if everyone:
        _agreed = type(everyone[0])(*dict.fromkeys(fault for error in everyone for fault in error.messages))
        raise _agreed


def is_agreed(error: BaseException) -> bool:
    """Returns whether all ranks raise this error, so that it is enough if rank 0 prints it."""
    return error is _agreed


def largest(*numbers: int) -> list[int]:
    """Returns the largest of each number over the ranks."""
    if not several():
        return list(numbers)
    # In main memory, so that no GPU is waited for, and a rank that has died is noticed at once.
    over_all = torch.tensor(numbers, dtype=torch.int64)
    distributed.all_reduce(over_all, distributed.ReduceOp.MAX)
    return [int(number) for number in over_all.tolist()]


def gather(thing: Thing) -> list[Thing]:
    """Returns what each rank has, by rank."""
    if not several():
        return [thing]
    everyone: list[Any] = [None] * world()
    distributed.all_gather_object(everyone, thing)
    return everyone


def from_rank_zero(thing: Thing) -> Thing:
    """Returns rank 0's object on every rank."""
    if not several():
        return thing
    box: list[Any] = [thing]
    distributed.broadcast_object_list(box, src=0)
    shared: Thing = box[0]
    return shared


def wait_for_rank_zero() -> None:
    """Waits for rank 0, which itself does not fail if the others have gone."""
    try:
        from_rank_zero(None)
    except RuntimeError:
        if not is_rank_zero():
            raise


def total(number: Tensor) -> Tensor:
    """Returns the sum of a tensor over the ranks."""
    if not several():
        return number
    summed = number.clone()
    distributed.all_reduce(summed)
    return summed


def summed(local: Tensor) -> Tensor:
    """Returns the sum of a tensor over the ranks, with a gradient.

    A loss made of such sums is the same on every rank, and its gradient is that of one process with all rows once
    `DistributedDataParallel` has averaged it over the ranks.
    """
    if not several():
        return local
    over_all: Tensor = _SumOverRanks.apply(local)  # type: ignore[no-untyped-call]
    return over_all


class _SumOverRanks(torch.autograd.Function):
    """Sum over ranks; its gradient undoes the mean over ranks that `DistributedDataParallel` takes of gradients."""

    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        return total(local)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * world()


def offset_seed_by_rank() -> None:
    """Offsets the seed by the rank, so that dropout differs between ranks; rank 0 keeps its random numbers."""
    if rank():
        torch.manual_seed(torch.initial_seed() + rank())


def threads(processes: int) -> int:
    """Returns how many threads each of several processes on this machine may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // processes)


def lost(error: BaseException) -> bool:
    """Returns whether an error says that another rank has gone."""
    if isinstance(error, distributed.DistError):
        return True
    return isinstance(error, RuntimeError) and any(name in str(error).lower() for name in ("gloo", "nccl"))
