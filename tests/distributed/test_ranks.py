"""A process alone, and how errors come together; test_launch.py has several processes."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import distributed

from sentattn.distributed import ranks
from sentattn.distributed.devices import RankInfo
from sentattn.errors import DataError, Fault, RunError, SettingError
from sentattn.training import trainer


def test_one_process_is_rank_zero() -> None:
    tensor = torch.tensor([1.0, 2.0], requires_grad=True)
    assert (ranks.world(), ranks.rank(), ranks.is_rank_zero(), ranks.several()) == (1, 0, True, False)
    assert ranks.summed(tensor) is tensor
    assert ranks.total(tensor) is tensor
    assert ranks.gather("x") == ["x"]
    assert ranks.from_rank_zero("x") == "x"
    assert ranks.largest(3) == 3
    ranks.wait_for_rank_zero()


def test_one_process_keeps_its_random_state() -> None:
    before = torch.get_rng_state()
    ranks.offset_seed_by_rank()
    assert torch.equal(torch.get_rng_state(), before)


def test_faults_of_one_rank_are_raised() -> None:
    with pytest.raises(DataError) as caught, ranks.raise_on_all_ranks():
        raise DataError(Fault("", "failed", "One."), Fault("", "failed", "Two."))
    assert caught.value.messages == ("One.", "Two.")


def test_all_ranks_raise_the_faults_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = [
        None,
        RunError(Fault("", "failed", "Disk full.")),
        RunError(Fault("", "failed", "Disk full."), Fault("", "failed", "No GPU.")),
    ]
    monkeypatch.setattr(ranks, "gather", lambda own: [own, *elsewhere])
    with pytest.raises(RunError) as caught, ranks.raise_on_all_ranks():
        pass
    assert caught.value.messages == ("Disk full.", "No GPU.")
    with pytest.raises(SettingError) as caught_too, ranks.raise_on_all_ranks():
        raise SettingError(Fault("", "failed", "Wrong."))
    assert caught_too.value.messages == ("Wrong.", "Disk full.", "No GPU.")


def test_other_exceptions_are_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "gather", lambda own: pytest.fail("the others may never come here"))
    with pytest.raises(ZeroDivisionError), ranks.raise_on_all_ranks():
        raise ZeroDivisionError


def test_errors_of_all_ranks_end_the_others_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = DataError(Fault("", "failed", "One."))
    monkeypatch.setattr(ranks, "gather", lambda own: [error, own])
    monkeypatch.setattr(ranks, "rank", lambda: 1)
    with pytest.raises(SystemExit) as caught, ranks.raise_on_all_ranks():
        pass
    assert (caught.value.code, *capsys.readouterr()) == (2, "", "")


@pytest.mark.parametrize(("has_gpus", "on_devices"), [(True, ranks.ON_GPU), (False, ranks.WORK)])
def test_timeouts_of_the_process_groups(has_gpus: bool, on_devices: timedelta, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: dict[str, timedelta] = {}

    def connect(backend: str, *, timeout: timedelta, **_: Any) -> None:
        waits[backend] = timeout

    monkeypatch.setattr(ranks, "launcher_variables", lambda environ: {})
    monkeypatch.setattr(ranks, "rendezvous", lambda *_, **__: iter([(None, 0, 2)]))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpus)
    monkeypatch.setattr(distributed, "init_process_group", connect)
    monkeypatch.setattr(distributed, "destroy_process_group", lambda: None)
    monkeypatch.setattr(
        distributed, "new_group", lambda *, backend, timeout: connect(f"host {backend}", timeout=timeout)
    )
    with ranks.connected(RankInfo(0, 2, 2)):
        pass
    assert waits == {"cpu:gloo,cuda:nccl" if has_gpus else "gloo": on_devices, "host gloo": ranks.WORK}
    assert ranks.ON_GPU < timedelta(hours=1) < ranks.WORK


@pytest.mark.parametrize(
    ("sees", "seen_by_the_other", "expected"),
    [(["GPU-a"], "GPU-b", True), (["GPU-a"], "GPU-a", False), (["GPU-a", "GPU-b"], "", False), ([], "", False)],
)
def test_ranks_with_a_gpu_each(
    sees: list[str], seen_by_the_other: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `srun --gpus-per-task=1` starts them."""
    monkeypatch.setattr(ranks, "_here", RankInfo(0, 2, 2))
    monkeypatch.setattr(ranks, "several", lambda: True)
    monkeypatch.setattr(ranks, "gather", lambda own: [own, seen_by_the_other])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(sees))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda n: SimpleNamespace(uuid=sees[n]))
    assert ranks.have_own_gpus() is expected


@pytest.mark.parametrize("has_own_gpu", [True, False])
def test_a_rank_that_sees_one_gpu_uses_it(has_own_gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    for name, value in {"LOCAL_RANK": "1", "GROUP_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ranks, "several", lambda: True)
    monkeypatch.setattr(ranks, "world", lambda: 2)
    monkeypatch.setattr(ranks, "rank", lambda: 1)
    monkeypatch.setattr(ranks, "have_own_gpus", lambda: has_own_gpu)
    monkeypatch.setattr(trainer, "instantiate", lambda node, **more: asked.update(node, **more))
    trainer.build_trainer({"accelerator": "auto", "devices": 2, "num_nodes": 1})
    place = asked["plugins"][0]
    numbers = (asked["devices"], asked["num_nodes"], place.local_rank(), place.node_rank())
    assert numbers == ((1, 2, 0, 1) if has_own_gpu else (2, 1, 1, 0))
    assert asked["devices"] * place.node_rank() + place.local_rank() == 1, "the rank that Lightning computes"
