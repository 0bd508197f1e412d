"""Draws the chart of the README and of the study: the accuracy of each setting, by data set.

usage: python docs/control.py outputs/yelp outputs/imdb

The runs are those of docs/plans/control_yelp2.yaml and control_imdb2.yaml, and their `model.name` is the setting.
Writes docs/control.png.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

import sentattn

SETTINGS = {
    "mean": ("mean", "0.45"),
    "structured_frozen": ("random weights", "tab:purple"),
    "linear": ("linear attention", "tab:green"),
    "tokenwise": ("token-wise map, mean", "tab:orange"),
    "tokenwise_wide": ("wide token-wise map", "tab:brown"),
    "structured": ("structured attention", "tab:blue"),
}
"""Label and colour by `model.name`, in the order of the chart."""
Point = tuple[float, float, float]
"""An accuracy and the ends of its interval, in percent."""


def points(folder: str) -> tuple[str, dict[str, Point]]:
    """Returns the data set of runs, and the accuracy of each setting by its name."""
    [comparison] = sentattn.leaderboard(folder).comparisons
    return comparison.data, dict(_points(comparison.settings))


def _points(settings: Sequence[Any]) -> Iterator[tuple[str, Point]]:
    for setting in settings:
        model = setting.settings["model"]
        interval = setting.interval("accuracy")
        if model["name"] in SETTINGS and interval is not None:
            value = setting.metrics["accuracy"].value
            yield model["name"], (100 * value, 100 * interval[0], 100 * interval[1])


def main(folders: Sequence[str]) -> None:
    """Draws a panel of each data set, with a line for each setting."""
    figure, axes = plt.subplots(1, len(folders), figsize=(7.6, 2.3), layout="constrained", sharey=True, squeeze=False)
    for axis, folder in zip(axes[0], folders, strict=True):
        data, found = points(folder)
        for name, (value, low, high) in found.items():
            y, colour = list(SETTINGS).index(name), SETTINGS[name][1]
            axis.errorbar(value, y, xerr=[[value - low], [high - value]], fmt="o", color=colour, capsize=3)
            axis.annotate(f"{value:.1f}", (value, y), (0, 6), textcoords="offset points", ha="center", fontsize=8)
        axis.set_title({"imdb": "IMDB", "yelp": "Yelp, five stars"}.get(data, data), fontsize=10)
        axis.set_xlabel("test accuracy in percent, 95% interval")
        axis.grid(axis="x", color="0.9")
        axis.set_axisbelow(True)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
        axis.margins(y=0.15)
    axes[0][0].set_yticks(range(len(SETTINGS)), [label for label, _ in SETTINGS.values()])
    figure.savefig(Path(__file__).with_name("control.png"), dpi=130)


if __name__ == "__main__":
    main(sys.argv[1:])
