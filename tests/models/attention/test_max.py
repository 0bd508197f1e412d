"""Max over the tokens by hand."""

from __future__ import annotations

import pytest
import torch

from sentattn.models.attention.max import Max

STATES_BLD = torch.tensor([[[1.0, 5.0, 2.0, -3.0], [4.0, 5.0, 1.0, -2.0], [9.0, 9.0, 9.0, 9.0]]])


def test_values_are_maxima_and_weights_the_shares_of_channels_with_ties_shared() -> None:
    attended = Max(dim=4)(STATES_BLD, torch.tensor([[True, True, False]]))
    assert attended.values_BRD.tolist() == [[[4.0, 5.0, 2.0, -2.0]]]
    assert attended.weights_BRL.tolist() == [[[1.5 / 4, 2.5 / 4, 0.0]]]


def test_gradient_goes_to_the_maximum() -> None:
    states = STATES_BLD.clone().requires_grad_()
    Max(dim=4)(states, torch.tensor([[True, True, True]])).values_BRD.sum().backward()
    assert states.grad is not None
    assert states.grad.tolist() == [[[0.0] * 4, [0.0] * 4, [1.0] * 4]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_weights_keep_at_least_single_precision(dtype: torch.dtype) -> None:
    attended = Max(dim=4)(STATES_BLD.to(dtype), torch.tensor([[True, True, False]]))
    assert attended.values_BRD.dtype == dtype
    assert attended.weights_BRL.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
