"""Structured attention against NumPy in float64, written from the formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sentattn.models.attention.structured import Structured

LENGTHS = (4, 2)


def reference(module: Structured, states_BLD: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    weight1, weight2 = module.hidden.weight.detach().numpy(), module.scores.weight.detach().numpy()
    bias1 = module.hidden.bias.detach().numpy() if module.hidden.bias is not None else 0.0
    bias2 = module.scores.bias.detach().numpy() if module.scores.bias is not None else 0.0
    weights, values = [], []
    for states_LD, n in zip(states_BLD, LENGTHS, strict=True):
        scores = np.array([weight2 @ np.tanh(weight1 @ states_LD[t] + bias1) + bias2 for t in range(n)]).T
        exponentials = np.exp(scores)
        weights.append(exponentials / exponentials.sum(axis=1, keepdims=True))
        values.append(weights[-1] @ states_LD[:n])
    return weights, values


@pytest.mark.parametrize("bias", [True, False])
def test_equals_the_formula(bias: bool) -> None:
    torch.manual_seed(3)
    module = Structured(dim=5, hops=3, hidden=4, bias=bias).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    states_BLD = torch.randn(2, 4, 5, dtype=torch.float64)
    mask_BL = torch.tensor([[True] * 4, [True, True, False, False]])
    attended = module(states_BLD, mask_BL)
    weights, values = reference(module, states_BLD.numpy())
    for row, n in enumerate(LENGTHS):
        np.testing.assert_allclose(attended.weights_BRL[row, :, :n].detach(), weights[row], atol=1e-12)
        np.testing.assert_allclose(attended.values_BRD[row].detach(), values[row], atol=1e-12)


def test_one_token_by_hand() -> None:
    module = Structured(dim=2, hops=2, hidden=3)
    attended = module(torch.tensor([[[3.0, -1.0]]]), torch.tensor([[True]]))
    assert attended.weights_BRL.tolist() == [[[1.0], [1.0]]]
    assert attended.values_BRD.tolist() == [[[3.0, -1.0], [3.0, -1.0]]]


@pytest.mark.parametrize(("bias", "expected"), [(True, 300 * 600 + 300 + 2 * 300 + 2), (False, 300 * 600 + 2 * 300)])
def test_parameter_count_of_the_tutorial_and_of_the_paper(bias: bool, expected: int) -> None:
    module = Structured(dim=600, hops=2, hidden=300, bias=bias)
    assert sum(p.numel() for p in module.parameters()) == expected


def test_dropout_is_for_the_scores_alone() -> None:
    torch.manual_seed(0)
    module = Structured(dim=5, hops=3, hidden=40, dropout=0.5)
    states_BLD, mask_BL = torch.randn(2, 4, 5), torch.ones(2, 4, dtype=torch.bool)
    dropped = module.train()(states_BLD, mask_BL)
    torch.testing.assert_close(dropped.values_BRD, dropped.weights_BRL @ states_BLD)
    whole = module.eval()(states_BLD, mask_BL)
    assert not torch.allclose(dropped.weights_BRL, whole.weights_BRL)
    torch.testing.assert_close(module(states_BLD, mask_BL).weights_BRL, whole.weights_BRL)
