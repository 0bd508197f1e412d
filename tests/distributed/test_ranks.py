"""What a process alone is told, and how faults come together; test_two_processes.py has the rest."""

from __future__ import annotations

import pytest
import torch
from torch import distributed

from sentattn.distributed import ranks
from sentattn.errors import DataError, RunError, SettingError


def test_one_process_is_its_own_leader_and_hears_itself() -> None:
    tensor = torch.tensor([1.0, 2.0], requires_grad=True)
    assert (ranks.world(), ranks.rank(), ranks.is_rank_zero(), ranks.several()) == (1, 0, True, False)
    assert ranks.summed(tensor) is tensor
    assert ranks.total(tensor) is tensor
    assert ranks.gather("x") == ["x"]
    assert ranks.from_rank_zero("x") == "x"
    assert ranks.largest(3, 0) == [3, 0]
    ranks.wait_for_rank_zero()


def test_one_process_keeps_its_random_numbers() -> None:
    before = torch.get_rng_state()
    ranks.offset_seed_by_rank()
    assert torch.equal(torch.get_rng_state(), before)


def test_a_fault_passes_on_its_kind_and_words() -> None:
    with pytest.raises(DataError) as caught, ranks.together():
        raise DataError("One.", "Two.")
    assert caught.value.messages == ("One.", "Two.")


def test_all_ranks_raise_the_faults_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = [None, RunError("Disk full."), RunError("Disk full.", "No GPU.")]
    monkeypatch.setattr(ranks, "gather", lambda own: [own, *elsewhere])
    with pytest.raises(RunError) as caught, ranks.together():
        pass
    assert caught.value.messages == ("Disk full.", "No GPU.")
    with pytest.raises(SettingError) as caught_too, ranks.together():
        raise SettingError("Wrong.")
    assert caught_too.value.messages == ("Wrong.", "Disk full.", "No GPU.")


def test_an_error_that_is_no_users_fault_is_not_waited_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "gather", lambda own: pytest.fail("the others may never come here"))
    with pytest.raises(ZeroDivisionError), ranks.together():
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("[../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer"), True),
        (distributed.DistBackendError("NCCL communicator was aborted"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("gloo"), False),
    ],
)
def test_which_errors_say_that_a_rank_is_gone(error: Exception, *, expected: bool) -> None:
    assert ranks.lost(error) is expected


def test_threads_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)), raising=False)
    assert [ranks.threads(processes) for processes in (1, 3, 16, 64)] == [16, 5, 1, 1]
