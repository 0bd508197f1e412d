"""Accuracy on slices of the rows: by length, by class, by words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sentattn.compare import statistics
from sentattn.compare.runs import Setting
from sentattn.compare.statistics import Estimate
from sentattn.metrics import Ints

LENGTH_BINS = 5
MIN_ROWS = 20
"""Slices of fewer rows are left out."""
NEGATION = re.compile(
    r"\b(?:no|not|none|nobody|nothing|neither|nor|never|nowhere|cannot|without|hardly|scarcely|barely|\w+n['\u2019]t)\b",
    re.IGNORECASE,
)
CONTRAST = re.compile(
    r"\b(?:but|however|although|though|yet|despite|nevertheless|nonetheless|whereas|even if|in spite of"
    r"|on the other hand)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Slice:
    """Some rows of a comparison.

    Attributes:
        name: The property that they share.
        chosen_K: Their numbers.
    """

    name: str
    chosen_K: Ints


def by_length(lengths_N: Ints) -> list[Slice]:
    """Returns about equally large slices by the number of tokens that are read; equal lengths share a slice."""
    last = np.arange(1, LENGTH_BINS) * len(lengths_N) // LENGTH_BINS - 1
    edges = np.unique(np.sort(lengths_N)[last])  # the largest length of each slice but the last
    bin_N = np.searchsorted(edges, lengths_N)
    slices = []
    for number in np.unique(bin_N):
        chosen_K = np.flatnonzero(bin_N == number)
        low, high = int(lengths_N[chosen_K].min()), int(lengths_N[chosen_K].max())
        slices.append(Slice(f"{low}" if low == high else f"{low} to {high}", chosen_K))
    return large(slices)


def by_class(labels_N: Ints, names: Sequence[str]) -> list[Slice]:
    """Returns the rows of each class."""
    return large([Slice(name, np.flatnonzero(labels_N == number)) for number, name in enumerate(names)])


def by_stars(stars_N: Ints) -> list[Slice]:
    """Returns the rows of each number of stars."""
    return large([Slice(f"{number}", np.flatnonzero(stars_N == number)) for number in np.unique(stars_N)])


def by_words(texts: Sequence[str], words: re.Pattern[str]) -> list[Slice]:
    """Returns the rows without and those with one of some words."""
    has_N = np.array([words.search(text) is not None for text in texts])
    return large([Slice("without", np.flatnonzero(~has_N)), Slice("with", np.flatnonzero(has_N))])


def large(slices: Sequence[Slice]) -> list[Slice]:
    """Returns the slices that have enough rows; none where these are fewer than two."""
    kept = [part for part in slices if len(part.chosen_K) >= MIN_ROWS]
    return kept if len(kept) > 1 else []


def accuracy(setting: Setting, chosen_K: Ints) -> Estimate:
    """Returns the mean over seeds of the accuracy on some rows.

    Its interval counts rows (or their groups) and seeds, of a setting with one seed rows alone.
    """
    group_N = setting.rows.group_N
    groups_K = None if group_N is None else np.unique(group_N[chosen_K], return_inverse=True)[1]
    return statistics.accuracy(setting.correct[:, chosen_K], groups_K, deterministic=setting.deterministic)
