"""The average of the weights, by hand."""

from __future__ import annotations

import pytest
import torch

from sentattn.training.ema import WarmEMA


def test_average_by_hand() -> None:
    average = WarmEMA(decay=0.9)
    averaged, expected = [torch.tensor([0.0])], 0.0
    for step in range(50):
        assert average.should_update(step_idx=step)
        average._average(averaged, [torch.tensor([float(step)])], step)
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * step
    assert float(averaged[0]) == pytest.approx(expected, rel=1e-5)
    assert not average.should_update(epoch_idx=0)
