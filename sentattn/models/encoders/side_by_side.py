"""Two modules at the same time on a CPU, forwards and backwards.

The threads of a recurrent kernel wait for one another after each token, so a second thread adds little to a layer of
100 units, and less where other processes run. Two directions of a BiLSTM need each other's results only at the end:
each has half of the threads here. The results are those of one module after the other.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def side_by_side(modules: Sequence[nn.Module], inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Returns the first output of each of two modules, each of which takes one tensor."""
    here = [states.device.type == "cpu" for states in inputs]
    if torch.get_num_threads() == 1 or not all(here) or torch.compiler.is_compiling():
        first, second = (module(states)[0] for module, states in zip(modules, inputs, strict=True))
        return first, second
    parameters = [parameter for module in modules for parameter in module.parameters()]
    both: tuple[Tensor, Tensor] = SideBySide.apply(modules, torch.is_grad_enabled(), *inputs, *parameters)  # type: ignore[no-untyped-call]
    return both


class SideBySide(torch.autograd.Function):
    """Records a graph for each of two modules, and goes back through both at the same time."""

    @staticmethod
    def forward(ctx: Any, modules: Sequence[nn.Module], records: bool, *tensors: Tensor) -> tuple[Tensor, ...]:
        dtype, autocast = torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")

        def run(module: nn.Module, states: Tensor) -> tuple[Tensor, list[Tensor]]:
            with torch.set_grad_enabled(records), torch.autocast("cpu", dtype, autocast):  # of this thread
                states = states.detach().requires_grad_(records and states.requires_grad)
                return module(states)[0], [states, *module.parameters()]

        ctx.graphs = list(_threads(os.getpid(), torch.get_num_threads()).map(run, modules, tensors))
        return tuple(output.detach() for output, _ in ctx.graphs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        def run(graph: tuple[Tensor, list[Tensor]], gradient: Tensor) -> list[Tensor | None]:
            output, sources = graph
            wanted = [source for source in sources if source.requires_grad]
            found = iter(torch.autograd.grad(output, wanted, gradient))
            return [next(found) if source.requires_grad else None for source in sources]

        pool = _threads(os.getpid(), torch.get_num_threads())
        (first, *of_first), (second, *of_second) = pool.map(run, ctx.graphs, gradients)
        return None, None, first, second, *of_first, *of_second


@cache
def _threads(process: int, count: int) -> ThreadPoolExecutor:
    """Returns two threads of a process, each of which computes with half of `count` threads."""

    def start() -> None:
        torch.get_num_threads()  # the first call in a thread takes the number of the process
        torch.set_num_threads(count // 2)

    pool, both = ThreadPoolExecutor(2, initializer=start), Barrier(2)
    list(pool.map(lambda _: both.wait(), range(2)))
    torch.set_num_threads(count)  # of threads that start later
    return pool
