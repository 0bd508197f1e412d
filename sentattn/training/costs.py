"""What a model costs: parameters, memory, time."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from typing import TYPE_CHECKING

import torch
from torch import nn

from sentattn.data.batching import Batch

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData

WARM_UP, REPEATS = 3, 15


def parameters(model: nn.Module) -> dict[str, int]:
    """Returns the number of parameters, `total` and `trainable`."""
    sizes = [(p.numel(), p.requires_grad) for p in model.parameters()]
    return {"total": sum(n for n, _ in sizes), "trainable": sum(n for n, grad in sizes if grad)}


def peak_memory_bytes() -> int:
    """Returns the peak of the GPU's memory in use where one was used, else of the process."""
    if torch.cuda.is_available() and (peak := torch.cuda.max_memory_allocated()):
        return peak
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def latency_ms(model: nn.Module, data: TextData) -> dict[str, float]:
    """Returns median milliseconds of the forward pass, for `one` validation row and for a `batch`, of median length."""
    batches = list(data.batches("val"))
    batch: Batch = batches[len(batches) // 2]
    alone = Batch(*(tensor[:1] for tensor in batch))
    model.eval()
    return {"one": _median_ms(model, alone), "batch": _median_ms(model, batch)}


@torch.inference_mode()
def _median_ms(model: nn.Module, batch: Batch) -> float:
    device = next(model.parameters()).device
    tokens_BL, mask_BL = batch.tokens_BL.to(device), batch.mask_BL.to(device)
    times = []
    for _ in range(WARM_UP + REPEATS):
        started = time.perf_counter()
        model(tokens_BL, mask_BL)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times[WARM_UP:])
