"""The first state by hand."""

from __future__ import annotations

import pytest
import torch

from sentattn.models.attention.first import First

STATES_BLD = torch.arange(24.0).reshape(2, 3, 4)
MASK_BL = torch.tensor([[True, True, False], [True, False, False]])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_value_is_the_first_state_and_its_weight_one(dtype: torch.dtype) -> None:
    attended = First(dim=4)(STATES_BLD.to(dtype), MASK_BL)
    assert attended.values_BRD.tolist() == [[[0.0, 1.0, 2.0, 3.0]], [[12.0, 13.0, 14.0, 15.0]]]
    assert attended.weights_BRL.tolist() == [[[1.0, 0.0, 0.0]]] * 2
    assert attended.values_BRD.dtype == dtype
    assert attended.weights_BRL.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


def test_gradient_goes_to_the_first_token() -> None:
    states = STATES_BLD.clone().requires_grad_()
    First(dim=4)(states, MASK_BL).values_BRD.sum().backward()
    assert states.grad is not None
    assert states.grad[:, 0].tolist() == [[1.0] * 4] * 2
    assert not states.grad[:, 1:].any()
