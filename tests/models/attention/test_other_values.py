"""Attentions whose values are no sums of states: statistics and latents, against NumPy in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from drawn_modules import LENGTHS, MASK_BL, STATES_BLD, drawn

from sentattn.models.attention.latent import Latent
from sentattn.models.attention.statistics import Statistics

WEIGHTS = pytest.mark.parametrize("weights", ["attentive", "uniform"])


def make(weights: Any) -> Statistics:
    return drawn(Statistics(dim=5, weights=weights, hidden=6))


@WEIGHTS
def test_statistics_equal_the_formulas(weights: str) -> None:
    module = make(weights)
    attended = module(STATES_BLD, MASK_BL)
    p = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
    for row, n in enumerate(LENGTHS):
        states_LD = STATES_BLD[row, :n].numpy()
        exponentials = np.ones(n)
        if weights == "attentive":
            scores = [p["score.2.weight"][0] @ np.tanh(p["score.0.weight"] @ h + p["score.0.bias"]) for h in states_LD]
            exponentials = np.exp(scores)
        weights_L = exponentials / exponentials.sum()
        mean = weights_L @ states_LD
        variance = weights_L @ states_LD**2 - mean**2
        deviation = np.sqrt(variance) if n > 1 else np.full(5, 1e-5)
        np.testing.assert_allclose(attended.weights_BRL[row, 0, :n].detach(), weights_L, atol=1e-12)
        np.testing.assert_allclose(attended.values_BRD[row, 0, :5].detach(), mean, atol=1e-12)
        np.testing.assert_allclose(attended.values_BRD[row, 0, 5:].detach(), deviation, atol=1e-12)


@WEIGHTS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_equal_states_have_a_finite_gradient(weights: str, dtype: torch.dtype) -> None:
    module = make(weights).to(dtype)
    states_BLD = torch.full((2, 4, 5), 1.7, dtype=dtype).requires_grad_()
    attended = module(states_BLD, torch.tensor([[True] * 3 + [False], [True] + [False] * 3]))
    attended.values_BRD[..., 5:].sum().backward()
    assert attended.values_BRD[..., 5:].abs().max() < 1e-2
    assert attended.values_BRD.dtype == dtype
    for gradient in (states_BLD.grad, *(parameter.grad for parameter in module.parameters())):
        assert gradient is not None
        assert gradient.isfinite().all()


def test_a_small_deviation_of_large_states_is_exact() -> None:
    states_BLD = 1000 + torch.tensor([-0.01, 0.01, -0.01, 0.01])[None, :, None].expand(1, 4, 5)
    deviation = make("uniform").float()(states_BLD, torch.ones(1, 4, dtype=torch.bool)).values_BRD[..., 5:]
    torch.testing.assert_close(deviation, torch.full((1, 1, 5), 0.01), rtol=0.01, atol=0)


@WEIGHTS
def test_gradients_are_those_of_finite_differences(weights: str) -> None:
    module, mask_BL = make(weights), torch.arange(4) < torch.tensor([4, 3, 2])[:, None]
    assert torch.autograd.gradcheck(
        lambda states_BLD: module(states_BLD, mask_BL)[:2], STATES_BLD.clone().requires_grad_()
    )


@pytest.mark.parametrize(("weights", "expected"), [("attentive", 64 * 100 + 64 + 64), ("uniform", 0)])
def test_parameter_count_of_statistics(weights: Any, expected: int) -> None:
    module = Statistics(dim=100, weights=weights)
    assert sum(p.numel() for p in module.parameters()) == expected
    assert module.out_dim == 200


def test_latent_equals_the_formula() -> None:
    module = drawn(Latent(dim=5, latents=3, hidden=4))
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


def test_parameter_count_of_latent() -> None:
    module = Latent(dim=384, latents=32, hidden=64)
    expected = 32 * 384 + (384 * 64 + 64) + (64 * 384 + 384)
    assert sum(p.numel() for p in module.parameters()) == expected
