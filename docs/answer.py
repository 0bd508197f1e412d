"""Draws the chart of the README: what learned attention gains over two controls, by encoder.

usage: python -m sentattn.compare outputs/imdb plan=docs/plans/answer.yaml format=csv output=answer.csv
       python docs/answer.py answer-tests.csv

Reads the tests of the plan, whose pairs are two an encoder, and writes docs/answer.png. Neither control is a learned
map of each token before the mean, so the chart does not say why attention gains.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

ENCODERS = ("BiLSTM", "CNN", "MiniLM, frozen", "MiniLM, tuned")
CONTROLS = {"over the mean": "tab:blue", "over the same with random scores": "white"}
SHIFT = 0.13
"""Half the distance of the two points of an encoder."""


def main(path: Path) -> None:
    """Draws the differences, in points, with the intervals of the tests for a difference, at the levels of Holm."""
    with path.open(encoding="utf-8", newline="") as file:
        tests = list(csv.DictReader(file))
    figure, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
    axis.axvspan(*(side * 100 * float(tests[0]["margin"]) for side in (-1, 1)), color="0.92", linewidth=0)
    axis.axvline(0, color="0.4", linewidth=0.8)
    for number, test in enumerate(tests):
        encoder, control = divmod(number, len(CONTROLS))
        centre, low, high = (100 * float(test[f"difference{end}"]) for end in ("", "_low", "_high"))
        y = encoder + SHIFT * (2 * control - 1)
        name = list(CONTROLS)[control]
        ends = [[centre - low], [high - centre]]
        look: dict[str, Any] = {"color": "tab:blue", "fmt": "o", "markersize": 6, "capsize": 3}
        axis.errorbar(centre, y, xerr=ends, label=None if encoder else name, markerfacecolor=CONTROLS[name], **look)
        axis.annotate(f"{centre:+.2f}", (high, y), (5, 0), textcoords="offset points", va="center", fontsize=8)
    axis.set_yticks(range(len(tests) // len(CONTROLS)), ENCODERS[: len(tests) // len(CONTROLS)])
    axis.invert_yaxis()
    axis.set_xlabel("points of test accuracy that learned attention gains")
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    figure.legend(frameon=False, loc="outside upper center", ncols=2)
    figure.savefig(Path(__file__).with_name("answer.png"), dpi=130)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
