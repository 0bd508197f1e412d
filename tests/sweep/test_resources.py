from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sentattn.errors import SettingError
from sentattn.sweep import resources
from sentattn.sweep.resources import Slot, SlotRequest, description, find, visible


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for nvidia-smi on PATH that finds four GPUs; returns it, to be written anew."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text('#!/bin/sh\nfor n in 0 1 2 3; do echo "$n, GPU-$n$n$n$n-abc"; done\n')
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(resources, "cores", lambda: 16)
    return smi


@pytest.fixture
def no_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(resources, "cores", lambda: 8)


def refused(request: SlotRequest) -> tuple[str, str]:
    """Key and kind of the error that a request ends with."""
    with pytest.raises(SettingError) as caught:
        find(request)
    [fault] = caught.value.faults
    return fault.key, fault.kind


def test_a_slot_for_each_gpu(gpus: Path) -> None:
    found = find(SlotRequest())
    assert [slot.gpus for slot in found] == [("0",), ("1",), ("2",), ("3",)]
    assert {slot.threads for slot in found} == {4}
    assert description(found, SlotRequest()) == "4 slots: GPU 0, GPU 1, GPU 2, GPU 3; 4 threads each."
    assert found[2].environment()["CUDA_VISIBLE_DEVICES"] == "2"
    assert found[2].environment()["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert found[2].environment()["OMP_NUM_THREADS"] == "4"


def test_shares_of_a_gpu_spread_over_all_first(gpus: Path) -> None:
    found = find(SlotRequest(slots_per_gpu=2))
    assert [slot.gpus[0] for slot in found] == ["0", "1", "2", "3", "0", "1", "2", "3"]
    assert found[5].name == "GPU 1, share 2"
    assert find(SlotRequest(slots=8)) == found
    assert [slot.gpus[0] for slot in find(SlotRequest(slots=6))] == ["0", "1", "2", "3", "0", "1"]
    assert len(find(SlotRequest(slots=2))) == 2


def test_groups_of_gpus(gpus: Path) -> None:
    assert [slot.gpus for slot in find(SlotRequest(gpus_per_trial=2))] == [("0", "1"), ("2", "3")]
    three = find(SlotRequest(gpus_per_trial=3))
    assert [slot.name for slot in three] == ["GPUs 0+1+2"]
    assert description(three, SlotRequest(gpus_per_trial=3)).endswith("1 of 4 GPUs is left over.")


def test_no_more_slots_than_trials(gpus: Path) -> None:
    assert len(find(SlotRequest(trials=3))) == 3
    assert len(find(SlotRequest(accelerator="cpu", trials=3))) == 3


@pytest.mark.parametrize(
    ("named", "there"),
    [
        ("2,0", ["2", "0"]),
        ("GPU-1111,MIG-5", ["GPU-1111", "MIG-5"]),
        ("1,-1,2", ["1"]),
        ("", []),
    ],
)
def test_the_variable_says_which_gpus_may_be_used(
    gpus: Path, monkeypatch: pytest.MonkeyPatch, named: str, there: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert visible() == there
    found = find(SlotRequest())
    assert [slot.gpus for slot in found if slot.gpus] == [(gpu,) for gpu in there]
    assert "CUDA_DEVICE_ORDER" not in found[0].environment(), "the numbers are of the user's order"


@pytest.mark.parametrize(
    ("wanted", "key", "kind"),
    [
        (SlotRequest(gpus_per_trial=8), "gpus_per_trial", "resources"),
        (SlotRequest(gpus_per_trial=2, slots=3), "gpus_per_trial", "resources"),
        (SlotRequest(gpus_per_trial=2, slots_per_gpu=2), "slots_per_gpu", "conflict"),
    ],
)
def test_gpus_that_do_not_exist(gpus: Path, wanted: SlotRequest, key: str, kind: str) -> None:
    assert refused(wanted) == (key, kind)


def test_a_variable_that_names_a_gpu_that_is_not_there(gpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,7")
    assert refused(SlotRequest()) == ("CUDA_VISIBLE_DEVICES", "not_found")


@pytest.mark.usefixtures("no_gpus")
@pytest.mark.parametrize(
    ("wanted", "key"),
    [
        (SlotRequest(accelerator="gpu"), "trainer.accelerator"),
        (SlotRequest(slots_per_gpu=4), "slots_per_gpu"),
        (SlotRequest(accelerator="cpu", gpus_per_trial=2), "gpus_per_trial"),
    ],
)
def test_a_machine_without_gpus(wanted: SlotRequest, key: str) -> None:
    assert refused(wanted) == (key, "resources")


def test_a_broken_nvidia_smi_finds_none(gpus: Path) -> None:
    gpus.write_text("#!/bin/sh\necho 'Failed to initialize NVML'\nexit 9\n")
    assert visible() == []


@pytest.mark.usefixtures("no_gpus")
@pytest.mark.parametrize(
    ("slots", "threads", "expected"),
    [(None, None, (8, 1)), (2, None, (2, 4)), (None, 3, (2, 3)), (3, 2, (3, 2)), (None, 99, (1, 99))],
)
def test_cores_divided(slots: int | None, threads: int | None, expected: tuple[int, int]) -> None:
    found = find(SlotRequest(slots=slots, threads=threads))
    assert (len(found), found[0].threads) == expected
    assert {slot.environment()["CUDA_VISIBLE_DEVICES"] for slot in found} == {""}


@pytest.mark.usefixtures("no_gpus")
def test_what_is_said_of_cores() -> None:
    assert description([Slot("CPU", (), 1)], SlotRequest()) == "1 slot: CPU; 1 thread each."
    many = SlotRequest(slots=9, threads=2)
    assert description(find(many), many) == (
        "9 slots: CPU 1 to CPU 9; 2 threads each. That is 18 threads on 8 cores: slots=4 may be faster."
    )


def test_looking_imports_no_torch(gpus: Path) -> None:
    find = "from sentattn.sweep.resources import SlotRequest, find; find(SlotRequest())"
    program = f"import sys; {find}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
