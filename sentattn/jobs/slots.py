"""Where jobs run: GPUs, shares or groups of them, or cores of the processor. Finding out does not initialize CUDA."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sentattn.config.types import Count, Node, as_typed
from sentattn.console import plural
from sentattn.distributed.devices import GPU_ACCELERATORS, cores
from sentattn.errors import Fault, SettingError

DRIVER = Path("/dev")
"""Where Linux has a file `nvidia0`, `nvidia1`, ... for each GPU."""
VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, kw_only=True)
class SlotOptions:
    """How many jobs run at once, and on what; `threads` is the CPU threads of each."""

    slots: Count | None = None
    slots_per_gpu: Count = 1
    gpus_per_trial: Count = 1
    threads: Count | None = None


@dataclass(frozen=True)
class Slot:
    """A place for one job at a time.

    Attributes:
        gpus: As in `CUDA_VISIBLE_DEVICES`; none is the processor.
        num_gpus: On a Ray cluster, which chooses them, their number, and may be a fraction.
    """

    name: str
    gpus: tuple[str, ...]
    threads: int
    num_gpus: float = 0

    def environment(self) -> dict[str, str]:
        """Returns the variables of a job's process. They also hold for processes that it starts."""
        threads = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        return threads if self.num_gpus else {**threads, VISIBLE: ",".join(self.gpus)}


def find_slots(options: SlotOptions, accelerator: str = "auto", jobs: int | None = None) -> list[Slot]:
    """Returns the slots that this machine has, no more than there are jobs.

    Raises:
        SettingError: If there are not as many.
    """
    import torch

    shares, group = options.slots_per_gpu, options.gpus_per_trial
    gpus = visible_gpus() if accelerator in GPU_ACCELERATORS else []
    require_gpus(options, accelerator, len(gpus), f"trainer.accelerator={accelerator} has none on this machine")
    if not gpus:
        if accelerator == "tpu" or (accelerator != "cpu" and torch.backends.mps.is_available()):
            return [Slot("TPU" if accelerator == "tpu" else "MPS", (), options.threads or cores())]
        count = options.slots or max(1, cores() // (options.threads or 1))
        count = min(count, jobs or count)
        threads = options.threads or max(1, cores() // count)
        return [Slot(f"CPU {number}" if count > 1 else "CPU", (), threads) for number in range(1, count + 1)]
    if group > 1:
        places = [tuple(gpus[first : first + group]) for first in range(0, len(gpus) - group + 1, group)]
    else:  # all GPUs have one job before any has two
        shares = max(shares, math.ceil((options.slots or 1) / len(gpus)))
        places = [(gpu,) for _ in range(shares) for gpu in gpus]
    if len(places) < (slots := options.slots or 1):
        reason = f"{group} with slots={slots} needs {slots * group} GPUs, and this process may use {len(gpus)}."
        raise SettingError(Fault("gpus_per_trial", "resources", f"gpus_per_trial={reason}"))
    places = places[: min(options.slots or len(places), jobs or len(places))]
    threads = options.threads or max(1, cores() // len(places))
    names = [f"GPU{'s' if group > 1 else ''} {'+'.join(place)}" for place in places]
    if shares > 1:
        names = [f"{name}, share {index // len(gpus) + 1}" for index, name in enumerate(names)]
    return [Slot(name, place, threads) for name, place in zip(names, places, strict=True)]


def require_gpus(options: SlotOptions, accelerator: str, gpus: int, place: str) -> None:
    """Raises SettingError if settings of GPUs contradict each other, or need GPUs, of which `place` has none."""
    shares, group = options.slots_per_gpu, options.gpus_per_trial
    if shares > 1 and group > 1:
        message = f"slots_per_gpu={shares} has no effect with gpus_per_trial={group}."
        raise SettingError(Fault("slots_per_gpu", "conflict", message))
    needs = {"slots_per_gpu": shares, "gpus_per_trial": group, "trainer.accelerator": accelerator}
    if not gpus and (
        key := next((key for key, value in needs.items() if value not in (1, "auto", "cpu", "mps", "tpu")), "")
    ):
        raise SettingError(Fault(key, "resources", f"{key}={needs[key]} needs GPUs; {place}."))


def require_one_device(trainer: Node, where: str, advice: str) -> None:
    """Refuses the trainer's settings of several devices with a `SettingError`."""
    for key, only in (("devices", 1), ("num_nodes", 1), ("strategy", "auto")):
        if (value := trainer.get(key, only)) != only:
            message = f"trainer.{key}={as_typed(value)} cannot be used {where}: devices are those of a slot; {advice}."
            raise SettingError(Fault(f"trainer.{key}", "unsupported", message))


def visible_gpus() -> list[str]:
    """Returns the GPUs that jobs may use, as `CUDA_VISIBLE_DEVICES` names them, which also names MIG instances.

    Raises:
        SettingError: If that variable names another number of GPUs than torch finds, or torch finds none of those that
            a driver has.
    """
    import torch

    count, named = torch.cuda.device_count(), os.environ.get(VISIBLE)
    if named is not None:
        gpus = [entry.strip() for entry in named.split(",") if entry.strip()]
        gpus = gpus[: gpus.index("-1")] if "-1" in gpus else gpus  # CUDA sees none of those that follow
        if len(gpus) != count:
            message = f"{VISIBLE}={named} names {plural(len(gpus), 'GPU')}, but torch finds {count}."
            raise SettingError(Fault(VISIBLE, "not_found", message))
        return gpus
    if not count and any(DRIVER.glob("nvidia[0-9]*")):
        advice = "Repair the driver, install torch with CUDA, or type trainer.accelerator=cpu."
        message = f"This machine has NVIDIA GPUs ({DRIVER}/nvidia*), but torch finds none. {advice}"
        raise SettingError(Fault("trainer.accelerator", "resources", message))
    return [str(index) for index in range(count)]


def slots_line(slots: Sequence[Slot]) -> str:
    """Returns the line on how many slots there are, their names and threads."""
    names = ", ".join(slot.name for slot in slots) if len(slots) <= 8 else f"{slots[0].name} to {slots[-1].name}"
    return f"{plural(len(slots), 'slot')}: {names}; {plural(slots[0].threads, 'thread')} each"
