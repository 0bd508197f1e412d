"""Whether a model fits into the memory there is, found out before it is built."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from sentattn.errors import Fault, TrainingError
from sentattn.models.classifier import TextClassifier

Settings = Mapping[str, Any]

THIS_MACHINE = "this machine"
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
BYTES = {"bf16-true": 2, "16-true": 2, "64-true": 8}
"""Of a parameter, by `trainer.precision`; 4 otherwise."""


def require_memory(settings: Settings, model: TextClassifier, *, rows: int = 0, tokens: int = 0) -> None:
    """Refuses a model that cannot fit, before a system without memory stops answering.

    Args:
        settings: The resolved settings.
        model: The model, which may be on torch's meta device.
        rows: Rows of the largest batch of a process, where they are known.
        tokens: Tokens of its longest row.

    Raises:
        TrainingError: If what is needed at least is more than the whole memory.
    """
    precision = str(settings["trainer"].get("precision"))
    size = BYTES.get(precision, 4)
    copies = 2 if settings["ema_decay"] is None else 3  # weights and gradients, and the average of the weights
    number = sum(parameter.numel() for parameter in model.parameters())
    attention = model.attention
    activations = rows * attention.hops * (attention.out_dim + tokens) * (2 if "16" in precision else size)
    needed = copies * size * number + activations
    memory, name = total_memory(settings["trainer"]["accelerator"])
    if memory is not None and needed > memory:
        message = (
            f"The model needs at least {format_bytes(needed)} of memory for its {number:,} parameters and a batch, and "
            f"{name} has {format_bytes(memory)}: lower model.attention.hops (now {attention.hops}) or other sizes in "
            "model.*, data.batch_size or data.max_length."
        )
        raise TrainingError(Fault("model", "resources", message))


def total_memory(accelerator: str) -> tuple[int | None, str]:
    """Returns the size of the memory that a training uses, None where the system does not say it, and whose it is."""
    if accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available():
        return torch.cuda.get_device_properties(0).total_memory, torch.cuda.get_device_name(0)
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not POSIX
        return None, THIS_MACHINE
    with suppress(OSError, ValueError):  # no control group, or one without a limit
        physical = min(physical, int(CGROUP_LIMIT.read_text()))
    return physical, THIS_MACHINE


def format_bytes(size: float) -> str:
    """Returns a number of bytes for people."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB" if size < 100 else f"{size:,.0f} GB"
