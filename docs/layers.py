"""Draws the chart of the study by layer: the accuracy of each setting over the states of each layer.

usage: python docs/layers.py outputs/imdb

The runs are those of docs/plans/control_layers.yaml, and their `model.name` is the setting; references that `compare
reference=probe` has fitted to them are drawn where they lie in the folder. Writes docs/layers.png.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt
from control import SETTINGS, Point

import sentattn

STYLES = {"probe": ("logistic probe of the mean", "0.45", ":")} | {
    name: (label, colour, "-") for name, (label, colour) in SETTINGS.items()
}
"""Label, colour and line by `model.name`."""


def curves(folder: str) -> dict[str, list[tuple[int, Point]]]:
    """Returns for each setting its layers with the accuracy there in percent, and its interval."""
    found = defaultdict(list)
    [comparison] = sentattn.leaderboard(folder).comparisons
    for setting in comparison.settings:
        model, interval = setting.settings["model"], setting.interval("accuracy")
        layer = model["layer"] if model["name"] == "probe" else model["embedding"]["layer"]
        if model["name"] in STYLES and model.get("states") != "first" and interval is not None:
            low, high = interval
            found[model["name"]].append((layer, (100 * setting.metrics["accuracy"].value, 100 * low, 100 * high)))
    return {name: sorted(found[name]) for name in STYLES if name in found}


def main(folder: str) -> None:
    """Draws a line for each setting, with pointwise intervals."""
    figure, axis = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    for name, of_layers in curves(folder).items():
        label, colour, line = STYLES[name]
        layers = [layer for layer, _ in of_layers]
        values, lows, highs = zip(*(point for _, point in of_layers), strict=True)
        axis.plot(layers, values, line, marker="o", markersize=4, color=colour, label=label)
        axis.fill_between(layers, lows, highs, color=colour, alpha=0.12, linewidth=0)
    axis.set_xlabel("layer of MiniLM (0: the embedding)")
    axis.set_ylabel("test accuracy in percent")
    axis.grid(color="0.9")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=8, loc="outside upper center", ncols=3)
    figure.savefig(Path(__file__).with_name("layers.png"), dpi=130)


if __name__ == "__main__":
    main(*sys.argv[1:])
