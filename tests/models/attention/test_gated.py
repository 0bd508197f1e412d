"""Gated attention against NumPy in float64, written from the formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sentattn.models.attention.gated import Gated

LENGTHS = (4, 1, 2)


@pytest.mark.parametrize("hops", [1, 3])
def test_equals_the_formula(hops: int) -> None:
    torch.manual_seed(3)
    module = Gated(dim=5, hops=hops, hidden=4).double()
    states_BLD = torch.randn(3, 4, 5, dtype=torch.float64)
    attended = module(states_BLD, torch.arange(4) < torch.tensor(LENGTHS)[:, None])
    v, u, w = (layer.weight.detach().numpy() for layer in (module.hidden, module.gate, module.scores))
    for row, n in enumerate(LENGTHS):
        states_LD = states_BLD[row].numpy()
        units = [np.tanh(v @ states_LD[t]) / (1 + np.exp(-(u @ states_LD[t]))) for t in range(n)]
        exponentials = np.exp([w @ unit for unit in units]).T
        weights = exponentials / exponentials.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(attended.weights_BRL[row, :, :n].detach(), weights, atol=1e-12)
        np.testing.assert_allclose(attended.values_BRD[row].detach(), weights @ states_LD[:n], atol=1e-12)


def test_a_closed_gate_hides_a_unit() -> None:
    module = Gated(dim=2, hidden=1)
    with torch.no_grad():
        for layer, weights in ((module.hidden, [[9.0, 0.0]]), (module.gate, [[0.0, -99.0]]), (module.scores, [[9.0]])):
            layer.weight.copy_(torch.tensor(weights))
    attended = module(torch.tensor([[[1.0, 1.0], [0.0, 1.0]]]), torch.tensor([[True, True]]))
    torch.testing.assert_close(attended.weights_BRL, torch.tensor([[[0.5, 0.5]]]))


@pytest.mark.parametrize(("hops", "expected"), [(1, 2 * 128 * 500 + 128), (4, 2 * 128 * 500 + 4 * 128)])
def test_parameter_count_of_the_paper(hops: int, expected: int) -> None:
    assert sum(p.numel() for p in Gated(dim=500, hops=hops, hidden=128).parameters()) == expected
