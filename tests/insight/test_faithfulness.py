"""Removed tokens, against the closed form of a linear model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from small_models import random_texts, small_model

from sentattn.insight.faithfulness import SHARES, drops, order, rank_correlation, summary, unknown_probability

LENGTHS = (1, 9, 2, 150, 15)
FIRST = {1: [1] * 5, 9: [1, 1, 1, 2, 5], 2: [1] * 5, 150: [2, 8, 15, 30, 75], 15: [1, 1, 2, 3, 8]}
"""ceil(k n), at least 1, by hand."""


def test_linear_model_in_closed_form() -> None:
    model, texts = small_model("model=mean", classes=2), random_texts(*LENGTHS)
    vectors = model.embedding.vectors.weight.detach().numpy()
    layer = model.head.layers[-1]
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    scores = vectors @ (weight[1] - weight[0])

    def probability(ids: np.ndarray) -> float:
        return expit(scores[ids].mean() + bias[1] - bias[0])

    random = np.random.default_rng(0)
    orders = [[random.permutation(len(ids)) for _ in range(3)] for ids in texts]
    found = drops(model, texts, np.ones(len(texts), dtype=np.int64), orders)
    assert found.shape == (5, 3, 2, 2, len(SHARES))
    assert np.isnan(found[0]).all()
    for i, ids in enumerate(texts[1:], start=1):
        for q, ranking in enumerate(orders[i]):
            for k, count in enumerate(FIRST[len(ids)]):
                first, rest = sorted(ranking[:count]), sorted(ranking[count:])
                unknown = np.ones_like(ids)
                without, only = np.where(np.isin(range(len(ids)), rest), [ids, unknown], [unknown, ids])
                expected = [[ids[rest], ids[first]], [without, only]]
                falls = [[probability(ids) - probability(one) for one in kinds] for kinds in expected]
                assert found[i, q, :, :, k] == pytest.approx(np.array(falls), abs=1e-12)
    expected_unknown = [probability(np.ones_like(ids)) for ids in texts]
    assert unknown_probability(model, texts, np.ones(5, dtype=np.int64)) == pytest.approx(expected_unknown, abs=1e-12)


def test_summary_is_the_mean_over_shares_and_rankings() -> None:
    falls = np.random.default_rng(0).random((4, 3, 2, 2, 5))
    found = summary(falls, {"attention": [0], "random": [1, 2]})
    assert found["comprehensiveness_deleted_attention"] == pytest.approx(falls[:, 0, 0, 0].mean(axis=1))
    assert found["sufficiency_replaced_random"] == pytest.approx(falls[:, 1:, 1, 1].mean(axis=(1, 2)))
    assert found["sufficiency_deleted_random_20"] == pytest.approx(falls[:, 1:, 0, 1, 3].mean(axis=1))
    assert len(found) == 8 * (1 + len(SHARES))


def test_ties_are_not_in_the_order_of_the_text() -> None:
    random = np.random.default_rng(0)
    assert order(np.array([0.1, 0.4, 0.2, 0.3]), random).tolist() == [1, 3, 2, 0]
    tied = [order(np.array([0.0, 0.5, 0.5, 0.5]), random).tolist() for _ in range(100)]
    assert {one[0] for one in tied} == {1, 2, 3}
    assert {one[3] for one in tied} == {0}


def test_rank_correlation_by_hand() -> None:
    assert rank_correlation(np.array([1, 2, 3.0]), np.array([1, 3, 2.0])) == pytest.approx(1 / 3)
    assert rank_correlation(np.array([1, 2, 3.0]), np.array([9, 5, 1.0])) == pytest.approx(-1)
    assert np.isnan(rank_correlation(np.ones(3), np.array([1, 2, 3.0])))
