"""The numbers that a training computes with, on the device that it uses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

Settings = Mapping[str, Any]

AUTO, SINGLE, MIXED = "auto", "32-true", "bf16-mixed"
"""Values of `trainer.precision`."""


def resolve_precision(settings: Settings) -> Settings:
    """Returns settings with what `trainer.precision=auto` is on the device that they train on.

    It is `bf16-mixed` on a GPU that computes in bfloat16, and `32-true` elsewhere. As it changes results, it is
    resolved before a setting is hashed or stored.
    """
    trainer = settings["trainer"]
    if trainer.get("precision") != AUTO:
        return settings
    devices = trainer["devices"]
    index = devices[0] if isinstance(devices, list) else 0
    precision = MIXED if is_on_gpu(trainer) and gpu_has_bfloat16(index) else SINGLE
    return {**settings, "trainer": {**trainer, "precision": precision}}


def is_on_gpu(trainer: Settings) -> bool:
    """Returns whether a training uses CUDA."""
    if trainer["accelerator"] not in ("auto", "gpu", "cuda"):
        return False
    import torch

    return torch.cuda.is_available()


@cache
def gpu_has_bfloat16(index: int) -> bool:
    """Returns whether a GPU has arithmetic in bfloat16.

    Unless this process uses CUDA already, another process finds out: a scheduler of trainings that initialized CUDA
    would hold memory of a GPU, or the whole GPU where it admits one process.
    """
    import torch

    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch has no types for it
        return torch.version.hip is not None or torch.cuda.get_device_properties(index).major >= 8
    code = f"import torch, {__name__} as p; torch.cuda.init(); print(p.gpu_has_bfloat16({index}))"
    return subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout.strip() == b"True"
