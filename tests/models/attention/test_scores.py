"""Attentions that score each token, against NumPy in float64, written from their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from drawn_modules import LENGTHS, MASK_BL, STATES_BLD, drawn
from hypothesis import given
from hypothesis import strategies as st

from sentattn.models.attention.base import Attention
from sentattn.models.attention.feedforward import Feedforward
from sentattn.models.attention.gated import Gated
from sentattn.models.attention.linear import Linear
from sentattn.models.attention.structured import Structured
from sentattn.models.attention.uniform import Uniform

Weights = dict[str, np.ndarray]
Scores = Callable[[Weights, np.ndarray, int], np.ndarray]
"""Parameters by name, the state of a token, its place -> the score of each hop."""


def feedforward(p: Weights, h: np.ndarray, t: int) -> np.ndarray:
    return p["weight"] @ h + (p["bias"][0] if len(p["bias"]) == 1 else p["bias"][t])


def gated(p: Weights, h: np.ndarray, t: int) -> np.ndarray:
    return p["scores.weight"] @ (np.tanh(p["hidden.weight"] @ h) / (1 + np.exp(-(p["gate.weight"] @ h))))


def linear(p: Weights, h: np.ndarray, t: int) -> np.ndarray:
    return p["queries_RD"] @ h + p.get("slopes_R", 0.0) * t


def structured(p: Weights, h: np.ndarray, t: int) -> np.ndarray:
    hidden = np.tanh(p["hidden.weight"] @ h + p.get("hidden.bias", 0.0))
    return p["scores.weight"] @ hidden + p.get("scores.bias", 0.0)


@pytest.mark.parametrize(
    ("module", "scores"),
    [
        (Feedforward(dim=5), feedforward),
        (Feedforward(dim=5, position_bias=6), feedforward),
        (Feedforward(dim=5, squash="tanh"), lambda *given: np.tanh(feedforward(*given))),
        (Feedforward(dim=5, squash="tanh", position_bias=6), lambda *given: np.tanh(feedforward(*given))),
        *((Gated(dim=5, hops=hops, hidden=4), gated) for hops in (1, 3)),
        *((Linear(dim=5, hops=hops, position=position), linear) for hops in (1, 3) for position in (True, False)),
        *((Structured(dim=5, hops=3, hidden=4, bias=bias), structured) for bias in (True, False)),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Attention) else "",
)
def test_equals_the_formula(module: Attention, scores: Scores) -> None:
    attended = drawn(module)(STATES_BLD, MASK_BL)
    p = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
    for row, n in enumerate(LENGTHS):
        states_LD = STATES_BLD[row, :n].numpy()
        exponentials = np.exp([scores(p, h, t) for t, h in enumerate(states_LD)]).T
        weights = exponentials / exponentials.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(attended.weights_BRL[row, :, :n].detach(), weights, atol=1e-12)
        np.testing.assert_allclose(attended.values_BRD[row].detach(), weights @ states_LD, atol=1e-12)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (Feedforward(dim=2 * 75), 150 + 1),
        (Feedforward(dim=2 * 75, position_bias=70), 150 + 70),  # of the post
        (Gated(dim=500, hidden=128), 2 * 128 * 500 + 128),
        (Gated(dim=500, hops=4, hidden=128), 2 * 128 * 500 + 4 * 128),
        (Linear(dim=384, hops=4), 4 * 385),
        (Linear(dim=384, hops=4, position=False), 4 * 384),
        (Structured(dim=600, hops=2, hidden=300), 300 * 600 + 300 + 2 * 300 + 2),  # of the tutorial
        (Structured(dim=600, hops=2, hidden=300, bias=False), 300 * 600 + 2 * 300),  # of the paper
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Attention) else "",
)
def test_parameter_counts(module: Attention, expected: int) -> None:
    assert sum(p.numel() for p in module.parameters()) == expected


def test_two_tokens_of_feedforward_by_hand() -> None:
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
    weights = drawn(Feedforward(dim=5, squash="tanh"))(states_BLD, mask_BL).weights_BRL
    assert weights.max() <= weights.min() * math.exp(2) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("arguments", "is_blind"),
    [
        ({}, True),
        ({"squash": "tanh"}, False),
        ({"position_bias": 6}, False),
        ({"squash": "tanh", "position_bias": 6}, False),
    ],
    ids=str,
)
def test_the_softmax_cannot_see_a_bias_added_to_all_scores_alike(arguments: dict[str, Any], is_blind: bool) -> None:
    module = drawn(Feedforward(dim=5, **arguments))
    module(STATES_BLD, MASK_BL).values_BRD.square().sum().backward()
    gradient = dict(module.named_parameters())["bias"].grad
    assert gradient is not None
    assert (gradient[:4].abs().max() < 1e-12) == is_blind
    assert (gradient[4:] == 0).all()  # positions behind every text learn nothing


def test_a_text_longer_than_the_positions_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="clipped"):
        drawn(Feedforward(dim=5, position_bias=3))(STATES_BLD, MASK_BL)


def test_a_closed_gate_hides_a_unit() -> None:
    module = Gated(dim=2, hidden=1)
    with torch.no_grad():
        for layer, weights in ((module.hidden, [[9.0, 0.0]]), (module.gate, [[0.0, -99.0]]), (module.scores, [[9.0]])):
            layer.weight.copy_(torch.tensor(weights))
    attended = module(torch.tensor([[[1.0, 1.0], [0.0, 1.0]]]), torch.tensor([[True, True]]))
    torch.testing.assert_close(attended.weights_BRL, torch.tensor([[[0.5, 0.5]]]))


def test_linear_begins_as_the_mean() -> None:
    begun, mean = Linear(dim=5, hops=2)(STATES_BLD.float(), MASK_BL), Uniform(dim=5)(STATES_BLD.float(), MASK_BL)
    torch.testing.assert_close(begun.values_BRD, mean.values_BRD.expand(-1, 2, -1))
    torch.testing.assert_close(begun.weights_BRL, mean.weights_BRL.expand(-1, 2, -1))


def test_dropout_of_structured_is_for_the_scores_alone() -> None:
    torch.manual_seed(0)
    module = Structured(dim=5, hops=3, hidden=40, dropout=0.5)
    states_BLD, mask_BL = torch.randn(2, 4, 5), torch.ones(2, 4, dtype=torch.bool)
    dropped = module.train()(states_BLD, mask_BL)
    torch.testing.assert_close(dropped.values_BRD, dropped.weights_BRL @ states_BLD)
    whole = module.eval()(states_BLD, mask_BL)
    assert not torch.allclose(dropped.weights_BRL, whole.weights_BRL)
    torch.testing.assert_close(module(states_BLD, mask_BL).weights_BRL, whole.weights_BRL)
