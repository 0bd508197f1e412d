"""What do the errors of a run have in common? Its wrong validation rows: how many, by length, and texts to read.

With a second run of two classes: how many errors both share, and the accuracy of weighted means of their log odds.

usage: python benchmarks/errors.py RUN [OTHER] [--texts 50]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sentattn.compare.comparison import Comparison, read_comparisons

ENDS = (100, 200, 400)
"""Numbers of tokens at which the groups of lengths begin."""
SHOWN = 50, 55
"""Words of a long text that are printed from its start and from its end."""


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the errors of the runs that are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--texts", type=int, default=0, help="number of errors to print, drawn at random")
    arguments = parser.parse_args(argv)
    found = [read_comparisons([folder], split="val") for folder in arguments.runs]
    first, *others = [comparison for (comparison,), _ in found]
    rows, wrong_N = first.rows, first.settings[0].correct[0] == 0
    print(f"{wrong_N.sum()} of {len(wrong_N)} validation rows are wrong")
    lengths = f"{np.median(rows.lengths_N):.0f}, of errors {np.median(rows.lengths_N[wrong_N]):.0f}"
    print(f"median number of tokens: {lengths}")
    group_N = np.digitize(rows.lengths_N, ENDS)
    for group in np.unique(group_N):
        of_group_N = wrong_N[group_N == group]
        print(f"from {(0, *ENDS)[group]} tokens: {of_group_N.mean():.3f} of {len(of_group_N)} rows")
    for other in others:
        _print_together(first, other)
    if arguments.texts:
        _print_texts(first, wrong_N, arguments.texts)


def _print_together(first: Comparison, other: Comparison) -> None:
    """Prints the errors that two runs share, and the accuracy of weighted means of their log odds."""
    assert other.rows.digest == first.rows.digest, "the runs have other validation rows"
    wrong, again = (one.settings[0].correct[0] == 0 for one in (first, other))
    print(f"{other.settings[0].name}: {again.sum()} wrong, {(wrong & again).sum()} of them in both")
    odds, others = (np.diff(np.log(np.maximum(one.settings[0].probabilities[0], 1e-12))) for one in (first, other))
    for weight in np.linspace(0, 1, 11):
        predicted_N = ((1 - weight) * odds + weight * others)[:, 0] > 0
        print(f"  share {weight:.1f}: {(predicted_N == first.rows.labels_N).mean():.4f}")


def _print_texts(first: Comparison, wrong_N: np.ndarray, count: int) -> None:
    """Prints errors drawn at random, long ones by their start and end."""
    _, texts = first.read_texts()
    errors = np.flatnonzero(wrong_N)
    probabilities_NC = first.settings[0].probabilities[0]
    for row in np.random.default_rng(0).choice(errors, min(count, len(errors)), replace=False):
        words = texts.texts(row).split()
        start, end = SHOWN
        text = " ".join([*words[:start], "[...]", *words[-end:]] if len(words) > sum(SHOWN) else words)
        label, probability = first.rows.labels_N[row], probabilities_NC[row].max()
        print(f"\nclass {label}, predicted with {probability:.2f}, {first.rows.lengths_N[row]} tokens\n{text}")


if __name__ == "__main__":
    main()
