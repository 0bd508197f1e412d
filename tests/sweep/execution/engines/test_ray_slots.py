"""Which slots a Ray cluster has; no cluster is started."""

from __future__ import annotations

import pytest

from sentattn.errors import SettingError
from sentattn.sweep.execution.engines.ray_cluster import Node, description, find_slots
from sentattn.sweep.execution.resources import SlotRequest

CPUS = [Node("a", "10.0.0.1", 4, 0), Node("b", "10.0.0.2", 3, 0)]
GPUS = [Node("a", "10.0.0.1", 16, 4), Node("b", "10.0.0.2", 8, 3), Node("c", "10.0.0.3", 2, 0)]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (SlotRequest(), (7, 1)),
        (SlotRequest(slots=2), (2, 3)),
        (SlotRequest(slots=3), (3, 2)),
        (SlotRequest(threads=2), (3, 2)),
        (SlotRequest(slots=1, threads=4), (1, 4)),
        (SlotRequest(trials=2), (2, 3)),
    ],
)
def test_cores_of_all_nodes(request_: SlotRequest, expected: tuple[int, int]) -> None:
    slots = find_slots(request_, CPUS)
    assert (len(slots), slots[0].threads) == expected
    assert {(slot.num_gpus, slot.environment()["CUDA_VISIBLE_DEVICES"]) for slot in slots} == {(0, "")}


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (SlotRequest(), (7, 1, 2)),
        (SlotRequest(slots_per_gpu=2), (14, 0.5, 1)),
        (SlotRequest(slots=9), (9, 0.5, 2)),
        (SlotRequest(gpus_per_trial=2), (3, 2, 8)),
        (SlotRequest(gpus_per_trial=4), (1, 4, 16)),
        (SlotRequest(threads=8), (3, 1, 8)),
        (SlotRequest(accelerator="cpu"), (26, 0, 1)),
    ],
)
def test_gpus_of_all_nodes(request_: SlotRequest, expected: tuple[int, float, int]) -> None:
    slots = find_slots(request_, GPUS)
    assert (len(slots), slots[0].num_gpus, slots[0].threads) == expected
    assert {max(1, len(slot.gpus)) for slot in slots} == {max(1, int(expected[1]))}
    assert ("CUDA_VISIBLE_DEVICES" in slots[0].environment()) == (not expected[1]), "Ray names the GPUs"
    assert str(len(slots)) in description(slots, GPUS)


@pytest.mark.parametrize(
    ("request_", "key", "kind"),
    [
        (SlotRequest(gpus_per_trial=5), "gpus_per_trial", "resources"),
        (SlotRequest(gpus_per_trial=2, slots=4), "slots", "resources"),
        (SlotRequest(gpus_per_trial=2, slots_per_gpu=2), "slots_per_gpu", "conflict"),
        (SlotRequest(threads=17), "threads", "resources"),
        (SlotRequest(accelerator="cpu", slots=27), "slots", "resources"),
        (SlotRequest(accelerator="cpu", slots_per_gpu=2), "slots_per_gpu", "resources"),
        (SlotRequest(accelerator="mps"), "trainer.accelerator", "resources"),
    ],
)
def test_more_than_the_cluster_has(request_: SlotRequest, key: str, kind: str) -> None:
    with pytest.raises(SettingError) as caught:
        find_slots(request_, GPUS)
    [fault] = caught.value.faults
    assert (fault.key, fault.kind) == (key, kind)
