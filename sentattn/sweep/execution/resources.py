"""Where trials run: GPUs, shares or groups of them, or cores of the processor. Finding out does not touch CUDA."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sentattn.console import plural
from sentattn.distributed.devices import cores
from sentattn.errors import Fault, SettingError

DEVICES = Path("/dev")
"""Where Linux has a file `nvidia0`, `nvidia1`, ... for each GPU."""
VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Slot:
    """A place for one trial at a time; `gpus` are named as in `CUDA_VISIBLE_DEVICES`, and none is the processor."""

    name: str
    gpus: tuple[str, ...]
    threads: int

    def environment(self) -> dict[str, str]:
        """Returns the variables of a trial's process. They also hold for processes that it starts."""
        threads = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        # NVML counts GPUs by their place in the machine, CUDA by their speed by default.
        order = {} if VISIBLE in os.environ else {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        return {**threads, **order, VISIBLE: ",".join(self.gpus)}


@dataclass(frozen=True)
class SlotRequest:
    """The settings of slots as in `Plan`, the trainer's accelerator, and how many trials all studies have."""

    accelerator: str = "auto"
    slots: int | None = None
    slots_per_gpu: int = 1
    gpus_per_trial: int = 1
    threads: int | None = None
    trials: int | None = None


def require_gpus(request: SlotRequest, gpus: int, *, is_needed: bool, place: str) -> None:
    """Raises SettingError if settings of GPUs contradict each other, or need GPUs where there are none.

    Args:
        request: The settings.
        gpus: How many GPUs there are.
        is_needed: Whether the accelerator needs them.
        place: What has none, for the message.
    """
    shares, group = request.slots_per_gpu, request.gpus_per_trial
    if shares > 1 and group > 1:
        raise _error("slots_per_gpu", "conflict", f"{shares} has no effect with gpus_per_trial={group}.")
    needs = {"slots_per_gpu": shares > 1, "gpus_per_trial": group > 1, "trainer.accelerator": is_needed}
    if not gpus and (key := next((key for key, needs_gpus in needs.items() if needs_gpus), None)):
        raise _error(key, "resources", f"{getattr(request, key.removeprefix('trainer.'))} needs GPUs; {place}.")


def find(request: SlotRequest) -> list[Slot]:
    """Returns the slots that this machine has for a request.

    Raises:
        SettingError: If there are not as many.
    """
    accelerator, shares, group = request.accelerator, request.slots_per_gpu, request.gpus_per_trial
    gpus = visible() if accelerator in ("auto", "gpu", "cuda") else []
    place = f"trainer.accelerator={accelerator} has none on this machine (NVML, {VISIBLE})"
    require_gpus(request, len(gpus), is_needed=accelerator in ("gpu", "cuda"), place=place)
    if not gpus:
        return _on_processor(request)
    if group > 1 and (instances := [gpu for gpu in gpus if gpu.startswith("MIG-")]):
        reason = f"{group}, but a process can use one MIG instance only, and {', '.join(instances)} are such."
        raise _error("gpus_per_trial", "resources", reason)
    if group > 1:
        places = [tuple(gpus[first : first + group]) for first in range(0, len(gpus) - group + 1, group)]
    else:  # all GPUs have one trial before any has two
        shares = max(shares, math.ceil((request.slots or 1) / len(gpus)))
        places = [(gpu,) for _ in range(shares) for gpu in gpus]
    if len(places) < (slots := request.slots or 1):
        reason = f"{group} with slots={slots} needs {slots * group} GPUs, and this process may use {len(gpus)}."
        raise _error("gpus_per_trial", "resources", reason)
    places = places[: min(request.slots or len(places), request.trials or len(places))]
    threads = request.threads or max(1, cores() // len(places))
    names = [f"GPU{'s' if group > 1 else ''} {'+'.join(place)}" for place in places]
    if shares > 1:
        names = [f"{name}, share {index // len(gpus) + 1}" for index, name in enumerate(names)]
    return [Slot(name, place, threads) for name, place in zip(names, places, strict=True)]


def _on_processor(request: SlotRequest) -> list[Slot]:
    if request.accelerator in ("mps", "tpu"):
        return [Slot(request.accelerator.upper(), (), request.threads or cores())]
    slots = request.slots or max(1, cores() // (request.threads or 1))
    slots = min(slots, request.trials or slots)
    threads = request.threads or max(1, cores() // slots)
    return [Slot(f"CPU {number}" if slots > 1 else "CPU", (), threads) for number in range(1, slots + 1)]


def slots_line(slots: Sequence[Slot]) -> str:
    """Returns the line on how many slots there are, their names and threads."""
    names = ", ".join(slot.name for slot in slots) if len(slots) <= 8 else f"{slots[0].name} to {slots[-1].name}"
    return f"{plural(len(slots), 'slot')}: {names}; {plural(slots[0].threads, 'thread')} each"


def visible() -> list[str]:
    """Returns the GPUs that trials may use, as `CUDA_VISIBLE_DEVICES` names them; of a GPU in MIG mode its instances.

    Raises:
        SettingError: If that variable names one that is not there, or a machine with GPUs cannot list them.
    """
    named = os.environ.get(VISIBLE)
    entries = [entry.strip() for entry in (named or "").split(",") if entry.strip()]
    if "-1" in entries:  # CUDA sees none of those that follow
        entries = entries[: entries.index("-1")]
    gpus = _gpus() if entries or named is None else []
    if named is None:
        return [place for gpu in gpus for place in gpu.places]
    if not gpus:
        return entries
    places: list[str] = []
    for entry in entries:
        if any(uuid.startswith(entry) for gpu in gpus for uuid in gpu.instances or ()):
            places.append(entry)
        elif gpu := next((gpu for gpu in gpus if gpu.index == entry or gpu.uuid.startswith(entry)), None):
            places += [entry] if gpu.instances is None else gpu.instances
        else:
            there = ", ".join(place for gpu in gpus for place in gpu.places)
            raise _error(VISIBLE, "not_found", f"{named} names GPU {entry}, but NVML lists {there}.")
    return places


@dataclass(frozen=True)
class Gpu:
    """A GPU: its index, its identifier, and the identifiers of its MIG instances; None if it is not in MIG mode."""

    index: str
    uuid: str
    instances: tuple[str, ...] | None

    @property
    def places(self) -> tuple[str, ...]:
        """Where processes can run on it."""
        return (self.index,) if self.instances is None else self.instances


def _gpus() -> list[Gpu]:
    """Returns the GPUs that NVIDIA's driver knows, by its library NVML, which torch uses too; CUDA is not started."""
    import pynvml

    has_started = False
    try:
        pynvml.nvmlInit()
        has_started = True
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [Gpu(str(n), pynvml.nvmlDeviceGetUUID(each), _instances(each)) for n, each in enumerate(handles)]
    except pynvml.NVMLError as error:
        if not has_started and not any(DEVICES.glob("nvidia[0-9]*")):
            return []
        reason = f"its driver does not list them (NVML: {error}). Repair the driver, or type trainer.accelerator=cpu."
        message = f"This machine has NVIDIA GPUs ({DEVICES}/nvidia*), but {reason}"
        raise SettingError(Fault("trainer.accelerator", "resources", message)) from error
    finally:
        if has_started:
            pynvml.nvmlShutdown()


def _instances(handle: object) -> tuple[str, ...] | None:
    """Returns the identifiers of a GPU's MIG instances, or None if it is not in MIG mode."""
    import pynvml

    try:
        mode, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):  # an older GPU or driver
        return None
    if mode != pynvml.NVML_DEVICE_MIG_ENABLE:
        return None
    uuids = []
    for place in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with suppress(pynvml.NVMLError_NotFound):  # the places need not be taken
            uuids.append(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)))
    return tuple(uuids)


def _error(key: str, kind: str, reason: str) -> SettingError:
    return SettingError(Fault(key, kind, f"{key}={reason}"))
