"""Memory that runs out, and how much there was of it."""

from __future__ import annotations

import pytest
import torch

from sentattn.errors import TrainingError
from sentattn.training.forecast.memory import peak_bytes, reset_peak, told, told_when_short

CPU = torch.device("cpu")
CUDA_SAYS = (
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which 3.06 MiB is "
    "free. Including non-PyTorch memory, this process has 79.1 GiB memory in use."
)


def test_main_memory_that_runs_out_is_told_with_what_to_do() -> None:
    with (
        pytest.raises(TrainingError, match=r"The memory of this machine is not enough .*data\.batch_size"),
        told_when_short(),
    ):
        torch.empty(1 << 56, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("message", "where"), [(CUDA_SAYS, r"of GPU 1 \(79\.15 GiB\)"), ("HIP out of memory", "of the GPU")]
)
def test_a_gpus_memory_that_runs_out_is_told(message: str, where: str) -> None:
    with pytest.raises(TrainingError, match=f"The memory {where} is not enough"), told_when_short():
        raise torch.OutOfMemoryError(message)


def test_another_fault_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="shapes"), told_when_short():
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")


def test_the_peak_is_that_of_what_was_done_since() -> None:
    size = 200_000_000
    reset_peak(CPU)
    before = peak_bytes(CPU)
    torch.ones(size, dtype=torch.uint8)
    after = peak_bytes(CPU)
    assert 0.9 * size < after - before < 1.5 * size


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1500, "2 kB"), (33e6, "33 MB"), (1.26e9, "1.3 GB"), (4.2e12, "4,200 GB")],
)
def test_sizes_for_people(size: float, text: str) -> None:
    assert told(size) == text
