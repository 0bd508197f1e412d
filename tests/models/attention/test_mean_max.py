"""Mean and maximum by hand."""

from __future__ import annotations

import pytest
import torch

from sentattn.models.attention.mean_max import MeanMax

STATES_BLD = torch.tensor([[[1.0, 5.0, 2.0, -3.0], [4.0, 5.0, 1.0, -2.0], [9.0, 9.0, 9.0, 9.0]]])


def test_values_are_means_and_maxima_and_weights_half_of_each() -> None:
    attended = MeanMax(dim=4)(STATES_BLD, torch.tensor([[True, True, False]]))
    assert attended.values_BRD.tolist() == [[[2.5, 5.0, 1.5, -2.5, 4.0, 5.0, 2.0, -2.0]]]
    assert attended.weights_BRL.tolist() == [[[(1 / 2 + 1.5 / 4) / 2, (1 / 2 + 2.5 / 4) / 2, 0.0]]]


def test_one_token_is_both() -> None:
    attended = MeanMax(dim=4)(STATES_BLD, torch.tensor([[True, False, False]]))
    assert attended.values_BRD.tolist() == [[[1.0, 5.0, 2.0, -3.0] * 2]]
    assert attended.weights_BRL.tolist() == [[[1.0, 0.0, 0.0]]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_weights_keep_at_least_single_precision(dtype: torch.dtype) -> None:
    attended = MeanMax(dim=4)(STATES_BLD.to(dtype), torch.tensor([[True, True, False]]))
    assert attended.values_BRD.dtype == dtype
    assert attended.weights_BRL.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
