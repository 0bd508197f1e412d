"""Which process this one is, by the variables that torchrun and srun document."""

from __future__ import annotations

import pytest

from sentattn.distributed.places import Place, from_srun, from_torchrun
from sentattn.errors import SettingError

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


def test_torchrun() -> None:
    place = from_torchrun(TORCHRUN)
    assert place == Place(5, 1, 1, 8, 4, "node3", 29400)
    assert place.nodes == 2


def test_what_a_place_says_of_itself_is_read_back() -> None:
    place = Place(3, 1, 1, 4, 2, "127.0.0.1", 12345)
    assert from_torchrun(place.environment()) == place


@pytest.mark.parametrize("without", ["RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR"])
def test_some_of_the_variables_are_no_launcher(without: str) -> None:
    assert from_torchrun({name: value for name, value in TORCHRUN.items() if name != without}) is None


def test_one_process_is_alone() -> None:
    assert from_torchrun(TORCHRUN | {"WORLD_SIZE": "1"}) is None
    assert from_srun(SRUN | {"SLURM_STEP_NUM_TASKS": "1"}) is None


def test_srun_on_two_machines() -> None:
    place = from_srun(SRUN)
    assert place == Place(3, 1, 1, 4, 2, "gpu07", 15000 + 4569)
    assert place.nodes == 2


def test_srun_on_one_machine_meets_there() -> None:
    one = SRUN | {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_NODEID": "0"}
    place = from_srun(one | {"SLURM_PROCID": "1"})
    assert place == Place(1, 1, 0, 2, 2, "127.0.0.1", 15000 + 4569)


def test_a_batch_script_that_was_not_started_by_srun_is_alone() -> None:
    assert from_srun({name: value for name, value in SRUN.items() if "STEP" not in name}) is None


@pytest.mark.parametrize("tasks", ["2,1", "3,1(x2)", "2(x2),1"])
def test_machines_with_different_numbers_of_tasks_are_refused(tasks: str) -> None:
    with pytest.raises(SettingError, match="ask with --nodes and --ntasks-per-node"):
        from_srun(SRUN | {"SLURM_STEP_TASKS_PER_NODE": tasks})
