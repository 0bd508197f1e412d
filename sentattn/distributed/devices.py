"""How many devices a training takes, and how many processes that makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from sentattn.config.types import given
from sentattn.distributed.places import Place
from sentattn.errors import SettingError

Settings = Mapping[str, Any]


def count(trainer: Settings) -> int:
    """Returns the number of devices of this machine that a training takes, each with a process of its own.

    Args:
        trainer: The `trainer` settings.

    Raises:
        SettingError: If they are not there, or more than this machine is asked for.
    """
    devices, there, nodes = trainer["devices"], _gpus(trainer["accelerator"]), trainer.get("num_nodes", 1)
    if nodes > 1:
        raise SettingError(
            f"trainer.num_nodes={nodes} needs a launcher that starts processes on each machine: "
            f"srun, or torchrun --nnodes={nodes}."
        )
    if devices in (-1, "auto"):
        return max(1, there)
    if isinstance(devices, int) and (devices == 1 or there == 0):
        _require_processors(trainer, devices)
        return devices
    wanted = list(devices) if not isinstance(devices, int) else list(range(devices))
    if not wanted or len(set(wanted)) < len(wanted) or max(wanted) >= there:
        raise SettingError(
            f"trainer.devices={given(devices)} does not fit the {_named(there)} that trainer.accelerator="
            f"{trainer['accelerator']} finds here: type trainer.devices={max(1, there)}, or trainer.accelerator=cpu."
        )
    return len(wanted)


def as_placed(settings: Settings, place: Place | None) -> dict[str, Any]:
    """Returns settings with the devices and machines that a launcher has started processes for.

    Raises:
        SettingError: If other numbers were asked for.
    """
    trainer = settings["trainer"]
    if place is None:
        return dict(settings)
    devices, started = trainer["devices"], {"devices": place.local_world, "num_nodes": place.nodes}
    typed = {
        "devices": len(devices) if isinstance(devices, list) else devices,
        "num_nodes": trainer.get("num_nodes", 1),
    }
    for key, wanted in typed.items():
        if wanted not in (1, -1, "auto", started[key]):
            raise SettingError(
                f"trainer.{key}={given(trainer[key])}, but processes were started for {started[key]}: "
                f"leave trainer.{key} out, or start as many."
            )
    kept = devices if isinstance(devices, list) and len(devices) == place.local_world else place.local_world
    return {**settings, "trainer": {**trainer, "devices": kept, "num_nodes": place.nodes}}


def one_of(devices: Any) -> Any:
    """Returns the device of a process that works alone: the first of those listed, or any."""
    return devices[:1] if isinstance(devices, list) else 1


def _gpus(accelerator: str) -> int:
    return torch.cuda.device_count() if accelerator in ("auto", "gpu", "cuda") else 0


def _require_processors(trainer: Settings, devices: int) -> None:
    if devices > 1 and (trainer["accelerator"] not in ("auto", "cpu") or _has_mps(trainer["accelerator"])):
        raise SettingError(
            f"trainer.devices={devices} needs as many GPUs with CUDA, and this machine has none: "
            "type trainer.devices=1, or trainer.accelerator=cpu."
        )


def _has_mps(accelerator: str) -> bool:
    return accelerator == "auto" and torch.backends.mps.is_available()


def _named(gpus: int) -> str:
    return {0: "0 GPUs", 1: "one GPU"}.get(gpus, f"{gpus} GPUs")
