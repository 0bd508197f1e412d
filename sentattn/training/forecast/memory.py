"""Memory: what a training step takes of it, and the sentence for when there is too little."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from sentattn.errors import TrainingError
from sentattn.training import costs

PEAK, PEAK_SINCE = "/proc/self/status", "/proc/self/clear_refs"
"""Where Linux tells a process its peak, and where it starts to take it anew."""


@contextmanager
def told_when_short() -> Iterator[None]:
    """Makes a sentence of what torch says when memory runs out.

    Raises:
        TrainingError: With what can be done.
    """
    try:
        yield
    except RuntimeError as error:  # torch.OutOfMemoryError is one, and on a CPU there is no class of its own
        wanted = _wanted(error)
        if wanted is None:
            raise
        raise TrainingError(
            f"The memory {wanted} is not enough for a batch: take fewer texts at once (data.batch_size, and "
            "trainer.accumulate_grad_batches for the same step), shorter ones (data.max_length), or "
            "trainer.precision=bf16-mixed."
        ) from error


def _wanted(error: RuntimeError) -> str | None:
    """Which memory was too small, or None where it is another fault."""
    if isinstance(error, torch.OutOfMemoryError):
        found = re.search(r"GPU (\d+) has a total capacity of ([\d.]+ \w+)", str(error))
        return f"of GPU {found[1]} ({found[2]})" if found else "of the GPU"
    if "DefaultCPUAllocator: not enough memory" in str(error) or "can't allocate memory" in str(error):
        return "of this machine"
    return None


def reset_peak(device: torch.device) -> None:
    """Lets the peak begin anew, where that can be."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    try:
        Path(PEAK_SINCE).write_text("5")
    except OSError:  # another system than Linux, or one that does not let us: the peak is that since the start
        return


def peak_bytes(device: torch.device) -> int:
    """Returns the peak since `reset_peak`: of the GPU's memory, or else of the whole process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(PEAK).read_text())
    except OSError:
        found = None
    return 1024 * int(found[1]) if found else costs.peak_memory_bytes() or 0


def told(size: float) -> str:
    """Returns a number of bytes for people."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB" if size < 100 else f"{size:,.0f} GB"
