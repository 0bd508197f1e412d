"""Does validation follow the test set? Validation by film against validation by row on IMDB.

Reads runs that set whole films aside, and the values of docs/results.md for runs whose validation rows were drawn
without regard to films. Prints Kendall's tau of the order of the settings on validation and on the test set, and how
much higher validation is, with 95% intervals: percentiles of samples of settings, and Student's t over settings.
Settings are means over seeds.

usage: python benchmarks/validation.py outputs/imdb
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import bootstrap, kendalltau, ttest_1samp

from sentattn.compare.comparison import read_comparisons
from sentattn.config.groups import get_path
from sentattn.config.targets import label

BY_ROW = {
    "structured": (0.9037, 0.8900),
    "lstm_max": (0.9024, 0.8940),
    "feedforward": (0.9007, 0.8889),
    "additive": (0.9004, 0.8905),
    "lstm_mean": (0.8933, 0.8811),
    "lstm": (0.8880, 0.8761),
    "cnn": (0.8851, 0.8787),
    "mean": (0.8868, 0.8863),
    "transformer": (0.8900, 0.8798),
    "relation": (0.8301, 0.8174),
    "relation_plain": (0.8316, 0.8200),
    "structured, embedding=ngrams": (0.9017, 0.9047),
    "lstm_mean, embedding=ngrams": (0.8944, 0.8916),
    "mean, embedding=ngrams": (0.8976, 0.9053),
}
"""Accuracy on validation rows and on the test set of the shared recipe, 22,500 training rows, 2026-11-21 and 22; three
seeds, but one of `lstm` and `transformer`; 64 tokens for `relation` and `relation_plain`."""


def main(folders: list[str]) -> None:
    """Prints both kinds of validation for all settings, and for those that both have."""
    found, faults = read_comparisons([Path(folder) for folder in folders], split="test")
    for fault in faults:
        print(fault.message)
    settings = [setting for comparison in found for setting in comparison.settings]
    by_film = {one.name: (one.stored("val/accuracy"), one.stored("test/accuracy")) for one in settings}
    shared = {label(one.settings): one.name for one in settings if _is_shared_recipe(one.settings)}
    both = sorted(BY_ROW.keys() & shared)
    print(f"{'':36}{'settings':>8}  {'tau (95%)':24}{'validation - test (95%)'}")
    _print("by row, all", BY_ROW)
    _print("by film, all", by_film)
    _print("by row, settings of both", {name: BY_ROW[name] for name in both})
    _print("by film, settings of both", {name: by_film[shared[name]] for name in both})
    for name, (val, test) in sorted(by_film.items(), key=lambda item: -item[1][1]):
        print(f"{name:60} {val:.4f} {test:.4f} {val - test:+.4f}")


def _is_shared_recipe(settings: Mapping[str, Any]) -> bool:
    """Whether a run has the recipe of `BY_ROW`, so that its parts say which of them it is like."""
    recipe = {"optimizer.lr": 0.005, "data.vectors": None, "loss.label_smoothing": 0.1, "model.attention.window": None}
    return all(get_path(settings, key) == value for key, value in recipe.items())


def _print(title: str, settings: Mapping[str, tuple[float, float]]) -> None:
    if len(settings) < 3:
        return
    val_S, test_S = np.array(list(settings.values())).T
    samples = bootstrap(
        (val_S, test_S), lambda v, t: kendalltau(v, t)[0], paired=True, vectorized=False, method="percentile", rng=0
    )
    low, high = samples.confidence_interval
    gap = ttest_1samp(val_S - test_S, 0)
    ends = gap.confidence_interval()
    tau = kendalltau(val_S, test_S)[0]
    print(
        f"{title:36}{len(settings):8}  {f'{tau:.2f} ({low:.2f} to {high:.2f})':24}"
        f"{100 * np.mean(val_S - test_S):+.2f} points ({100 * ends.low:+.2f} to {100 * ends.high:+.2f}), "
        f"deviation {100 * np.std(val_S - test_S, ddof=1):.2f}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
