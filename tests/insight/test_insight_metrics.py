"""Shape and plausibility of weights, against numbers by hand and SciPy."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import entropy as scipy_entropy

from sentattn.insight.metrics import (
    average_precision,
    expected_average_precision,
    expected_best,
    is_ranking,
    overlap,
    plausibility,
    profile,
    shape,
)

SPANS = [(0, 3), (4, 8), (8, 9), (10, 15)]
SHARP = np.array([[0.5, 0.25, 0.25, 0.0]])


def drawn(hops: int, length: int) -> np.ndarray:
    return np.random.default_rng(3).dirichlet(np.ones(length), size=hops)


def test_evenness_is_the_entropy_of_scipy() -> None:
    weights = drawn(4, 50)
    found = shape(weights, ["a"] * 50)
    assert found["evenness"] == pytest.approx(scipy_entropy(weights, axis=1).mean() / np.log(50), abs=1e-12)


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
    found = shape(np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.2, 0.1, 0.4]]), ["The", "film", "!!", "8/10"])
    assert found["stop_words"] == pytest.approx(0.2)
    assert found["stop_word_tokens"] == pytest.approx(0.25)
    assert found["punctuation"] == pytest.approx(0.2)
    assert found["punctuation_tokens"] == pytest.approx(0.25)


def test_average_precision_by_hand() -> None:
    gold = np.array([False, True, False, True])
    assert average_precision(np.array([0.4, 0.3, 0.2, 0.1]), gold) == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert average_precision(np.array([0.1, 0.4, 0.2, 0.3]), gold) == pytest.approx(1)


def test_tied_tokens_have_one_rank() -> None:
    weights = np.array([0.4, 0.3, 0.3])
    for gold in ([False, True, False], [False, False, True]):
        assert average_precision(weights, np.array(gold)) == pytest.approx(1 / 3)
    assert np.isnan(average_precision(np.full(3, 1 / 3), np.array([True, False, False])))


def test_random_rankings_by_hand() -> None:
    # 2 tokens, 1 gold: rank 1 or 2. 3 tokens, 2 gold at ranks 12, 13, 23: 1, (1 + 2/3) / 2, (1/2 + 2/3) / 2.
    assert expected_average_precision(2, 1) == pytest.approx((1 + 1 / 2) / 2)
    assert expected_average_precision(3, 2) == pytest.approx((1 + 5 / 6 + 7 / 12) / 3)
    assert expected_average_precision(4, 4) == pytest.approx(1)
    # The best of two hops, 2 tokens, 1 gold: rank 2 twice in one case of four.
    assert expected_best(2, 1, 2) == pytest.approx(3 / 4 + 1 / 4 * 1 / 2, abs=0.01)


@pytest.mark.parametrize(("length", "gold"), [(n, r) for n in range(1, 8) for r in range(1, n + 1)])
def test_random_rankings_are_the_mean_over_all_permutations(length: int, gold: int) -> None:
    def value(order: tuple[int, ...]) -> float:
        ranks = sorted(rank for rank, token in enumerate(order, start=1) if token < gold)
        return float(np.mean([number / rank for number, rank in enumerate(ranks, start=1)]))

    expected = np.mean([value(order) for order in permutations(range(length))])
    assert expected_average_precision(length, gold) == pytest.approx(expected, abs=1e-12)
    assert expected_best(length, gold, 1) == pytest.approx(expected, abs=0.02)


def test_random_weights_have_the_expected_precision() -> None:
    length, hops, random = 30, 4, np.random.default_rng(5)
    spans = [(3 * i, 3 * i + 2) for i in range(length)]
    rationale = [spans[4], spans[5], spans[20]]
    rows = [plausibility(random.dirichlet(np.ones(length), hops), spans, rationale) for _ in range(300)]
    for name in ("average_precision", "average_precision_best_hop", "average_precision_near"):
        values = np.array([row[name] for row in rows])
        expected = rows[0][f"{name}_random"]
        assert abs(values.mean() - expected) < 4 * values.std() / len(values) ** 0.5 + 0.005
    assert rows[0]["average_precision_random"] > 1.5 * len(rationale) / length  # the share of gold tokens is too low


def test_expected_precision_of_the_best_hop() -> None:
    random = np.random.default_rng(0)
    for hops in (1, 3, 30):
        is_gold = np.argsort(random.random((4000, hops, 12)), axis=2) < 3
        precision = is_gold.cumsum(axis=2) / np.arange(1, 13)
        best = (precision * is_gold).sum(axis=2).max(axis=1) / 3
        assert expected_best(12, 3, hops) == pytest.approx(best.mean(), abs=0.01)


def test_plausibility_by_hand() -> None:
    weights = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.2, 0.1, 0.6]])
    found = plausibility(weights, SPANS, [(10, 15)])
    assert found["average_precision"] == pytest.approx(1 / 2)
    assert found["average_precision_best_hop"] == pytest.approx(1)
    assert found["average_precision_random"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    # Tokens 3 and 4 are gold now: mean weights are .4, .15, .1, .35.
    assert found["average_precision_near"] == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert found["average_precision_near_random"] == pytest.approx(expected_average_precision(4, 2))
    assert plausibility(weights[::-1], SPANS, [(10, 15)]) == pytest.approx(found)
    assert plausibility(weights, SPANS, [(9, 11), (14, 20)]) == pytest.approx(found)  # one character is enough


def test_plausibility_without_a_rationale_is_nan() -> None:
    assert np.isnan(list(plausibility(np.full((1, 4), 0.25), SPANS, []).values())).all()
    assert np.isnan(list(plausibility(np.array([[0.1, 0.2, 0.3, 0.4]]), SPANS, []).values())).all()


def test_plausibility_of_even_weights_is_nan() -> None:
    assert np.isnan(list(plausibility(np.full((2, 4), 0.25), SPANS, [(0, 3)]).values())).all()
