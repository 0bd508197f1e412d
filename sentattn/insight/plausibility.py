"""Plausibility: whether weights lie on the words that decide a label, where these are known.

It does not measure whether the model uses these words.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sentattn.data.tokenizer import Span
from sentattn.insight.shape import Floats, is_ranking

METRICS = (
    "average_precision",
    "average_precision_random",
    "average_precision_best_hop",
    "average_precision_best_hop_random",
    "average_precision_near",
    "average_precision_near_random",
)
DRAWS = 5000
"""Random rankings from which the average precision of the best hop is estimated: to 0.005 or less for one text."""


def rationale_tokens(spans: Sequence[Span], rationale: Sequence[Span]) -> NDArray[np.bool_]:
    """Returns which tokens share a character with the rationale, (L,).

    Args:
        spans: Start and end of each token.
        rationale: Start and end of each part of the rationale.
    """
    return np.array([any(start < last and first < end for first, last in rationale) for start, end in spans])


def average_precision(weights_L: Floats, gold_L: NDArray[np.bool_]) -> float:
    """Returns the average precision of a ranking; tokens that tie enter together, so a full tie has the prevalence.

    NaN where no token or all are gold, or the weights rank nothing.
    """
    from sklearn.metrics import average_precision_score

    if gold_L.all() or not gold_L.any() or not is_ranking(weights_L):
        return np.nan
    return float(average_precision_score(gold_L, weights_L))


def expected_average_precision(length: int, gold: int) -> float:
    """Returns the expected average precision of a random ranking of `length` tokens L, of which `gold` R are gold.

    The average precision is the mean over gold tokens of (gold tokens up to its rank) / rank. A gold token at rank i
    has itself and (i - 1) (R - 1) / (L - 1) others before it on average, and each rank is equally likely, so with the
    harmonic number H_L = 1 + 1/2 + ... + 1/L the mean is (R - 1) / (L - 1) (1 - H_L / L) + H_L / L.
    """
    if length == 1:
        return 1.0
    harmonic = float(np.sum(1 / np.arange(1, length + 1))) / length
    return (gold - 1) / (length - 1) * (1 - harmonic) + harmonic


@cache
def expected_best(length: int, gold: int, hops: int) -> float:
    """Returns the expected largest average precision of as many independent random rankings as there are hops.

    Estimated from `DRAWS` rankings with a fixed seed: the mean of the largest of `hops` values drawn from theirs.
    """
    random = np.random.default_rng([length, gold])
    ranks = 1 + random.permuted(np.tile(np.arange(length), (DRAWS, 1)), axis=1)[:, :gold]
    values = np.sort((np.arange(1, gold + 1) / np.sort(ranks, axis=1)).mean(axis=1))
    below = (np.arange(DRAWS + 1) / DRAWS) ** hops  # the probability that all hops are among the lowest values
    return float(np.diff(below) @ values)


def plausibility(weights_RL: Floats, spans: Sequence[Span], rationale: Sequence[Span]) -> dict[str, float]:
    """Returns the metrics of a text, by name; all NaN without a rationale.

    `average_precision` of the mean over the hops and `average_precision_best_hop`, each with what random weights with
    as many hops reach on average (`_random`). With `_near`, the neighbours of gold tokens are gold too, since the state
    of a token may represent its neighbours.

    Args:
        weights_RL: The weights of the R hops on the L real tokens.
        spans: Start and end of each token in the text.
        rationale: Start and end of each part of the text that decides its label.
    """
    gold_L = rationale_tokens(spans, rationale)
    near_L = np.convolve(gold_L, np.ones(3), mode="full")[1:-1] > 0
    mean_L = weights_RL.mean(axis=0)
    of_hops = [value for row in weights_RL if not np.isnan(value := average_precision(row, gold_L))]
    length, gold, near = len(gold_L), int(gold_L.sum()), int(near_L.sum())
    values = (
        average_precision(mean_L, gold_L),
        expected_average_precision(length, gold),
        max(of_hops, default=np.nan),
        expected_best(length, gold, len(of_hops)) if of_hops else np.nan,
        average_precision(mean_L, near_L),
        expected_average_precision(length, near),
    )
    # A mean of random rankings and one of weights are over the same texts.
    pairs = zip(values[::2], values[1::2], strict=True)
    both = [value for weighted, random in pairs for value in (weighted, np.nan if np.isnan(weighted) else random)]
    return dict(zip(METRICS, both, strict=True))
