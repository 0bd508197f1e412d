"""How many processes a setting asks for, what a machine refuses, and the variables that torchrun and srun document."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from refusals import fault_of, refused

from sentattn.distributed import devices
from sentattn.distributed.devices import RankInfo, as_launched, count_here, launcher_variables, of_rank, rank_info

PLACE = RankInfo(rank=1, world=4, local_world=2)
TORCHRUN = {
    "RANK": "5",
    "LOCAL_RANK": "1",
    "GROUP_RANK": "1",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "node3",
    "MASTER_PORT": "29400",
}
SRUN = {
    "SLURM_JOB_ID": "1234567",
    "SLURM_STEP_ID": "2",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
}


def trainer(devices: Any, accelerator: str = "auto", **more: Any) -> dict[str, Any]:
    return {"devices": devices, "accelerator": accelerator, **more}


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("max 100000", 6), ("200000 100000", 2), ("50000 100000", 1), ("800000 100000", 6), (None, 6)],
)
def test_the_cores_of_a_container_may_be_limited(
    limit: str | None, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {*range(6)}, raising=False)
    monkeypatch.setattr(devices, "CPU_LIMIT", tmp_path / "cpu.max")
    if limit:
        (tmp_path / "cpu.max").write_text(limit)
    assert devices.cores() == expected


@pytest.mark.parametrize(
    ("wanted", "accelerator", "expected"),
    [  # on a machine of 6 cores without a GPU, with one, and with 4; None is refused
        (-1, "auto", (1, 1, 4)),
        ("auto", "auto", (1, 1, 4)),
        (-1, "cpu", (1, 1, 1)),
        (6, "cpu", (6, 6, 6)),
        (7, "cpu", (None, None, None)),
        (3, "gpu", (None, None, 3)),
        (5, "gpu", (None, None, None)),
        (5, "auto", (5, None, None)),  # without a GPU, auto takes the cores
        ([1, 3], "auto", (None, None, 2)),
        ([2], "cuda", (None, None, 1)),
        ([], "auto", (None, None, None)),
        ([0, 0], "auto", (None, None, None)),
        ([4], "auto", (None, None, None)),
    ],
)
def test_count_of_devices(
    wanted: Any, accelerator: str, expected: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    monkeypatch.setattr(devices, "cores", lambda: 6)
    for gpus, count in zip((0, 1, 4), expected, strict=True):
        monkeypatch.setattr("torch.cuda.device_count", lambda gpus=gpus: gpus)
        if count is None:
            fault = fault_of(lambda: count_here(trainer(wanted, accelerator)))
            assert (fault.key, fault.kind) == ("trainer.devices", "resources")
            key, _, advice = fault.message.rpartition("Type ")[2].rstrip(".").partition("=")
            devices_now = trainer(wanted, accelerator) | {key.removeprefix("trainer."): advice}
            if key == "trainer.devices":  # what is advised works
                assert count_here(devices_now | {"devices": int(advice)}) == int(advice)
            else:
                assert (gpus, advice) == (0, "cpu")
                assert accelerator in ("gpu", "cuda")
        else:
            assert count_here(trainer(wanted, accelerator)) == count


def test_several_machines_need_a_launcher() -> None:
    assert refused(lambda: count_here(trainer(1, "cpu", num_nodes=2))) == [("trainer.num_nodes", "missing")]


@pytest.mark.parametrize("devices", [1, 2, -1, "auto", [0, 1]])
def test_settings_have_the_launched_numbers(devices: Any) -> None:
    placed = as_launched(trainer(devices, max_epochs=3), PLACE)
    assert placed["num_nodes"] == 2
    assert placed["devices"] == ([0, 1] if devices == [0, 1] else 2)
    assert placed["max_epochs"] == 3


@pytest.mark.parametrize(("key", "number"), [("devices", 3), ("devices", [0, 1, 2]), ("num_nodes", 3)])
def test_another_number_than_was_launched_is_refused(key: str, number: Any) -> None:
    assert refused(lambda: as_launched(trainer(2) | {key: number}, PLACE)) == [(f"trainer.{key}", "conflict")]


def test_settings_are_unchanged_without_a_launcher() -> None:
    settings = trainer(3, "cpu")
    assert as_launched(settings, None) == settings


@pytest.mark.parametrize(
    ("devices", "accelerator", "gpus", "expected"),
    [  # of a process alone, and of ranks 0 and 1 on their machine
        (1, "auto", 0, [1, 1, 1]),
        (2, "cpu", 4, [1, 1, 1]),
        ("auto", "auto", 4, [1, [0], [1]]),
        (2, "gpu", 1, [1, [0], [0]]),  # each rank sees one
        ([3, 1], "gpu", 4, [[3], [3], [1]]),
    ],
)
def test_the_device_of_a_process(
    devices: Any, accelerator: str, gpus: int, expected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    found = [of_rank(trainer(devices, accelerator))]
    for rank in ("0", "1"):
        monkeypatch.setenv("LOCAL_RANK", rank)
        found.append(of_rank(trainer(devices, accelerator)))
    assert found == expected


@pytest.mark.parametrize("without", ["RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR"])
def test_incomplete_variables_of_torchrun_are_ignored(without: str) -> None:
    assert rank_info({name: value for name, value in TORCHRUN.items() if name != without}) is None


def test_a_world_of_one_has_no_rank_info() -> None:
    assert rank_info(TORCHRUN | {"WORLD_SIZE": "1"}) is None
    assert launcher_variables(SRUN | {"SLURM_STEP_NUM_TASKS": "1"}) == {}


def test_srun_on_two_machines() -> None:
    variables = launcher_variables(SRUN)
    assert variables == {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "GROUP_RANK": "1",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "gpu07",
        "MASTER_PORT": str(15000 + 4569),
    }
    place = rank_info(variables)
    assert place == RankInfo(3, 4, 2)
    assert place.nodes == 2


def test_srun_on_one_machine_uses_localhost() -> None:
    one = SRUN | {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_NODEID": "0"}
    variables = launcher_variables(one | {"SLURM_PROCID": "1"})
    assert (variables["MASTER_ADDR"], variables["RANK"], variables["WORLD_SIZE"]) == ("127.0.0.1", "1", "2")


def test_a_batch_script_without_srun_has_no_rank_info() -> None:
    assert launcher_variables({name: value for name, value in SRUN.items() if "STEP" not in name}) == {}


@pytest.mark.parametrize("tasks", ["2,1", "3,1(x2)", "2(x2),1"])
def test_machines_with_different_numbers_of_tasks_are_refused(tasks: str) -> None:
    variables = SRUN | {"SLURM_STEP_TASKS_PER_NODE": tasks}
    assert refused(lambda: launcher_variables(variables)) == [("trainer.num_nodes", "conflict")]


def test_rank_info_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rank_info() is None
    for name, value in SRUN.items():
        monkeypatch.setenv(name, value)
    assert rank_info() == RankInfo(3, 4, 2)
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert rank_info() == RankInfo(5, 8, 4)  # torchrun inside a step of srun
    assert launcher_variables(os.environ) == {}  # torchrun has set its own


def test_a_process_can_leave_the_step_of_srun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SRUN.items():
        monkeypatch.setenv(name, value)
    assert launcher_variables(os.environ)["RANK"] == "3"
    devices.leave_step()
    assert rank_info() is None
