"""The process of a training: torch's settings, quiet libraries, and the versions that are recorded with a result."""

from __future__ import annotations

import logging
import platform
import subprocess
import warnings
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("sentattn", "torch", "pytorch-lightning", "torchmetrics", "hydra-core", "tokenizers", "numpy", "wandb")
"""This package and the libraries that results depend on."""
IRRELEVANT = (
    r".*does not have many workers.*",  # batches are collated from a memory map faster than workers start
    r".*isinstance\(treespec, LeafSpec\).*",  # torch's deprecation, caused inside Lightning
    r".*The number of training batches .* is smaller than the logging interval.*",  # we log by epoch
    r".*Checkpoint directory .* exists and is not empty.*",  # our own new run directory
    r".*`trainer.fit` .*already .*",
    r".*It is recommended to use `self.log\(.*sync_dist=True.*",  # what is logged has been reduced
    r".*`broadcast_buffers` is deprecated.*",  # its new name came with torch 2.13
)
"""Warnings of libraries that are of no use to the user."""


def quiet_libraries() -> None:
    """Hides what libraries print for their developers: all but errors, and warnings that the user can act on."""
    for name in ("pytorch_lightning", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for message in IRRELEVANT:
        warnings.filterwarnings("ignore", message=message)


def set_up_torch(settings: Mapping[str, Any]) -> None:
    """Sets torch's threads and precision, before it starts threads that would inherit the defaults."""
    # Gradients that vanish over a long text end as denormal numbers, with which a CPU is many times slower.
    torch.set_flush_denormal(True)
    if settings["threads"] is not None:
        torch.set_num_threads(settings["threads"])
    torch.set_float32_matmul_precision(settings["matmul_precision"])


def versions() -> dict[str, str]:
    """Returns the versions of Python, of this package and of the libraries that results depend on."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


def git_revision() -> str | None:
    """Returns the commit of the code, with `+` where it was changed since; None outside its repository."""
    folder = Path(__file__).parent
    commit = _git(folder, "rev-parse", "HEAD")
    tracked = _git(folder, "ls-files", "--error-unmatch", Path(__file__).name)
    if not commit or not tracked:
        return None
    return commit + ("+" if _git(folder, "status", "--porcelain", "--untracked-files=no", ":/") else "")


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
