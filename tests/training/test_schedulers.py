"""Learning rates step by step, against their formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from refusals import refused
from torch.optim import SGD

from sentattn.training.schedulers import Constant, Cosine, OneCycle, Step, Steps

PEAK = 0.1


def rates_of_groups(schedule: Any, *peaks: float, total: int = 20, per_epoch: int = 5) -> list[list[float]]:
    """Returns the learning rate of each group of parameters, step by step."""
    optimizer = SGD([{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": peak} for peak in peaks])
    found = schedule(optimizer, Steps(total, per_epoch))
    seen = []
    for _ in range(total):
        seen.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        if found:
            found.step()
    return [list(rates) for rates in zip(*seen, strict=True)]


def rates(schedule: Any, total: int = 20, per_epoch: int = 5) -> list[float]:
    return rates_of_groups(schedule, PEAK, total=total, per_epoch=per_epoch)[0]


def test_constant() -> None:
    assert rates(Constant()) == [PEAK] * 20


def test_step_halves_after_each_two_epochs() -> None:
    assert rates(Step(step_epochs=2, gamma=0.5)) == pytest.approx([PEAK] * 10 + [PEAK / 2] * 10)


def test_one_cycle_starts_low_peaks_and_ends_near_zero() -> None:
    seen = rates(OneCycle(warmup_fraction=0.25, initial_divisor=10.0, final_divisor=100.0), total=21)
    assert seen[0] == pytest.approx(PEAK / 10)
    assert max(seen) == pytest.approx(PEAK, rel=0.02)
    assert seen.index(max(seen)) in (4, 5)
    assert seen[-1] == pytest.approx(PEAK / 10 / 100)
    assert seen[5:] == sorted(seen[5:], reverse=True)


@pytest.mark.parametrize("total", range(1, 9))
@pytest.mark.parametrize("schedule", [OneCycle(), OneCycle(warmup_fraction=0.0), Cosine(warmup_fraction=0.3), Step()])
def test_schedules_of_a_few_steps(schedule: Any, total: int) -> None:
    assert all(0 <= rate <= PEAK * 1.001 for rate in rates(schedule, total=total, per_epoch=1))


def test_cosine_rises_in_a_line_and_falls_along_a_cosine() -> None:
    seen = rates(Cosine(warmup_fraction=0.25, final_fraction=0.1))
    assert seen[:5] == pytest.approx([PEAK * (1 / 6 + i / 5 * (5 / 6)) for i in range(5)])
    low = 0.1 * PEAK
    assert seen[5:] == pytest.approx([low + (PEAK - low) * (1 + math.cos(math.pi * i / 15)) / 2 for i in range(15)])


def test_cosine_scales_several_learning_rates_alike() -> None:
    cosine = Cosine(warmup_fraction=0.25, final_fraction=0.1)
    first, second = rates_of_groups(cosine, PEAK, 5000 * PEAK)
    assert first == pytest.approx(rates(cosine))
    assert second == pytest.approx([5000 * rate for rate in first])


def test_values_out_of_range_are_refused() -> None:
    assert refused(lambda: Step(gamma=0.0)) == [("gamma", "range")]
    assert refused(lambda: OneCycle(warmup_fraction=1.0)) == [("warmup_fraction", "range")]
