"""The shape of an attention's weights: how many tokens they reach, which ones, and where in the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sentattn.prediction.prediction import TIE

Floats: TypeAlias = NDArray[np.float64]

TENTHS = 10
_LETTER = re.compile(r"[^\W_]")


def entropy(weights_RL: Floats) -> Floats:
    """Returns H = - sum a log a of each hop, (R,), in nats; 0 log 0 is 0."""
    logs_RL = np.log(weights_RL, out=np.zeros_like(weights_RL), where=weights_RL > 0)
    entropy_R: Floats = -(weights_RL * logs_RL).sum(axis=1)
    return entropy_R


def overlap(weights_RL: Floats) -> float:
    """Returns how much the hops read the same tokens: 0 where they share none, 1 where they are equal.

    The mean off the diagonal of A A^T divided by the mean of its diagonal, so that sharp weights do not pass for
    overlap. NaN for one hop.
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


def is_ranking(weights_L: Floats) -> bool:
    """Whether weights rank tokens: False where all tokens that have a weight tie, as those of `uniform` and `last`."""
    return not ties(weights_L[weights_L > 0])


def ties(scores_L: Floats) -> bool:
    """Whether scores differ by rounding alone."""
    return bool(np.ptp(scores_L) <= TIE * np.abs(scores_L).max())


def is_punctuation(token: str) -> bool:
    """Whether a token has neither letter nor digit."""
    return not _LETTER.search(token)


@cache
def stop_words() -> frozenset[str]:
    """Returns scikit-learn's English stop words; `not`, `no` and `never` are among them."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


def shape(weights_RL: Floats, tokens: Sequence[str]) -> dict[str, float]:
    """Returns the metrics of a text, by name.

    Each is a mean over the hops: `evenness` H / log n, NaN for one token; `effective_tokens` exp(H), the number of
    tokens over which even weights have the same entropy; `effective_share` exp(H) / n. `punctuation` and `stop_words`
    are the weight on such tokens, `punctuation_tokens` and `stop_word_tokens` their share of the tokens, which even
    weights would have. `tenth_1` to `tenth_10` are
    the position profile.

    Args:
        weights_RL: The weights of the R hops on the L real tokens; each row sums to 1.
        tokens: The tokens.
    """
    length = len(tokens)
    entropy_R, mean_L = entropy(weights_RL), weights_RL.mean(axis=0)
    punctuation_L = np.array([is_punctuation(token) for token in tokens], dtype=np.float64)
    stop_words_L = np.array([token.lower() in stop_words() for token in tokens], dtype=np.float64)
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
