"""Where trials run: GPUs, shares or groups of them, or cores of the processor. Finding out does not touch CUDA."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from sentattn.distributed.devices import cores
from sentattn.errors import Fault, SettingError

TIMEOUT = 30.0
"""Seconds after which `nvidia-smi` is given up."""
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
        # nvidia-smi counts GPUs by their place in the machine, CUDA by their speed by default.
        order = {} if VISIBLE in os.environ else {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        return {**threads, **order, VISIBLE: ",".join(self.gpus)}


@dataclass(frozen=True)
class SlotRequest:
    """The settings of slots as in `Plan`, the trainer's accelerator, and the number of trials of all studies."""

    accelerator: str = "auto"
    slots: int | None = None
    slots_per_gpu: int = 1
    gpus_per_trial: int = 1
    threads: int | None = None
    trials: int | None = None


def find(request: SlotRequest) -> list[Slot]:
    """Returns the slots that this machine has for a request.

    Raises:
        SettingError: If there are not as many.
    """
    gpus = visible() if request.accelerator in ("auto", "gpu", "cuda") else []
    shares, group = request.slots_per_gpu, request.gpus_per_trial
    if shares > 1 and group > 1:
        raise _error("slots_per_gpu", "conflict", f"{shares} has no effect with gpus_per_trial={group}.")
    if not gpus:
        needing = {"slots_per_gpu": shares > 1, "gpus_per_trial": group > 1}
        needing["trainer.accelerator"] = request.accelerator in ("gpu", "cuda")
        for key in (key for key, needs_gpus in needing.items() if needs_gpus):
            value = getattr(request, key.removeprefix("trainer."))
            reason = f"{value} needs GPUs; trainer.accelerator={request.accelerator} has none on this machine"
            raise _error(key, "resources", f"{reason} (nvidia-smi, {VISIBLE}).")
        return _on_processor(request)
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


def description(slots: Sequence[Slot], request: SlotRequest) -> str:
    """Returns the line that describes the slots."""
    line = f"{slots_line(slots)}."
    if not slots[0].gpus and (busy := slots[0].threads * len(slots)) > cores():
        line += f" That is {busy} threads on {cores()} cores: slots={cores() // slots[0].threads or 1} may be faster."
    if slots[0].gpus and request.slots is None and (left := len(visible()) % request.gpus_per_trial):
        line += f" {left} of {len(visible())} GPUs {'is' if left == 1 else 'are'} left over."
    return line


def slots_line(slots: Sequence[Slot]) -> str:
    """Returns how many slots there are, their names and threads."""
    threads = f"{slots[0].threads} thread{'s' if slots[0].threads > 1 else ''} each"
    names = ", ".join(slot.name for slot in slots) if len(slots) <= 8 else f"{slots[0].name} to {slots[-1].name}"
    return f"{len(slots)} slot{'s' if len(slots) > 1 else ''}: {names}; {threads}"


def visible() -> list[str]:
    """Returns the GPUs that trials may use, as `CUDA_VISIBLE_DEVICES` names them.

    Raises:
        SettingError: If that variable names one that is not there.
    """
    gpus, named = _gpus(), os.environ.get(VISIBLE)
    if named is None:
        return list(gpus)
    entries = [entry.strip() for entry in named.split(",") if entry.strip()]
    if "-1" in entries:  # CUDA sees none of those that follow
        entries = entries[: entries.index("-1")]
    for entry in entries:
        by_uuid = entry.startswith("MIG-") or any(uuid.startswith(entry) for uuid in gpus.values())
        if gpus and entry not in gpus and not by_uuid:
            raise _error(VISIBLE, "not_found", f"{named} names GPU {entry}, but nvidia-smi lists {', '.join(gpus)}.")
    return entries


def _gpus() -> dict[str, str]:
    """Returns the identifier of each GPU by its index; none where `nvidia-smi` fails."""
    command = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = [line.split(",") for line in output.splitlines() if "," in line]
    return {index.strip(): uuid.strip() for index, uuid, *_ in rows}


def _error(key: str, kind: str, reason: str) -> SettingError:
    return SettingError(Fault(key, kind, f"{key}={reason}"))
