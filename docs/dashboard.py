"""Draws charts of a dashboard as W&B would: bars over groups, scatters and learning curves of `dashboard.json`.

usage: python docs/dashboard.py outputs/imdb/dashboard.json

Reads the runs below the folder of the file and writes docs/dashboard.png.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter

from sentattn.config.targets import label
from sentattn.loggers.guard import summarize
from sentattn.run import METRICS, Run

COLUMNS = 2
KINDS = ("BarPlot", "ScatterPlot", "LinePlot")


def main(path: Path) -> None:
    """Draws the first dashboard of a file."""
    [one, *_] = json.loads(path.read_text(encoding="utf-8"))
    folders = {file.parent.name: file.parent for file in path.parent.rglob("result.json")}
    groups: dict[str, list[Run]] = defaultdict(list)
    for name in one["runs"]:
        run = Run(folders[name])
        groups[f"{label(run.settings)}-{run.result['setting'][:4]}"].append(run)
    panels = [panel for part in one["workspace"]["sections"] for panel in part["panels"] if panel["kind"] in KINDS]
    panels = [panel for panel in panels if panel.get("y") != ["train/gradient_norm"]]
    rows = -(-len(panels) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(13, 3.6 * rows), layout="constrained")
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for panel, axis in zip(panels, axes.flat, strict=False):
        axis.set_title(panel["title"], fontsize=9)
        axis.tick_params(labelsize=7)
        DRAW[panel["kind"]](axis, panel, groups)
    figure.legend(*axes.flat[2].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=7)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=80)


def bars(axis: Any, panel: dict[str, Any], groups: dict[str, list[Run]]) -> None:
    """Draws the mean of each group and its standard error."""
    [metric] = panel["metrics"]
    found = {name: [run.metrics[metric] for run in runs] for name, runs in groups.items()}
    names = sorted(found, key=lambda name: float(np.mean(found[name])))
    means = [np.mean(found[name]) for name in names]
    errors = [np.std(found[name], ddof=1) / len(found[name]) ** 0.5 if len(found[name]) > 1 else 0 for name in names]
    axis.barh(names, means, xerr=errors, color="tab:orange", error_kw={"linewidth": 1})
    axis.set_xlim(min(means) - 0.02, max(means) + 0.01)


def scatter(axis: Any, panel: dict[str, Any], groups: dict[str, list[Run]]) -> None:
    """Draws a point for each run."""
    axis.set_xscale("log")
    axis.xaxis.set_minor_formatter(NullFormatter())
    for number, (name, runs) in enumerate(groups.items()):
        values = [summarize(run.result) for run in runs]
        x, y = ([value.get(panel[side]["summary"], np.nan) for value in values] for side in "xy")
        axis.scatter(x, y, s=18, label=name, color=f"C{number % 10}", marker="os^"[number // 10])


def curves(axis: Any, panel: dict[str, Any], groups: dict[str, list[Run]]) -> None:
    """Draws the mean of each group by epoch, with its standard error."""
    [metric] = panel["y"]
    for number, runs in enumerate(groups.values()):
        files = [run.path / METRICS for run in runs if (run.path / METRICS).is_file()]
        rows = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
        found = [[row[metric] for row in lines if metric in row] for lines in rows]
        found = [values for values in found if values]
        if not found or len({len(values) for values in found}) > 1:
            continue
        values = np.array(found)
        epochs, mean = np.arange(1, values.shape[1] + 1), values.mean(axis=0)
        error = values.std(axis=0, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.zeros(len(mean))
        axis.set_xticks(epochs)
        axis.plot(epochs, mean, color=f"C{number % 10}", linewidth=1)
        axis.fill_between(epochs, mean - error, mean + error, color=f"C{number % 10}", alpha=0.2, linewidth=0)


DRAW = {"BarPlot": bars, "ScatterPlot": scatter, "LinePlot": curves}

if __name__ == "__main__":
    main(Path(sys.argv[1]))
