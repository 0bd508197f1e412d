"""Do weights lie on the words that decide a label, where these are known? It says nothing of the model's reasons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sentattn.data.text import Span
from sentattn.insight.shape import Floats, is_ranking

FIGURES = (
    "average_precision",
    "average_precision_best_hop",
    "rationale_share",
    "average_precision_near",
    "rationale_share_near",
)


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


def plausibility(weights_RL: Floats, spans: Sequence[Span], rationale: Sequence[Span]) -> dict[str, float]:
    """Returns the figures of one text, by name; all NaN without a rationale.

    `average_precision` of the mean over the hops, `average_precision_best_hop`, and `rationale_share`, the share of
    the tokens that are gold, which a random ranking has. With `_near`, the neighbours of gold tokens are gold too,
    since the state of a token may hold what its neighbours say.

    Args:
        weights_RL: The weights of the R hops on the L real tokens.
        spans: Start and end of each token in the text.
        rationale: Start and end of each part of the text that decides its label.
    """
    gold_L = rationale_tokens(spans, rationale)
    if not gold_L.any():
        return dict.fromkeys(FIGURES, np.nan)
    near_L = np.convolve(gold_L, np.ones(3), mode="full")[1:-1] > 0
    mean_L, of_hop_R = weights_RL.mean(axis=0), [average_precision(row, gold_L) for row in weights_RL]
    values = (
        average_precision(mean_L, gold_L),
        np.nan if np.isnan(of_hop_R).all() else float(np.nanmax(of_hop_R)),
        float(gold_L.mean()),
        average_precision(mean_L, near_L),
        float(near_L.mean()),
    )
    return dict(zip(FIGURES, values, strict=True))
