"""Weights of one row of attention: how strongly each is coloured, and which words lead."""

from __future__ import annotations

from collections.abc import Sequence

TIE = 1e-6
"""Weights that differ by less than this share of themselves tie."""


def full_colour(weights: Sequence[float]) -> float:
    """Returns the weight that gets the full colour: the row's largest, or twice an even share where that is more.

    So an even row stays pale throughout: nothing in it stands out.
    """
    even = 1 / max(1, len(weights))
    return max(max(weights, default=0.0), min(1.0, 2 * even))


def shades(weights: Sequence[float]) -> list[float]:
    """Returns the strength of each token's colour, 0 to 1."""
    top = full_colour(weights)
    return [weight / top for weight in weights]


def top_words(words: Sequence[str], weights: Sequence[float], count: int = 3) -> list[tuple[str, float]]:
    """Returns the words that lead a row, with their weights.

    Only words that lead: those that tie with the first one left out are left out too, because
    among them only the order of the text would choose.
    """
    order = sorted(range(len(weights)), key=lambda i: -weights[i])
    left_out = weights[order[count]] if len(order) > count else 0.0
    return [(words[i], weights[i]) for i in order[:count] if weights[i] > left_out * (1 + TIE)]


def summary(words: Sequence[str], weights: Sequence[float], count: int = 3) -> str:
    """Returns the leading words of a row in one line, each with its weight, or says that they tie."""
    if top := top_words(words, weights, count):
        return " \u00b7 ".join(f"{word} {weight:.3f}" for word, weight in top)
    most = max(weights, default=0.0)
    return f"{sum(weight >= most * (1 - TIE) for weight in weights)} words tie at {most:.3f}"
