"""Figures of weights, against numbers by hand and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import entropy as scipy_entropy

from sentattn.insight.shape import entropy, is_punctuation, is_ranking, overlap, profile, shape, stop_words

SHARP = np.array([[0.5, 0.25, 0.25, 0.0]])


def drawn(hops: int, length: int) -> np.ndarray:
    return np.random.default_rng(3).dirichlet(np.ones(length), size=hops)


def test_entropy_is_that_of_scipy() -> None:
    assert entropy(SHARP) == pytest.approx([1.5 * np.log(2)])
    weights = drawn(4, 50)
    assert entropy(weights) == pytest.approx(scipy_entropy(weights, axis=1), abs=1e-12)


def test_effective_tokens_are_those_of_even_weights() -> None:
    found = shape(SHARP, ["good", "film", "really", "good"])
    assert found["effective_tokens"] == pytest.approx(2**1.5)
    assert found["effective_share"] == pytest.approx(2**1.5 / 4)
    assert found["evenness"] == pytest.approx(0.75)
    even = shape(np.full((2, 7), 1 / 7), ["a"] * 7)
    assert [even["effective_tokens"], even["evenness"]] == pytest.approx([7, 1])


def test_one_token_has_no_evenness() -> None:
    found = shape(np.ones((1, 1)), ["fine"])
    assert np.isnan(found["evenness"])
    assert found["effective_tokens"] == 1


def test_overlap_by_hand() -> None:
    assert overlap(np.array([[0.5, 0.5, 0], [0, 0.5, 0.5]])) == pytest.approx(0.5)
    assert overlap(np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]])) == pytest.approx(1)
    assert overlap(np.eye(3)) == 0
    assert np.isnan(overlap(SHARP))


def test_overlap_does_not_depend_on_the_order_of_hops() -> None:
    weights = drawn(5, 20)
    assert overlap(weights[[3, 0, 4, 1, 2]]) == pytest.approx(overlap(weights), abs=1e-12)


def test_position_profile() -> None:
    assert profile(np.full(7, 1 / 7)) == pytest.approx(np.full(10, 0.1))
    assert profile(np.array([0.3, 0.7])) == pytest.approx([0.06] * 5 + [0.14] * 5)
    one_hot = np.zeros(20)
    one_hot[3] = 1
    assert profile(one_hot) == pytest.approx([0, 1, *[0] * 8])


def test_weights_that_tie_rank_nothing() -> None:
    assert not is_ranking(np.full(5, 0.2))
    assert not is_ranking(np.array([0, 0, 1.0]))
    assert not is_ranking(np.array([0.5, 0, 0.5]))
    assert is_ranking(np.array([0.5, 0.2, 0.3]))


def test_weight_on_kinds_of_tokens() -> None:
    found = shape(np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.2, 0.1, 0.4]]), ["The", "film", "!!", "10"])
    assert found["stop_words"] == pytest.approx(0.2)
    assert found["stop_word_tokens"] == pytest.approx(0.25)
    assert found["punctuation"] == pytest.approx(0.2)
    assert found["punctuation_tokens"] == pytest.approx(0.25)
    assert is_punctuation("...")
    assert not is_punctuation("8/10")
    assert "not" in stop_words()
