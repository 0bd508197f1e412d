"""Which slots a machine or a Ray cluster has; neither GPUs nor a cluster are needed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pynvml
import pytest

from sentattn.errors import SettingError
from sentattn.sweep.execution import ray, resources
from sentattn.sweep.execution.ray import Node, description
from sentattn.sweep.execution.resources import Slot, slots_line, visible
from sentattn.sweep.spec.plan import Options


@dataclass
class FakeNVML:
    """NVIDIA's library: the identifiers of the MIG instances of each GPU by its own, None for one without MIG mode.

    `error` is what it raises, as a driver does that was updated and not loaded again.
    """

    uuids: dict[str, list[str | None] | None] = field(
        default_factory=lambda: {f"GPU-{n}{n}{n}{n}-abc": None for n in range(4)}
    )
    error: Exception | None = None
    NVMLError = pynvml.NVMLError
    NVMLError_NotSupported = pynvml.NVMLError_NotSupported
    NVMLError_FunctionNotFound = pynvml.NVMLError_FunctionNotFound
    NVMLError_NotFound = pynvml.NVMLError_NotFound
    NVML_DEVICE_MIG_ENABLE = pynvml.NVML_DEVICE_MIG_ENABLE

    def nvmlInit(self) -> None:  # noqa: N802
        if self.error is not None:
            raise self.error

    def nvmlShutdown(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return list(self.uuids)[index]

    def nvmlDeviceGetUUID(self, handle: str) -> str:  # noqa: N802
        return handle

    def nvmlDeviceGetMigMode(self, handle: str) -> tuple[int, int]:  # noqa: N802
        if self.uuids[handle] is None:
            raise pynvml.NVMLError_NotSupported
        return (1, 1)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:  # noqa: N802
        return len(self.uuids[handle] or [])

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, index: int) -> str:  # noqa: N802
        instances = self.uuids[handle]
        assert instances is not None
        if (uuid := instances[index]) is None:
            raise pynvml.NVMLError_NotFound
        return uuid


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNVML:
    """A library that finds four GPUs; returns it, to be changed."""
    nvml = FakeNVML()
    monkeypatch.setitem(sys.modules, "pynvml", cast("Any", nvml))
    monkeypatch.setattr(resources, "DEVICES", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(resources, "cores", lambda: 16)
    return nvml


@pytest.fixture
def no_gpus(gpus: FakeNVML, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus.error = pynvml.NVMLError_LibraryNotFound()
    monkeypatch.setattr(resources, "cores", lambda: 8)


def find(accelerator: str = "auto", trials: int | None = None, **options: Any) -> list[Slot]:
    return resources.find(Options(**options), accelerator, trials)


def find_on_ray(nodes: list[Node], accelerator: str = "auto", trials: int | None = None, **options: Any) -> list[Slot]:
    return ray.find_slots(nodes, Options(**options), accelerator, trials)


def refused(*arguments: Any, **options: Any) -> tuple[str, str]:
    """Key and kind of the error with which slots are not found."""
    with pytest.raises(SettingError) as caught:
        (find_on_ray if arguments[:1] == (GPUS,) else find)(*arguments, **options)
    [fault] = caught.value.faults
    return fault.key, fault.kind


def test_a_slot_for_each_gpu(gpus: FakeNVML) -> None:
    found = find()
    assert [slot.gpus for slot in found] == [("0",), ("1",), ("2",), ("3",)]
    assert {slot.threads for slot in found} == {4}
    names, threads = slots_line(found[:2]).split("; ")
    assert names == "2 slots: GPU 0, GPU 1"
    assert threads.startswith("4 ")
    assert found[2].environment()["CUDA_VISIBLE_DEVICES"] == "2"
    assert found[2].environment()["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert found[2].environment()["OMP_NUM_THREADS"] == "4"


def test_shares_of_a_gpu_spread_over_all_first(gpus: FakeNVML) -> None:
    found = find(slots_per_gpu=2)
    assert [slot.gpus[0] for slot in found] == ["0", "1", "2", "3", "0", "1", "2", "3"]
    assert found[5].name == "GPU 1, share 2"
    assert find(slots=8) == found
    assert [slot.gpus[0] for slot in find(slots=6)] == ["0", "1", "2", "3", "0", "1"]
    assert len(find(slots=2)) == 2


def test_groups_of_gpus(gpus: FakeNVML) -> None:
    assert [slot.gpus for slot in find(gpus_per_trial=2)] == [("0", "1"), ("2", "3")]
    assert [slot.name for slot in find(gpus_per_trial=3)] == ["GPUs 0+1+2"]


def test_no_more_slots_than_trials(gpus: FakeNVML) -> None:
    assert len(find(trials=3)) == 3
    assert len(find(accelerator="cpu", trials=3)) == 3


@pytest.mark.parametrize(
    ("named", "there"),
    [
        ("2,0", ["2", "0"]),
        ("GPU-1111,3", ["GPU-1111", "3"]),
        ("1,-1,2", ["1"]),
        ("", []),
    ],
)
def test_the_variable_says_which_gpus_may_be_used(
    gpus: FakeNVML, monkeypatch: pytest.MonkeyPatch, named: str, there: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert visible() == there
    found = find()
    assert [slot.gpus for slot in found if slot.gpus] == [(gpu,) for gpu in there]
    assert "CUDA_DEVICE_ORDER" not in found[0].environment(), "the numbers are of the user's order"


@pytest.mark.parametrize(
    ("wanted", "key", "kind"),
    [
        ({"gpus_per_trial": 8}, "gpus_per_trial", "resources"),
        ({"gpus_per_trial": 2, "slots": 3}, "gpus_per_trial", "resources"),
        ({"gpus_per_trial": 2, "slots_per_gpu": 2}, "slots_per_gpu", "conflict"),
    ],
)
def test_gpus_that_do_not_exist(gpus: FakeNVML, wanted: dict[str, Any], key: str, kind: str) -> None:
    assert refused(**wanted) == (key, kind)


def test_a_variable_that_names_a_gpu_that_is_not_there(gpus: FakeNVML, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,7")
    assert refused() == ("CUDA_VISIBLE_DEVICES", "not_found")


@pytest.mark.usefixtures("no_gpus")
@pytest.mark.parametrize(
    ("wanted", "key"),
    [
        ({"accelerator": "gpu"}, "trainer.accelerator"),
        ({"slots_per_gpu": 4}, "slots_per_gpu"),
        ({"accelerator": "cpu", "gpus_per_trial": 2}, "gpus_per_trial"),
    ],
)
def test_a_machine_without_gpus(wanted: dict[str, Any], key: str) -> None:
    assert refused(**wanted) == (key, "resources")


@pytest.mark.parametrize("accelerator", ["auto", "gpu"])
def test_gpus_that_the_driver_does_not_list_are_an_error(gpus: FakeNVML, tmp_path: Path, accelerator: str) -> None:
    gpus.error = pynvml.NVMLError_DriverNotLoaded()
    assert visible() == []
    (tmp_path / "nvidia0").touch()
    assert refused(accelerator) == ("trainer.accelerator", "resources")
    assert [slot.gpus for slot in find("cpu", slots=1)] == [()]


@pytest.mark.usefixtures("no_gpus")
def test_gpus_that_are_hidden_are_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nvidia0").touch()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible() == []


def test_instances_of_a_split_gpu_are_slots(gpus: FakeNVML, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus.uuids = {"GPU-a": None, "GPU-b": ["MIG-1", None, "MIG-2"], "GPU-c": []}
    assert visible() == ["0", "MIG-1", "MIG-2"]
    assert [slot.gpus for slot in find()] == [("0",), ("MIG-1",), ("MIG-2",)]
    shares = find(slots_per_gpu=2)
    assert [slot.environment()["CUDA_VISIBLE_DEVICES"] for slot in shares] == ["0", "MIG-1", "MIG-2"] * 2
    assert refused(gpus_per_trial=2) == ("gpus_per_trial", "resources")
    for named, there in (("1", ["MIG-1", "MIG-2"]), ("GPU-b", ["MIG-1", "MIG-2"]), ("MIG-2,0", ["MIG-2", "0"])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
        assert visible() == there
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-3")
    assert refused() == ("CUDA_VISIBLE_DEVICES", "not_found")


@pytest.mark.usefixtures("no_gpus")
@pytest.mark.parametrize(
    ("slots", "threads", "expected"),
    [(None, None, (8, 1)), (2, None, (2, 4)), (None, 3, (2, 3)), (3, 2, (3, 2)), (None, 99, (1, 99))],
)
def test_cores_divided(slots: int | None, threads: int | None, expected: tuple[int, int]) -> None:
    found = find(slots=slots, threads=threads)
    assert (len(found), found[0].threads) == expected
    assert {slot.environment()["CUDA_VISIBLE_DEVICES"] for slot in found} == {""}


@pytest.mark.usefixtures("no_gpus")
def test_the_line_on_slots() -> None:
    assert slots_line([Slot("CPU", (), 1)]) == "1 slot: CPU; 1 thread each"
    assert "CPU 1 to CPU 9" in slots_line(find(slots=9, threads=2))


def test_looking_imports_no_torch(gpus: FakeNVML) -> None:
    find = "from sentattn.sweep.execution.resources import find; find(Options())"
    program = f"import sys; from sentattn.sweep.spec.plan import Options; {find}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[3])


CPUS = [Node("a", "10.0.0.1", 4, 0), Node("b", "10.0.0.2", 3, 0)]
GPUS = [Node("a", "10.0.0.1", 16, 4), Node("b", "10.0.0.2", 8, 3), Node("c", "10.0.0.3", 2, 0)]


@pytest.mark.parametrize(
    ("nodes", "request_", "expected"),
    [
        (CPUS, {}, (7, 0, 1)),
        (CPUS, {"slots": 2}, (2, 0, 3)),
        (CPUS, {"slots": 3}, (3, 0, 2)),
        (CPUS, {"threads": 2}, (3, 0, 2)),
        (CPUS, {"slots": 1, "threads": 4}, (1, 0, 4)),
        (CPUS, {"trials": 2}, (2, 0, 3)),
        (GPUS, {}, (7, 1, 2)),
        (GPUS, {"slots_per_gpu": 2}, (14, 0.5, 1)),
        (GPUS, {"slots": 9}, (9, 0.5, 2)),
        (GPUS, {"gpus_per_trial": 2}, (3, 2, 8)),
        (GPUS, {"gpus_per_trial": 4}, (1, 4, 16)),
        (GPUS, {"threads": 8}, (3, 1, 8)),
        (GPUS, {"accelerator": "cpu"}, (26, 0, 1)),
    ],
)
def test_slots_on_all_nodes_of_a_cluster(
    nodes: list[Node], request_: dict[str, Any], expected: tuple[int, float, int]
) -> None:
    slots = find_on_ray(nodes, **request_)
    assert (len(slots), slots[0].num_gpus, slots[0].threads) == expected
    assert {max(1, len(slot.gpus)) for slot in slots} == {max(1, int(expected[1]))}
    assert slots[0].environment().get("CUDA_VISIBLE_DEVICES") == (None if expected[1] else ""), "Ray names the GPUs"
    assert str(len(slots)) in description(slots, nodes)


@pytest.mark.parametrize(
    ("request_", "key", "kind"),
    [
        ({"gpus_per_trial": 5}, "gpus_per_trial", "resources"),
        ({"gpus_per_trial": 2, "slots": 4}, "slots", "resources"),
        ({"gpus_per_trial": 2, "slots_per_gpu": 2}, "slots_per_gpu", "conflict"),
        ({"threads": 17}, "threads", "resources"),
        ({"accelerator": "cpu", "slots": 27}, "slots", "resources"),
        ({"accelerator": "cpu", "slots_per_gpu": 2}, "slots_per_gpu", "resources"),
        ({"accelerator": "mps"}, "trainer.accelerator", "resources"),
    ],
)
def test_more_than_the_cluster_has(request_: dict[str, Any], key: str, kind: str) -> None:
    assert refused(GPUS, **request_) == (key, kind)
