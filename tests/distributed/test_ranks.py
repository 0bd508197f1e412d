"""A process alone, and how errors come together; test_launch.py has several processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import gone, is_alive, until
from torch import distributed

from sentattn.distributed import ranks
from sentattn.distributed.devices import RankInfo
from sentattn.errors import DataError, Fault, Interruption
from sentattn.training import trainer


def test_one_process_keeps_its_random_state() -> None:
    before = torch.get_rng_state()
    ranks.offset_seed_by_rank()
    assert torch.equal(torch.get_rng_state(), before)


def connected_alone(
    rank: int, patch: pytest.MonkeyPatch, connect: Callable[..., None] = lambda *_, **__: None
) -> AbstractContextManager[None]:
    """The context of one of two ranks whose connection is not made."""
    patch.setattr(ranks, "launcher_variables", lambda environ: {})
    patch.setattr(ranks, "rendezvous", lambda *_, **__: iter([(None, rank, 2)]))
    patch.setattr(distributed, "init_process_group", connect)
    patch.setattr(distributed, "destroy_process_group", lambda: None)
    patch.setattr(distributed, "new_group", lambda *, backend, timeout: connect(f"host {backend}", timeout=timeout))
    return ranks.connected(RankInfo(rank, 2, 2))


@pytest.mark.parametrize(("has_gpus", "on_devices"), [(True, ranks.ON_GPU), (False, ranks.WORK)])
def test_timeouts_of_the_process_groups(has_gpus: bool, on_devices: timedelta, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: dict[str, timedelta] = {}

    def connect(backend: str, *, timeout: timedelta, **_: Any) -> None:
        waits[backend] = timeout

    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpus)
    with connected_alone(0, monkeypatch, connect):
        pass
    assert waits == {"cpu:gloo,cuda:nccl" if has_gpus else "gloo": on_devices, "host gloo": ranks.WORK}
    assert ranks.ON_GPU < timedelta(hours=1) < ranks.WORK


def test_a_rank_is_a_machine_with_one_device_to_lightning(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(ranks, "several", lambda: True)
    monkeypatch.setattr(ranks, "world", lambda: 4)
    monkeypatch.setattr(ranks, "rank", lambda: 3)
    monkeypatch.setattr(trainer, "instantiate", lambda node, **more: asked.update(node, **more))
    trainer.build_trainer({"accelerator": "cpu", "devices": 2, "num_nodes": 2})
    place = asked["plugins"][0]
    assert (asked["devices"], asked["num_nodes"], place.local_rank(), place.node_rank()) == (1, 4, 0, 3)
    assert asked["devices"] * place.node_rank() + place.local_rank() == 3, "the rank that Lightning computes"


def test_other_ranks_leave_time_to_rank_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    for rank in (0, 1):
        with pytest.raises(DataError), connected_alone(rank, monkeypatch):
            raise DataError(Fault("", "failed", "One."))
        with pytest.raises(Interruption if rank == 0 else SystemExit), connected_alone(rank, monkeypatch):
            raise Interruption(15)
    assert waited == [ranks.GRACE]


def forked(work: Callable[[], object]) -> int:
    """Returns the process ID of a process that leads a session, calls a function, and stays."""
    if pid := os.fork():
        return pid
    os.setsid()
    work()
    time.sleep(600)
    os._exit(1)


@pytest.mark.parametrize("killed", ["launcher", "torchrun"])
def test_a_rank_ends_with_torchrun_and_with_the_training_that_has_started_it(
    killed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_torchrun() -> None:
        rank = forked(ranks.end_with_torchrun.__wrapped__)
        (tmp_path / "part").write_text(str(rank))
        (tmp_path / "part").rename(tmp_path / "rank")

    started = {"launcher": forked(lambda: None)}
    monkeypatch.setenv(ranks.LAUNCHER, str(started["launcher"]))
    started["torchrun"] = forked(be_torchrun)
    try:
        until((tmp_path / "rank").exists)
        rank = int((tmp_path / "rank").read_text())
        assert is_alive(rank)
        os.kill(started[killed], signal.SIGKILL)
        os.waitpid(started.pop(killed), 0)
        assert gone(rank)
        assert killed == "torchrun" or gone(started["torchrun"])
    finally:
        for pid in started.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
