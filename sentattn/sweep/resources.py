"""Where trials run: GPUs, shares or groups of them, or cores of the processor. Finding out does not touch CUDA."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sentattn.errors import Fault, SettingError

PATIENCE = 30.0
"""Seconds after which `nvidia-smi` is given up."""
VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Slot:
    """A place for one trial at a time.

    Attributes:
        name: As it is shown.
        gpus: Those of its own, as `CUDA_VISIBLE_DEVICES` names them; none is the processor.
        threads: Threads of a trial.
    """

    name: str
    gpus: tuple[str, ...]
    threads: int

    def environment(self) -> dict[str, str]:
        """Returns the variables of a trial's process. They also hold for processes that it starts."""
        threads = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        # nvidia-smi counts GPUs by their place in the machine, CUDA by their speed by default.
        order = {} if VISIBLE in os.environ else {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        return {**threads, **order, VISIBLE: ",".join(self.gpus)}


@dataclass(frozen=True)
class SlotRequest:
    """What slots were asked for.

    Attributes:
        accelerator: As `trainer.accelerator`.
        slots: Trials at once; None takes as many as there are places.
        slots_per_gpu: Trials that share a GPU.
        gpus_per_trial: GPUs that a trial takes together.
        threads: Threads of a trial on the processor; None divides the cores among the slots.
        trials: The most that could run at once.
    """

    accelerator: str = "auto"
    slots: int | None = None
    slots_per_gpu: int = 1
    gpus_per_trial: int = 1
    threads: int | None = None
    trials: int | None = None


def find(request: SlotRequest) -> list[Slot]:
    """Returns the slots there are for what was asked.

    Raises:
        SettingError: If there are not as many.
    """
    if request.slots_per_gpu > 1 and request.gpus_per_trial > 1:
        message = (
            f"slots_per_gpu={request.slots_per_gpu} and gpus_per_trial={request.gpus_per_trial} cannot stand together: "
            "trials share a GPU, or a trial takes several."
        )
        raise SettingError(Fault("slots_per_gpu", "conflict", message))
    gpus = visible() if request.accelerator in ("auto", "gpu", "cuda") else []
    if not gpus and request.accelerator in ("gpu", "cuda"):
        message = (
            f"trainer.accelerator={request.accelerator}: no GPU is found here ({_searched()}); "
            "type trainer.accelerator=cpu, or mend what nvidia-smi says."
        )
        raise SettingError(Fault("trainer.accelerator", "resources", message))
    return _on_gpus(gpus, request) if gpus else _on_processor(request)


def description(slots: Sequence[Slot], request: SlotRequest) -> str:
    """Returns the line that describes the slots."""
    threads = f"{slots[0].threads} thread{'s' if slots[0].threads > 1 else ''} each"
    several = "slots" if len(slots) > 1 else "slot"
    names = ", ".join(slot.name for slot in slots) if len(slots) <= 8 else f"{slots[0].name} to {slots[-1].name}"
    line = f"{len(slots)} {several}: {names}; {threads}."
    if not slots[0].gpus and (busy := slots[0].threads * len(slots)) > cores():
        line += f" That is {busy} threads on {cores()} cores: slots={cores() // slots[0].threads or 1} may be faster."
    if slots[0].gpus and request.slots is None and (left := len(visible()) % request.gpus_per_trial):
        line += f" {left} of {len(visible())} GPUs {'is' if left == 1 else 'are'} left over."
    return line


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def visible() -> list[str]:
    """Returns the GPUs that trials may use, as `CUDA_VISIBLE_DEVICES` names them.

    Raises:
        SettingError: If that variable names one that is not there.
    """
    gpus = _gpus()
    named = os.environ.get(VISIBLE)
    if named is None:
        return [index for index, _ in gpus]
    entries = [entry.strip() for entry in named.split(",") if entry.strip()]
    if "-1" in entries:  # CUDA sees none of those that follow
        entries = entries[: entries.index("-1")]
    missing = [entry for entry in entries if gpus and not entry.startswith("MIG-") and not _is_among(entry, gpus)]
    if missing:
        message = (
            f"{VISIBLE}={named} names GPU {' and '.join(missing)}, which is not there: nvidia-smi finds "
            f"{', '.join(index for index, _ in gpus)}."
        )
        raise SettingError(Fault(VISIBLE, "not_found", message))
    return entries


def _on_gpus(gpus: Sequence[str], request: SlotRequest) -> list[Slot]:
    if request.gpus_per_trial > len(gpus):
        message = (
            f"gpus_per_trial={request.gpus_per_trial}: there {_count(len(gpus))} here; "
            f"type gpus_per_trial={len(gpus)} or less."
        )
        raise SettingError(Fault("gpus_per_trial", "resources", message))
    if request.gpus_per_trial > 1:
        places = list(_groups(gpus, request.gpus_per_trial))
    else:
        places = list(_shares(gpus, max(request.slots_per_gpu, math.ceil((request.slots or 1) / len(gpus)))))
    if request.slots is not None and request.slots > len(places):
        message = (
            f"slots={request.slots} with gpus_per_trial={request.gpus_per_trial}: there {_count(len(gpus))} here; "
            f"type slots={len(places)} or less."
        )
        raise SettingError(Fault("slots", "resources", message))
    places = places[: min(request.slots or len(places), request.trials or len(places))]
    threads = request.threads or max(1, cores() // len(places))
    return [Slot(name, group, threads) for name, group in places]


def _groups(gpus: Sequence[str], size: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    for first in range(0, len(gpus) - size + 1, size):
        group = tuple(gpus[first : first + size])
        yield f"GPUs {'+'.join(group)}", group


def _shares(gpus: Sequence[str], shares: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """All GPUs have one trial before any has two."""
    for share in range(1, shares + 1):
        for gpu in gpus:
            yield f"GPU {gpu}" + (f", share {share}" if shares > 1 else ""), (gpu,)


def _on_processor(request: SlotRequest) -> list[Slot]:
    for key in ("slots_per_gpu", "gpus_per_trial"):
        if getattr(request, key) > 1:
            message = (
                f"{key}={getattr(request, key)} needs GPUs, and there are none for trainer.accelerator="
                f"{request.accelerator} ({_searched()}); leave {key} out."
            )
            raise SettingError(Fault(key, "resources", message))
    if request.accelerator in ("mps", "tpu"):
        return [Slot(request.accelerator.upper(), (), request.threads or cores())]
    slots = request.slots or max(1, cores() // (request.threads or 1))
    slots = min(slots, request.trials or slots)
    threads = request.threads or max(1, cores() // slots)
    return [Slot(f"CPU {number}" if slots > 1 else "CPU", (), threads) for number in range(1, slots + 1)]


def _gpus() -> list[tuple[str, str]]:
    """Index and identifier of each GPU that `nvidia-smi` finds; none where there is no `nvidia-smi`."""
    command = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(",") for line in said.splitlines() if "," in line]
    return [(index.strip(), uuid.strip()) for index, uuid, *_ in rows]


def _is_among(entry: str, gpus: Sequence[tuple[str, str]]) -> bool:
    return any(entry == index or (entry.startswith("GPU-") and uuid.startswith(entry)) for index, uuid in gpus)


def _count(gpus: int) -> str:
    return "is 1 GPU" if gpus == 1 else f"are {gpus} GPUs"


def _searched() -> str:
    named = os.environ.get(VISIBLE)
    return "nvidia-smi lists none" if named is None else f"{VISIBLE}={named!r}"
