"""Metrics of the weights on a text: their shape, and their plausibility where the words that decide a label are known.

Plausibility does not measure whether the model uses these words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sentattn.data.tokenizer import Span
from sentattn.metrics import Floats
from sentattn.prediction.prediction import TIE

TENTHS = 10
DRAWS = 5000
"""Random rankings from which the average precision of the best hop is estimated: to 0.005 or less for one text."""
_LETTER = re.compile(r"[^\W_]")


def is_ranking(weights_L: Floats) -> bool:
    """Whether weights rank tokens: False where all tokens that have a weight tie, as those of `uniform` and `last`."""
    return not ties(weights_L[weights_L > 0])


def ties(scores_L: Floats) -> bool:
    """Whether scores differ by rounding alone, as those of no token do."""
    return not scores_L.size or bool(np.ptp(scores_L) <= TIE * np.abs(scores_L).max())


def shape(weights_RL: Floats, tokens: Sequence[str]) -> dict[str, float]:
    """Returns how many tokens the weights reach, which ones, and where in the text, by name of the metric.

    Each is a mean over the hops: `evenness` H / log n, NaN for one token; `effective_tokens` exp(H), the number of
    tokens over which even weights have the same entropy; `effective_share` exp(H) / n. `punctuation` and `stop_words`
    are the weight on such tokens (scikit-learn's English stop words), `punctuation_tokens` and `stop_word_tokens` their
    share of the tokens, which even weights would have. `tenth_1` to `tenth_10` are the position profile. The weights
    are those of R hops on the L real tokens; each row sums to 1.
    """
    from scipy.special import entr
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    length = len(tokens)
    entropy_R, mean_L = entr(weights_RL).sum(axis=1), weights_RL.mean(axis=0)
    punctuation_L = np.array([not _LETTER.search(token) for token in tokens], dtype=np.float64)
    stop_words_L = np.array([token.lower() in ENGLISH_STOP_WORDS for token in tokens], dtype=np.float64)
    effective = float(np.exp(entropy_R).mean())
    return {
        "tokens": float(length),
        "evenness": float(entropy_R.mean() / np.log(length)) if length > 1 else np.nan,
        "effective_tokens": effective,
        "effective_share": effective / length,
        "hop_overlap": overlap(weights_RL),
        "punctuation": float(mean_L @ punctuation_L),
        "punctuation_tokens": float(punctuation_L.mean()),
        "stop_words": float(mean_L @ stop_words_L),
        "stop_word_tokens": float(stop_words_L.mean()),
        **{f"tenth_{number}": float(share) for number, share in enumerate(profile(mean_L), start=1)},
    }


def overlap(weights_RL: Floats) -> float:
    """Returns how much the hops read the same tokens: 0 where they share none, 1 where they are equal, NaN for one hop.

    The mean off the diagonal of A A^T divided by that of its diagonal, so that sharp weights do not pass for overlap.
    """
    hops = len(weights_RL)
    if hops == 1:
        return np.nan
    products_RR = weights_RL @ weights_RL.T
    diagonal = float(np.trace(products_RR))
    return float(products_RR.sum() - diagonal) / (hops - 1) / diagonal


def profile(weights_L: Floats) -> Floats:
    """Returns the weight on each tenth of the text, (10,); a token at the border of two counts in parts."""
    borders = np.linspace(0, 1, len(weights_L) + 1)
    reached = np.interp(np.linspace(0, 1, TENTHS + 1), borders, np.concatenate([[0.0], np.cumsum(weights_L)]))
    return np.diff(reached)


def plausibility(weights_RL: Floats, spans: Sequence[Span], rationale: Sequence[Span]) -> dict[str, float]:
    """Returns whether weights lie on the words of a rationale, by name of the metric; all NaN without a rationale.

    `average_precision` of the mean over the hops and `average_precision_best_hop`, each with what random weights with
    as many hops reach on average (`_random`). With `_near`, the neighbours of gold tokens are gold too, since the state
    of a token may represent its neighbours. `spans` are start and end of each token in the text, `rationale` of each
    part that decides the label.
    """
    is_gold = [any(start < last and first < end for first, last in rationale) for start, end in spans]
    padded = np.pad(np.array(is_gold, dtype=bool), 1)
    gold_L, near_L = padded[1:-1], padded[:-2] | padded[1:-1] | padded[2:]
    mean_L = weights_RL.mean(axis=0)
    of_hops = [value for row in weights_RL if not np.isnan(value := average_precision(row, gold_L))]
    length, gold = len(gold_L), int(gold_L.sum())
    best = max(of_hops, default=np.nan)
    of_random = expected_best(length, gold, len(of_hops)) if of_hops else np.nan
    near = average_precision(mean_L, near_L)
    values: dict[str, float] = {}
    for name, weighted, random in (
        ("average_precision", average_precision(mean_L, gold_L), expected_average_precision(length, gold)),
        ("average_precision_best_hop", best, of_random),
        ("average_precision_near", near, expected_average_precision(length, int(near_L.sum()))),
    ):  # a mean of both is over the same texts
        values |= {name: weighted, f"{name}_random": np.nan if np.isnan(weighted) else random}
    return values


def average_precision(weights_L: Floats, gold_L: NDArray[np.bool_]) -> float:
    """Returns the average precision of a ranking; NaN where no token or all are gold, or the weights rank nothing."""
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
    if length < 2:
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
