"""What a model costs: parameters, memory, latency; and the error where memory runs out."""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from sentattn.data.batching import Batch
from sentattn.errors import Fault, TrainingError

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData

WARM_UP, REPEATS = 3, 15
STATUS, CLEAR_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")
"""Where Linux shows the peak memory of this process, and where it is reset (proc_pid_clear_refs(5))."""


def parameters(model: nn.Module) -> dict[str, int]:
    """Returns the number of parameters, `total` and `trainable`."""
    sizes = [(p.numel(), p.requires_grad) for p in model.parameters()]
    return {"total": sum(n for n, _ in sizes), "trainable": sum(n for n, grad in sizes if grad)}


def reset_peak_memory() -> None:
    """Resets the peak that `peak_memory_bytes` returns, where the system allows it."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch has no types for it
        for device in range(torch.cuda.device_count()):
            torch.cuda.reset_peak_memory_stats(device)
    try:
        CLEAR_PEAK.write_text("5")
    except OSError:  # not Linux, or a container without the permission: the peak is that since the process started
        return


def peak_memory_bytes() -> int | None:
    """Returns the peak since the last reset: of the GPU's memory where one was used, else of the process.

    None where the system does not measure it.
    """
    if torch.cuda.is_available() and (peak := torch.cuda.max_memory_allocated()):
        return peak
    try:
        if found := re.search(r"VmHWM:\s+(\d+) kB", STATUS.read_text()):
            return 1024 * int(found[1])
    except OSError:  # not Linux
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


@contextmanager
def explained_out_of_memory() -> Iterator[None]:
    """Turns torch's error where memory runs out into one that says what to do.

    Raises:
        TrainingError: Of kind `resources`.
    """
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            memory = "of the GPU"
        elif "DefaultCPUAllocator" in str(error):  # torch has no class for main memory
            memory = "of this machine"
        else:
            raise
        message = (
            f"The memory {memory} is not enough for a batch: take fewer texts at once (data.batch_size, and "
            "trainer.accumulate_grad_batches for the same step), shorter ones (data.max_length), or "
            "trainer.precision=bf16-mixed."
        )
        raise TrainingError(Fault("data.batch_size", "resources", message)) from error


def latency_ms(model: nn.Module, data: TextData) -> dict[str, float]:
    """Returns median milliseconds of the forward pass, for `one` validation row and for a `batch`, of median length."""
    batches = list(data.batches("val"))
    batch: Batch = batches[len(batches) // 2]
    first_row = Batch(*(tensor[:1] for tensor in batch))
    model.eval()
    return {"one": _median_ms(model, first_row), "batch": _median_ms(model, batch)}


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
