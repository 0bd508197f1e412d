"""Which slots a machine has; no GPUs are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import refused

from sentattn.jobs import slots
from sentattn.jobs.slots import Slot, SlotOptions, find_slots, slots_line, visible_gpus


class Machine:
    """What torch finds on a machine."""

    def __init__(self, gpus: int, cores: int, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.gpus, self.driver = gpus, folder
        patch.setattr(torch.cuda, "device_count", lambda: self.gpus)
        patch.setattr(torch.backends.mps, "is_available", lambda: False)
        patch.setattr(slots, "DRIVER", folder)
        patch.setattr(slots, "cores", lambda: cores)
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Four GPUs and 16 cores."""
    return Machine(4, 16, monkeypatch, tmp_path)


@pytest.fixture
def cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Eight cores."""
    return Machine(0, 8, monkeypatch, tmp_path)


def find(accelerator: str = "auto", jobs: int | None = None, **options: Any) -> list[Slot]:
    return find_slots(SlotOptions(**options), accelerator, jobs)


def devices(found: list[Slot]) -> list[str]:
    return [slot.environment()["CUDA_VISIBLE_DEVICES"] for slot in found]


@pytest.mark.usefixtures("gpus")
def test_a_slot_for_each_gpu() -> None:
    found = find()
    assert found[2].environment() == {"CUDA_VISIBLE_DEVICES": "2", "OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"}
    assert [slot.name for slot in found] == ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]
    assert slots_line(found) == "4 slots: GPU 0, GPU 1, GPU 2, GPU 3; 4 threads each"
    assert len(find(jobs=3)) == len(find("cpu", jobs=3)) == 3, "no more than there are jobs"
    assert devices(find("cpu", slots=1)) == [""]


@pytest.mark.usefixtures("gpus")
def test_shares_of_a_gpu_spread_over_all_first() -> None:
    found = find(slots_per_gpu=2)
    assert devices(found) == ["0", "1", "2", "3"] * 2
    assert (found[0].name, found[5].name) == ("GPU 0, share 1", "GPU 1, share 2")
    assert find(slots=8) == found
    assert devices(find(slots=6)) == ["0", "1", "2", "3", "0", "1"]
    assert devices(find(slots=2)) == ["0", "1"]


@pytest.mark.usefixtures("gpus")
def test_groups_of_gpus() -> None:
    assert devices(find(gpus_per_trial=2)) == ["0,1", "2,3"]
    assert [slot.name for slot in find(gpus_per_trial=3)] == ["GPUs 0+1+2"]


@pytest.mark.parametrize(
    ("named", "there"),
    [
        ("2,0", ["2", "0"]),
        ("GPU-1111, 3", ["GPU-1111", "3"]),
        ("MIG-1c6c8d2e,MIG-7a", ["MIG-1c6c8d2e", "MIG-7a"]),
        ("1,-1,2", ["1"]),
        ("", []),
    ],
)
def test_the_variable_says_which_gpus_may_be_used(
    gpus: Machine, monkeypatch: pytest.MonkeyPatch, named: str, there: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    gpus.gpus = len(there)
    (gpus.driver / "nvidia0").touch()
    assert visible_gpus() == there
    assert [slot.gpus for slot in find() if slot.gpus] == [(gpu,) for gpu in there]


def test_a_variable_that_names_gpus_that_are_not_there(gpus: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,7")
    gpus.gpus = 1
    assert refused(find) == [("CUDA_VISIBLE_DEVICES", "not_found")]


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("wanted", "key", "kind"),
    [
        ({"gpus_per_trial": 8}, "gpus_per_trial", "resources"),
        ({"gpus_per_trial": 2, "slots": 3}, "gpus_per_trial", "resources"),
        ({"gpus_per_trial": 2, "slots_per_gpu": 2}, "slots_per_gpu", "conflict"),
    ],
)
def test_more_gpus_than_there_are(wanted: dict[str, Any], key: str, kind: str) -> None:
    assert refused(lambda: find(**wanted)) == [(key, kind)]


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize(
    ("wanted", "key"),
    [
        ({"accelerator": "gpu"}, "trainer.accelerator"),
        ({"slots_per_gpu": 4}, "slots_per_gpu"),
        ({"accelerator": "cpu", "gpus_per_trial": 2}, "gpus_per_trial"),
    ],
)
def test_a_machine_without_gpus(wanted: dict[str, Any], key: str) -> None:
    assert refused(lambda: find(**wanted)) == [(key, "resources")]


@pytest.mark.parametrize("accelerator", ["auto", "gpu"])
def test_gpus_that_torch_does_not_find_are_an_error(cpu: Machine, accelerator: str) -> None:
    (cpu.driver / "nvidia0").touch()
    assert refused(lambda: find(accelerator)) == [("trainer.accelerator", "resources")]
    assert devices(find("cpu", slots=1)) == [""]


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("accelerator", ["auto", "mps", "tpu"])
def test_apples_gpu_and_a_tpu_are_one_slot(monkeypatch: pytest.MonkeyPatch, accelerator: str) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    [slot] = find(accelerator)
    assert (slot.name, slot.threads) == ("TPU" if accelerator == "tpu" else "MPS", 8)
    assert len(find("cpu")) == 8


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize(
    ("slots", "threads", "expected"),
    [(None, None, (8, 1)), (2, None, (2, 4)), (None, 3, (2, 3)), (3, 2, (3, 2)), (None, 99, (1, 99))],
)
def test_cores_divided(slots: int | None, threads: int | None, expected: tuple[int, int]) -> None:
    found = find(slots=slots, threads=threads)
    assert (len(found), found[0].threads) == expected
    assert {*devices(found)} == {""}


@pytest.mark.usefixtures("cpu")
def test_the_line_on_slots() -> None:
    assert slots_line([Slot("CPU", (), 1)]) == "1 slot: CPU; 1 thread each"
    assert "CPU 1 to CPU 9" in slots_line(find(slots=9, threads=2))


def test_of_a_ray_cluster_ray_names_the_gpus() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in Slot("Ray 1", ("0",), 1, num_gpus=0.5).environment()
