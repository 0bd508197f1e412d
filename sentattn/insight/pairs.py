"""Token-to-token weights: which pairs lead, and which tokens are looked at most."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sentattn.insight.shares import TIE, full_colour

Map: TypeAlias = Sequence[Sequence[float]]
"""L rows of L weights: row t says how much token t looks at each token."""

STEPS = 2**16 - 1
"""Steps of a packed weight: as many as two bytes hold, which the script of the page counts on."""


def head_names(count: int) -> list[str]:
    """Returns the names of the maps; a single one needs none."""
    return [f"head {head}" for head in range(1, count + 1)] if count > 1 else [""]


def lead(words: Sequence[str], maps: Sequence[Map], count: int = 3) -> str:
    """Returns the heaviest pairs of different tokens in one line: `looking -> looked at`, each with its weight.

    Pairs that tie with the first one left out are left out too. Where there are several heads, each
    pair is followed by its head.
    """
    weights_HLL = np.array(maps)
    weights_HLL[:, range(len(words)), range(len(words))] = -1
    flat = weights_HLL.ravel()
    heaviest = np.argpartition(-flat, min(count, len(flat) - 1))[: count + 1]
    order = heaviest[np.argsort(-flat[heaviest], kind="stable")]
    left_out = flat[order[count]] if len(order) > count else 0.0
    leading = [place for place in order[:count] if flat[place] > max(0.0, left_out * (1 + TIE))]
    names = head_names(len(maps))
    found = []
    for place in leading:
        head, looking, looked_at = np.unravel_index(place, weights_HLL.shape)
        pair = f"{words[looking]} \u2192 {words[looked_at]} {flat[place]:.3f}"
        found.append(f"{pair} ({names[head]})" if names[head] else pair)
    return " \u00b7 ".join(found) or "no pair of words stands out"


def most_looked_at(weights_HLL: NDArray[np.float64]) -> NDArray[np.intp]:
    """Returns the tokens by the weight that they get from all tokens and heads, the largest first."""
    return np.argsort(-weights_HLL.sum(axis=(0, 1)), kind="stable")


def packed(weights: Map) -> dict[str, Any]:
    """Returns a map small enough for a page: `full`, the weight of the full colour, and `weights`.

    The weights are steps of `full / STEPS`, row by row, two bytes each (the low one first), in base64.
    """
    full = max(map(full_colour, weights))
    steps = np.rint(np.array(weights) * (STEPS / full)).astype("<u2")
    return {"full": full, "weights": base64.b64encode(steps.tobytes()).decode()}
