"""How this machine computes: threads, precision of products, numbers too small to be fast, compiled code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn


def set_up(settings: Mapping[str, Any]) -> None:
    """Prepares torch for a training, before it starts threads that would take over how it was before."""
    # Gradients that vanish over a long text end as denormal numbers, with which a CPU is many times slower.
    torch.set_flush_denormal(True)
    if settings["threads"] is not None:
        torch.set_num_threads(settings["threads"])
    torch.set_float32_matmul_precision(settings["matmul_precision"])


def compile_model(model: nn.Module) -> None:
    """Lets `torch.compile` translate a model at its first batches; names of weights stay as they are."""
    # Batches differ in length: one translation for all of them instead of one for each.
    model.compile(dynamic=True)
