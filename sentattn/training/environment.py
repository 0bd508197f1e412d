"""The machine of a training: torch's settings, memory, the time of a forward pass, and versions that are recorded."""

from __future__ import annotations

import ctypes
import logging
import platform
import resource
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from lightning_fabric.utilities.warnings import PossibleUserWarning

from sentattn.config.parameters import source
from sentattn.config.targets import is_own, targets_in
from sentattn.config.types import Node
from sentattn.data.batching import Batch
from sentattn.errors import Fault, TrainingError
from sentattn.models.classifier import TextClassifier

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData

PACKAGES = ("sentattn", "torch", "pytorch-lightning", "hydra-core", "tokenizers", "numpy", "wandb")
"""This package and the libraries that results depend on."""
SOURCES = "sources"
"""The folder of a run with the files of classes of one's own."""
DEPRECATIONS = (
    r".*isinstance\(treespec, LeafSpec\).*",  # of torch, in Lightning
    r".*`broadcast_buffers` is deprecated.*",  # of torch from 2.13 on, which has it under a new name
)
"""Warnings about calls that the lowest supported version of a library needs."""
LONGEST_BATCH = 2.0
"""Seconds of a batch, as one row foretells them, above which fewer rows are timed, and their time is scaled up."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of malloc.h."""
HEAP_BLOCK, HEAP_KEPT = 32 * 2**20, 512 * 2**20
"""Blocks up to 32 MiB come from the heap, as glibc has it at most; larger ones would leave gaps there."""


def quiet_libraries() -> None:
    """Hides what libraries print for their developers: all but errors, and warnings that the user can act on."""
    for name in ("pytorch_lightning", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger("pytorch_lightning.profilers").setLevel(logging.INFO)  # what trainer.profiler asks for
    warnings.simplefilter("ignore", category=PossibleUserWarning)  # Lightning's guesses, such as too few workers
    for message in DEPRECATIONS:
        warnings.filterwarnings("ignore", message=message)


def set_up_torch(settings: Node) -> None:
    """Sets torch's threads and precision, before it starts threads that would inherit the defaults."""
    # Gradients that vanish over a long text end as denormal numbers, with which a CPU is many times slower.
    torch.set_flush_denormal(True)
    if settings["threads"] is not None:
        torch.set_num_threads(settings["threads"])
    torch.set_float32_matmul_precision(settings["matmul_precision"])
    # cuDNN's LSTMs and convolutions have a switch of their own, which is on by default.
    torch.backends.cudnn.allow_tf32 = settings["matmul_precision"] != "highest"
    keep_freed_memory()


def keep_freed_memory() -> None:
    """Lets glibc keep freed memory for the next tensors: every step would otherwise wait for new pages (mallopt(3))."""
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):  # other libraries lack it
        mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK)
        mallopt(M_TRIM_THRESHOLD, HEAP_KEPT)


def versions() -> dict[str, str]:
    """Returns the versions of Python, of this package and of the libraries that results depend on."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return installed


def git_revision(folder: Path | None = None) -> str | None:
    """Returns the commit of the repository of a folder, with `+` where it was changed; None where there is none.

    Args:
        folder: The folder; None for that of sentattn's code, which must be part of the repository.
    """

    def git(command: str) -> str:
        words = ["git", "-C", str(folder or Path(__file__).parent), *command.split()]
        return subprocess.run(words, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    with suppress(OSError, subprocess.SubprocessError):
        if folder is None:
            git("ls-files --error-unmatch environment.py")
        return git("describe --always --exclude=* --abbrev=40 --dirty=+")
    return None


def copy_sources(settings: Node, run: Path) -> None:
    """Copies the files of classes of one's own into the folder `sources` of a run, by the names of their modules."""
    for target in {target for _, target in targets_in(settings) if is_own(target)}:
        if text := source(target):
            copy = Path(run, SOURCES, *target.split(".")[:-1]).with_suffix(".py")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(text)


def latency_ms(model: TextClassifier, data: TextData, device: torch.device) -> dict[str, float]:
    """Returns median milliseconds of the forward pass, for `one` validation row and for a `batch`, of median length.

    Of a batch that would take longer than `LONGEST_BATCH`, as many rows as fit are timed, and their time is scaled up.
    The model is moved to the device, which should be that of the training: Lightning has moved it to the CPU.
    """
    orders = list(data.batches("val").sampler)
    batch: Batch = data.split("val")[orders[len(orders) // 2]]
    model.to(device).eval()
    rows, one = len(batch.labels_B), _median_ms(model, batch.take(slice(1)), device)
    timed = min(rows, max(1, int(1000 * LONGEST_BATCH / one)))
    return {"one": one, "batch": _median_ms(model, batch.take(slice(timed)), device) * rows / timed}


@torch.inference_mode()
def _median_ms(model: TextClassifier, batch: Batch, device: torch.device) -> float:
    from torch.utils.benchmark import Timer  # which takes a tenth of a second to import

    tokens_BL, mask_BL = batch.tokens_BL.to(device), batch.mask_BL.to(device)
    values = {"model": model, "tokens_BL": tokens_BL, "mask_BL": mask_BL}
    # It leaves out the first pass, which may compile the model or load kernels, for seconds.
    timer = Timer("model(tokens_BL, mask_BL)", globals=values, num_threads=torch.get_num_threads())
    return 1000 * timer.blocked_autorange(min_run_time=0.05).median


def peak_memory_bytes() -> int:
    """Returns the most memory in use so far: that of the GPU since its training began, or else of this process."""
    if torch.cuda.is_available() and (peak := torch.cuda.max_memory_allocated()):
        return peak
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextmanager
def explained_torch_errors() -> Iterator[None]:
    """Turns torch's errors when memory runs out, or a processor has no LSTM in bfloat16, into one that names a setting.

    Raises:
        TrainingError: Of kind `resources`.
    """
    try:
        yield
    except RuntimeError as error:  # torch has no class for main memory, and none for a missing operation
        on_gpu = isinstance(error, torch.OutOfMemoryError)
        if on_gpu or "DefaultCPUAllocator" in str(error):
            key = "data.batch_size"
            message = (
                f"The memory of {'the GPU' if on_gpu else 'this machine'} is too small for a batch: lower "
                "data.batch_size (and raise trainer.accumulate_grad_batches for the same step) or data.max_length, or "
                "type trainer.precision=bf16-mixed."
            )
        elif "primitive descriptor for the LSTM" in str(error):
            key = "trainer.precision"
            message = "This processor has no LSTM in bfloat16: type trainer.precision=32-true."
        else:
            raise
        raise TrainingError(Fault(key, "resources", message)) from error
