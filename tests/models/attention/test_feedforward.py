"""Feed-forward attention against NumPy in float64, written from the formula, and its tanh and biases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sentattn.models.attention.feedforward import Feedforward

LENGTHS = (4, 2)
MASK_BL = torch.tensor([[True] * 4, [True, True, False, False]])


def drawn(**arguments: Any) -> Feedforward:
    torch.manual_seed(3)
    module = Feedforward(dim=5, **arguments).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module


@pytest.mark.parametrize("squash", ["none", "tanh"])
@pytest.mark.parametrize("position_bias", [None, 6])
def test_equals_the_formula(squash: str, position_bias: int | None) -> None:
    module = drawn(squash=squash, position_bias=position_bias)
    states_BLD = torch.randn(2, 4, 5, dtype=torch.float64)
    attended = module(states_BLD, MASK_BL)
    w, b = module.weight.detach().numpy()[0], module.bias.detach().numpy()
    for row, n in enumerate(LENGTHS):
        states_LD = states_BLD[row].numpy()
        scores = np.array([w @ states_LD[t] + (b[0] if position_bias is None else b[t]) for t in range(n)])
        exponentials = np.exp(np.tanh(scores) if squash == "tanh" else scores)
        weights = exponentials / exponentials.sum()
        np.testing.assert_allclose(attended.weights_BRL[row, 0, :n].detach(), weights, atol=1e-12)
        np.testing.assert_allclose(attended.values_BRD[row, 0].detach(), weights @ states_LD[:n], atol=1e-12)


def test_two_tokens_by_hand() -> None:
    module = Feedforward(dim=2)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[math.log(3.0), 0.0]]))
    attended = module(torch.tensor([[[1.0, 4.0], [0.0, 8.0]]]), torch.tensor([[True, True]]))
    torch.testing.assert_close(attended.weights_BRL, torch.tensor([[[0.75, 0.25]]]))
    torch.testing.assert_close(attended.values_BRD, torch.tensor([[[0.75, 5.0]]]))


@given(st.lists(st.lists(st.floats(-1e3, 1e3), min_size=5, max_size=5), min_size=2, max_size=6))
def test_with_tanh_no_token_weighs_more_than_e_squared_times_another(states: list[list[float]]) -> None:
    states_BLD = torch.tensor([states], dtype=torch.float64)
    mask_BL = torch.ones(states_BLD.shape[:2], dtype=torch.bool)
    weights = drawn(squash="tanh")(states_BLD, mask_BL).weights_BRL
    assert weights.max() <= weights.min() * math.exp(2) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("arguments", "blind"),
    [
        ({}, ("bias",)),
        ({"squash": "tanh"}, ()),
        ({"position_bias": 4}, ()),
        ({"squash": "tanh", "position_bias": 4}, ()),
    ],
    ids=str,
)
def test_the_softmax_cannot_see_a_bias_added_to_all_scores_alike(
    arguments: dict[str, Any], blind: tuple[str, ...]
) -> None:
    module = drawn(**arguments)
    module(torch.randn(2, 4, 5, dtype=torch.float64), MASK_BL).values_BRD.square().sum().backward()
    assert module.shift_invariant_parameters == blind
    assert module.bias.grad is not None
    assert (module.bias.grad.abs().max() < 1e-12) == bool(blind)


def test_positions_behind_every_text_learn_nothing() -> None:
    module = drawn(position_bias=6)
    module(torch.randn(2, 4, 5, dtype=torch.float64), MASK_BL).values_BRD.square().sum().backward()
    assert module.bias.grad is not None
    assert (module.bias.grad[:4] != 0).all()
    assert (module.bias.grad[4:] == 0).all()


def test_a_text_longer_than_the_positions_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="clipped"):
        drawn(position_bias=3)(torch.randn(2, 4, 5, dtype=torch.float64), MASK_BL)


@pytest.mark.parametrize(("position_bias", "expected"), [(None, 150 + 1), (70, 150 + 70)])
def test_parameter_count_of_the_paper_and_of_the_post(position_bias: int | None, expected: int) -> None:
    module = Feedforward(dim=2 * 75, position_bias=position_bias)
    assert sum(p.numel() for p in module.parameters()) == expected
