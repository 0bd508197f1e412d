"""Latent attention against NumPy in float64, written from the formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sentattn.models.attention.latent import Latent

LENGTHS = (4, 1, 2)
MASK_BL = torch.arange(4) < torch.tensor(LENGTHS)[:, None]
STATES_BLD = torch.randn(3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


@pytest.fixture
def module() -> Latent:
    torch.manual_seed(3)
    module = Latent(dim=5, latents=3, hidden=4).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module


def test_equals_the_formula(module: Latent) -> None:
    attended = module(STATES_BLD, MASK_BL)
    p = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
    latents = p["latents_MD"]
    for row, n in enumerate(LENGTHS):
        outputs = []
        for state in STATES_BLD[row, :n].numpy():
            shares = np.exp(latents @ state / math.sqrt(5))
            read = state + shares @ latents / shares.sum()
            hidden = p["network.0.weight"] @ read + p["network.0.bias"]
            gelu = np.array([x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in hidden])
            outputs.append(read + p["network.2.weight"] @ gelu + p["network.2.bias"])
        np.testing.assert_allclose(attended.values_BRD[row, 0].detach(), np.mean(outputs, axis=0), atol=1e-12)
        assert attended.weights_BRL[row, 0].tolist() == [1 / n] * n + [0.0] * (4 - n)


def test_parameter_count() -> None:
    module = Latent(dim=384, latents=32, hidden=64)
    expected = 32 * 384 + (384 * 64 + 64) + (64 * 384 + 384)
    assert sum(p.numel() for p in module.parameters()) == expected
