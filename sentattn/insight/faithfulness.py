"""Faithfulness: how far a prediction changes without the tokens that a ranking puts first, or with them alone.

DeYoung et al. (2020, ERASER, section 4.3) for comprehensiveness and sufficiency.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from sentattn.data.tokenizer import UNKNOWN_ID
from sentattn.insight.metrics import Floats
from sentattn.insight.weights import Ids, Ints, probabilities
from sentattn.models.classifier import TextClassifier

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)  # of the tokens that count as first, at least one token
DRAWS = 10  # random rankings of a text
REMOVALS, KINDS = ("deleted", "replaced"), ("comprehensiveness", "sufficiency")


def order(scores_L: Floats, random: np.random.Generator) -> Ints:
    """Returns the tokens' indices by descending score; tokens that tie are in random order, not in that of the text."""
    order_L: Ints = np.lexsort((random.random(len(scores_L)), -scores_L)).astype(np.int64)
    return order_L


def rank_correlation(first_L: Floats, second_L: Floats) -> float:
    """Returns Kendall's tau-b of two scores of the same tokens; NaN where one of them ranks nothing."""
    from scipy.stats import kendalltau

    return float(kendalltau(first_L, second_L).statistic) if np.ptp(first_L) and np.ptp(second_L) else np.nan


def drops(
    model: TextClassifier,
    texts: Sequence[Ids],
    classes_N: Ints,
    orders: Sequence[Sequence[Ints]],
    *,
    advance: Callable[[int], None] = lambda count: None,
) -> Floats:
    """Returns by how much the probability of a class falls, (texts, Q rankings, 2 removals, 2 kinds, shares).

    With the first ceil(k n) tokens of a ranking: comprehensiveness(k) = p(y | x) - p(y | x without them),
    sufficiency(k) = p(y | x) - p(y | only them). Removed tokens are `deleted`, so that the text gets shorter, or
    `replaced` by `<unk>`. NaN for a text of one token, of which nothing would be left.

    Args:
        model: The model, in evaluation mode.
        texts: Ids of the tokens of each text, at least one.
        classes_N: The class y of each text.
        orders: For each text Q rankings: indices of its tokens, the first ones first.
        advance: Called with the number of texts that are done.
    """
    rankings = len(orders[0])
    result = np.full((len(texts), rankings, len(REMOVALS), len(KINDS), len(SHARES)), np.nan)
    for i, ids in enumerate(texts):
        if len(ids) > 1:
            counts = _counts(len(ids))
            whole, *others = probabilities(model, [ids, *_variants(ids, orders[i])])[:, classes_N[i]]
            by_count = whole - np.reshape(others, (rankings, len(counts), len(REMOVALS), len(KINDS)))
            of_share = [counts.index(_count(share, len(ids))) for share in SHARES]
            result[i] = np.moveaxis(by_count[:, of_share], 1, -1)
        advance(1)
    return result


def unknown_probability(model: TextClassifier, texts: Sequence[Ids], classes_N: Ints) -> Floats:
    """Returns the probability of each text's class when all its tokens are `<unk>`, (texts,)."""
    probabilities_NC = probabilities(model, [np.full_like(ids, UNKNOWN_ID) for ids in texts])
    of_class_N: Floats = probabilities_NC[np.arange(len(texts)), classes_N]
    return of_class_N


def summary(drops_NQRKS: Floats, rankings: Mapping[str, Sequence[int]]) -> dict[str, Floats]:
    """Returns metrics of each text, (N,), by name: at each share, and their mean, which is called as they are.

    The name is `kind_removal_ranking`, and that of a share ends in its percent, as `sufficiency_deleted_random_20`. The
    mean is over the five shares; DeYoung et al. (2020, equation 3) divide the same sum by one more than their number.
    Of the rankings that have a name in `rankings`, by their numbers, the mean is taken.
    """
    metrics: dict[str, Floats] = {}
    for ranking, numbers in rankings.items():
        for r, removal in enumerate(REMOVALS):
            for k, kind in enumerate(KINDS):
                values_NS = drops_NQRKS[:, list(numbers), r, k].mean(axis=1)
                name = f"{kind}_{removal}_{ranking}"
                metrics[name] = values_NS.mean(axis=1)
                metrics |= {f"{name}_{percent(share)}": values_NS[:, s] for s, share in enumerate(SHARES)}
    return metrics


def percent(share: float) -> int:
    """Returns a share in percent, which are whole numbers."""
    return round(100 * share)


def _count(share: float, length: int) -> int:
    return max(1, math.ceil(round(share * length, 9)))  # 0.2 * 15 is a little more than 3


def _counts(length: int) -> list[int]:
    """The different numbers of first tokens; shares of a short text are often the same number."""
    return sorted({_count(share, length) for share in SHARES})


def _variants(ids: Ids, orders: Sequence[Ints]) -> Iterator[Ids]:
    """Yields for each ranking, number of first tokens and removal: the text without them, and only them."""
    for order_L in orders:
        for count in _counts(len(ids)):
            is_first_L = np.zeros(len(ids), dtype=bool)
            is_first_L[order_L[:count]] = True
            yield ids[~is_first_L]
            yield ids[is_first_L]
            yield np.where(is_first_L, UNKNOWN_ID, ids)
            yield np.where(is_first_L, ids, UNKNOWN_ID)
