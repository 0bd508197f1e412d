"""Measures peak memory of a training step of `relation` by length, and of the form that concatenates all pairs.

Each value is from a fresh process: the resident memory that the step adds, and its seconds. The naive form is left out
where its concatenated pairs alone would take more than 1 GiB.

usage: python benchmarks/relation_memory.py [lengths ...]
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from sentattn.models.attention.relation import Relation

BATCH, DIM = 8, 100
KIBIBYTE, MEBIBYTE, GIBIBYTE = 2**10, 2**20, 2**30
LENGTHS = (64, 128, 256, 512, 1024)


def naive(module: Relation, states_BLD: Tensor) -> Tensor:
    """Returns the values by the formula as written, for texts without padding."""
    assert module.score_pair is not None
    assert module.score_out is not None
    batch, length, dim = states_BLD.shape
    first = states_BLD[:, :, None].expand(batch, length, length, dim)
    pairs = torch.cat([first, first.transpose(1, 2)], dim=3)
    weights = module.score_out(torch.tanh(module.score_pair(pairs))).softmax(dim=2)
    features = nn.functional.relu(module.feature_out(nn.functional.relu(module.feature_pair(pairs))))
    return (weights * features).sum(dim=2).mean(dim=1)


def sliced(module: Relation, states_BLD: Tensor) -> Tensor:
    """Returns the values as the package computes them."""
    mask_BL = torch.ones(states_BLD.shape[:2], dtype=torch.bool)
    return module(states_BLD, mask_BL).values_BRD[:, 0]


FORMS: dict[str, Callable[[Relation, Tensor], Tensor]] = {"naive": naive, "sliced": sliced}


def step(form: str, length: int) -> Tensor:
    """Runs one forward and backward pass; returns the gradient of the states."""
    torch.manual_seed(0)
    module = Relation(dim=DIM)
    states_BLD = torch.randn(BATCH, length, DIM, requires_grad=True)
    FORMS[form](module, states_BLD).square().sum().backward()
    assert states_BLD.grad is not None
    return states_BLD.grad


def measure(form: str, length: int) -> tuple[int, float]:
    """Returns bytes and seconds of a step."""
    step(form, 2)
    ballast = torch.ones(GIBIBYTE // 16)  # raises the memory in use to the peak so far, that of the imports
    before, started = _peak(), time.perf_counter()
    step(form, length)
    used, seconds = _peak() - before, time.perf_counter() - started
    del ballast
    return used, seconds


def main(lengths: tuple[int, ...]) -> None:
    """Prints a line for each length."""
    torch.testing.assert_close(step("sliced", 20), step("naive", 20))
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {BATCH} texts, {DIM} channels")
    context = multiprocessing.get_context("spawn")
    for length in lengths:
        columns = []
        for form in FORMS:
            if form == "naive" and BATCH * length**2 * 2 * DIM * 4 > GIBIBYTE:
                continue
            with context.Pool(1) as fresh:
                used, seconds = fresh.apply(measure, (form, length))
            columns.append(f"{form} {used / MEBIBYTE:6.0f} MiB {seconds:6.2f} s")
        print(f"{length:5} tokens   " + "   ".join(columns))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBIBYTE


if __name__ == "__main__":
    main(tuple(int(argument) for argument in sys.argv[1:]) or LENGTHS)
