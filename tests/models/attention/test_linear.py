"""The linear score against NumPy in float64, written from the formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sentattn.models.attention.linear import Linear
from sentattn.models.attention.uniform import Uniform

LENGTHS = (4, 1, 2)
MASK_BL = torch.arange(4) < torch.tensor(LENGTHS)[:, None]
STATES_BLD = torch.randn(3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("position", [True, False])
@pytest.mark.parametrize("hops", [1, 3])
def test_equals_the_formula(hops: int, position: bool) -> None:
    torch.manual_seed(3)
    module = Linear(dim=5, hops=hops, position=position).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    attended = module(STATES_BLD, MASK_BL)
    queries = module.queries_RD.detach().numpy()
    slopes = np.zeros(hops) if module.slopes_R is None else module.slopes_R.detach().numpy()
    for row, n in enumerate(LENGTHS):
        states_LD = STATES_BLD[row, :n].numpy()
        for hop in range(hops):
            exponentials = np.exp([queries[hop] @ states_LD[t] + slopes[hop] * t for t in range(n)])
            weights = exponentials / exponentials.sum()
            np.testing.assert_allclose(attended.weights_BRL[row, hop, :n].detach(), weights, atol=1e-12)
            np.testing.assert_allclose(attended.values_BRD[row, hop].detach(), weights @ states_LD, atol=1e-12)


def test_it_begins_as_the_mean() -> None:
    begun, mean = Linear(dim=5, hops=2)(STATES_BLD.float(), MASK_BL), Uniform(dim=5)(STATES_BLD.float(), MASK_BL)
    torch.testing.assert_close(begun.values_BRD, mean.values_BRD.expand(-1, 2, -1))
    torch.testing.assert_close(begun.weights_BRL, mean.weights_BRL.expand(-1, 2, -1))


@pytest.mark.parametrize(("position", "expected"), [(True, 4 * 385), (False, 4 * 384)])
def test_parameter_count(position: bool, expected: int) -> None:
    assert sum(p.numel() for p in Linear(dim=384, hops=4, position=position).parameters()) == expected
