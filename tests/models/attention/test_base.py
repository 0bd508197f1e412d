"""Weights over real tokens by softmax and by its sparse kin, and the weighted sum of states."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sentattn.models.attention.base import Normalizer, masked_softmax, weighted_sum

NORMALIZERS = get_args(Normalizer)


def test_by_hand() -> None:
    scores = torch.tensor([[[0.0, math.log(3.0), 50.0]]])
    weights = masked_softmax(scores, torch.tensor([[True, True, False]]))
    torch.testing.assert_close(weights, torch.tensor([[[0.25, 0.75, 0.0]]]))


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_padding_is_exactly_zero_even_beside_very_low_scores(normalizer: Normalizer) -> None:
    scores = torch.full((1, 1, 3), -1e38)
    weights = masked_softmax(scores, torch.tensor([[True, True, False]]), normalizer)
    assert weights[0, 0].tolist() == pytest.approx([0.5, 0.5, 0.0])
    assert weights[0, 0, 2] == 0.0


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_row_of_padding_alone_is_all_zero_and_finite(normalizer: Normalizer) -> None:
    scores = torch.zeros(1, 2, 3, requires_grad=True)
    weights = masked_softmax(scores, torch.zeros(1, 3, dtype=torch.bool), normalizer)
    weights.sum().backward()
    assert weights.tolist() == [[[0.0] * 3] * 2]
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


SCORES = st.lists(st.floats(-300, 300), min_size=1, max_size=8)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@given(SCORES, st.integers(0, 4), st.floats(-100, 100))
def test_a_shift_of_all_scores_and_more_padding_change_nothing(
    normalizer: Normalizer, scores: list[float], more: int, shift: float
) -> None:
    mask = torch.tensor([[True] * len(scores) + [False] * more])
    values = torch.tensor([[scores + [9.0] * more]], dtype=torch.float64)
    weights = masked_softmax(values, mask, normalizer)
    torch.testing.assert_close(weights, masked_softmax(values + shift, mask, normalizer), atol=1e-9, rtol=0)
    torch.testing.assert_close(weights.sum(), torch.tensor(1.0, dtype=torch.float64))


@pytest.mark.parametrize(("normalizer", "scale", "power"), [("sparsemax", 1.0, 1.0), ("entmax15", 0.5, 2.0)])
@given(st.one_of(SCORES, st.lists(st.floats(-1, 1), min_size=1, max_size=8)))
def test_sparse_weights_are_those_of_the_threshold_by_bisection(
    normalizer: Normalizer, scale: float, power: float, scores: list[float]
) -> None:
    z = scale * np.array(scores)
    low, high = z.max() - 1, z.max()
    for _ in range(100):
        tau = (low + high) / 2
        low, high = (tau, high) if (np.maximum(z - tau, 0) ** power).sum() > 1 else (low, tau)
    expected = np.maximum(z - tau, 0) ** power
    mask = torch.ones(1, len(scores), dtype=torch.bool)
    weights = masked_softmax(torch.tensor([[scores]]).double(), mask, normalizer)
    np.testing.assert_allclose(weights[0, 0].numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("normalizer", ["sparsemax", "entmax15"])
def test_sparse_weights_have_the_gradient_of_finite_differences(normalizer: Normalizer) -> None:
    scores = torch.tensor([[[0.3, 0.2, 0.6, 0.4, -4.0, 7.0], [2.0, 0.0, -1.0, 0.0, 0.5, 7.0]]]).double()
    mask = torch.tensor([[True] * 5 + [False]])
    weights = masked_softmax(scores, mask, normalizer)
    assert weights[0, 0, 4] == 0 < weights[0, 0, :4].min()
    assert torch.autograd.gradcheck(lambda s: masked_softmax(s, mask, normalizer), scores.requires_grad_())


@pytest.mark.parametrize("length", [100, 230, 600])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_mean_in_bfloat16_has_no_scale_that_depends_on_the_length(length: int, *, mixed: bool) -> None:
    weights_BRL = torch.full((2, 3, length), 1 / length)
    states_BLD = torch.ones(2, length, 4, dtype=torch.float32 if mixed else torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        assert weighted_sum(weights_BRL, states_BLD).flatten().tolist() == pytest.approx([1.0] * 24, abs=1e-5)


def test_a_weighted_sum_in_float32_is_the_product() -> None:
    torch.manual_seed(0)
    weights_BRL, states_BLD = torch.rand(2, 3, 50), torch.randn(2, 50, 4)
    assert torch.equal(weighted_sum(weights_BRL, states_BLD), weights_BRL @ states_BLD)
