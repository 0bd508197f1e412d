"""Weights against a gold rationale, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from sentattn.insight.plausibility import average_precision, plausibility, rationale_tokens

SPANS = [(0, 3), (4, 8), (8, 9), (10, 15)]


def test_tokens_of_a_rationale_share_a_character_with_it() -> None:
    assert rationale_tokens(SPANS, [(4, 9)]).tolist() == [False, True, True, False]
    assert rationale_tokens(SPANS, [(3, 4), (14, 20)]).tolist() == [False, False, False, True]


def test_average_precision_by_hand() -> None:
    gold = np.array([False, True, False, True])
    assert average_precision(np.array([0.4, 0.3, 0.2, 0.1]), gold) == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert average_precision(np.array([0.1, 0.4, 0.2, 0.3]), gold) == pytest.approx(1)


def test_tokens_that_tie_enter_together() -> None:
    weights = np.array([0.4, 0.3, 0.3])
    for gold in ([False, True, False], [False, False, True]):
        assert average_precision(weights, np.array(gold)) == pytest.approx(1 / 3)
    assert np.isnan(average_precision(np.full(3, 1 / 3), np.array([True, False, False])))


def test_figures_of_a_text() -> None:
    weights = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.2, 0.1, 0.6]])
    found = plausibility(weights, SPANS, [(10, 15)])
    assert found["average_precision"] == pytest.approx(1 / 2)
    assert found["average_precision_best_hop"] == pytest.approx(1)
    assert found["rationale_share"] == 1 / 4
    # Tokens 3 and 4 are gold now: mean weights are .4, .15, .1, .35.
    assert found["average_precision_near"] == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert found["rationale_share_near"] == 1 / 2
    assert plausibility(weights[::-1], SPANS, [(10, 15)]) == pytest.approx(found)


def test_without_a_rationale_nothing_applies() -> None:
    assert np.isnan(list(plausibility(np.full((1, 4), 0.25), SPANS, []).values())).all()
