"""How many processes a setting asks for, and what a machine or a launcher refuses."""

from __future__ import annotations

from typing import Any

import pytest

from sentattn.distributed.devices import as_placed, count, one_of
from sentattn.distributed.places import Place
from sentattn.errors import SettingError

PLACE = Place(rank=1, local_rank=1, node=0, world=4, local_world=2, address="node1", port=15000)


def trainer(devices: Any, accelerator: str = "auto", **more: Any) -> dict[str, Any]:
    return {"devices": devices, "accelerator": accelerator, **more}


@pytest.fixture(params=[0, 1, 4])
def gpus(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("torch.cuda.device_count", lambda: request.param)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    return int(request.param)


def test_all_devices(gpus: int) -> None:
    assert count(trainer(-1)) == count(trainer("auto")) == max(1, gpus)
    assert count(trainer(-1, "cpu")) == 1


def test_processors_take_any_number(gpus: int) -> None:
    assert count(trainer(3, "cpu")) == 3


def test_some_of_the_gpus(gpus: int) -> None:
    if gpus == 4:
        assert count(trainer(3)) == 3
        assert count(trainer([1, 3])) == 2
        assert count(trainer([2], "cuda")) == 1
    else:
        with pytest.raises(SettingError, match=f"type trainer.devices={max(1, gpus)}, or trainer.accelerator=cpu"):
            count(trainer([1, 3]))


def test_more_than_there_are(gpus: int) -> None:
    if gpus == 0:
        with pytest.raises(SettingError, match="needs as many GPUs"):
            count(trainer(5, "gpu"))
        assert count(trainer(5)) == 5, "auto takes the processor where there is no GPU"
    else:
        with pytest.raises(SettingError, match=r"trainer.devices=5 does not fit the (one GPU|4 GPUs)"):
            count(trainer(5))


@pytest.mark.parametrize("devices", [[], [0, 0], [4]])
def test_a_list_names_different_gpus_that_are_there(devices: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    with pytest.raises(SettingError, match="does not fit the 4 GPUs"):
        count(trainer(devices))


def test_several_machines_need_a_launcher() -> None:
    with pytest.raises(SettingError, match="torchrun --nnodes=2"):
        count(trainer(1, "cpu", num_nodes=2))


@pytest.mark.parametrize("devices", [1, 2, -1, "auto", [0, 1]])
def test_settings_say_what_was_launched(devices: Any) -> None:
    placed = as_placed({"seed": 1, "trainer": trainer(devices, max_epochs=3)}, PLACE)["trainer"]
    assert placed["num_nodes"] == 2
    assert placed["devices"] == ([0, 1] if devices == [0, 1] else 2)
    assert placed["max_epochs"] == 3


@pytest.mark.parametrize(("key", "number"), [("devices", 3), ("devices", [0, 1, 2]), ("num_nodes", 3)])
def test_another_number_than_was_launched_is_refused(key: str, number: Any) -> None:
    with pytest.raises(SettingError, match=f"trainer.{key}=.*processes were started for 2"):
        as_placed({"trainer": trainer(2) | {key: number}}, PLACE)


def test_without_a_launcher_settings_stay() -> None:
    settings = {"trainer": trainer(3, "cpu")}
    assert as_placed(settings, None) == settings


def test_a_process_alone_takes_one() -> None:
    assert one_of(4) == one_of("auto") == 1
    assert one_of([3, 1]) == [3]
