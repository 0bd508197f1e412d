"""Draws charts of a dashboard as W&B would, from `dashboard.json`: those of runs, or of a study.

usage: python docs/dashboard.py outputs/imdb/dashboard.json [PICTURE]

Reads the runs below the folder of the file and writes docs/dashboard.png, or PICTURE in docs/.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray

from sentattn.config.targets import label
from sentattn.loggers.wandb.dashboard import tried_values
from sentattn.run import METRICS, Run, summarize

COLUMNS = 2
WIDE = "ParallelCoordinatesPlot"
NONE = -0.15
"""Where a trial without a value stands on an axis from 0 to 1."""


def main(path: Path, picture: str = "dashboard.png") -> None:
    """Draws the first dashboard of a file."""
    [one, *_] = json.loads(path.read_text(encoding="utf-8"))
    folders = {file.parent.name: file.parent for file in path.parent.rglob("result.json")}
    groups: dict[str, list[Run]] = defaultdict(list)
    for name in one["runs"]:
        run = Run(folders[name])
        groups[name if run.is_trial else f"{label(run.settings)}-{run.result['setting'][:4]}"].append(run)
    panels = [panel for part in one["workspace"]["sections"] for panel in part["panels"] if panel["kind"] in DRAW]
    panels = [panel for panel in panels if panel.get("y") != ["train/gradient_norm"]]
    searched = [column["config"] for panel in panels for column in panel.get("columns", ()) if "config" in column]
    spans = [COLUMNS if panel["kind"] == WIDE else 1 for panel in panels]
    rows = -(-sum(spans) // COLUMNS)
    figure = plt.figure(figsize=(13, 3.4 * rows), layout="constrained")
    grid = figure.add_gridspec(rows, COLUMNS)
    handles: dict[str, Any] = {}
    for number, (panel, span) in enumerate(zip(panels, spans, strict=True)):
        row, column = divmod(sum(spans[:number]), COLUMNS)
        axis = figure.add_subfigure(grid[row, column : column + span]).subplots()
        axis.set_title(panel.get("title", ""), fontsize=10)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
        DRAW[panel["kind"]](axis, panel | {"searched": searched}, groups)
        handles |= {name: handle for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    if handles:
        lines, names = list(handles.values()), list(handles)
        figure.legend(lines, names, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.savefig(Path(__file__).with_name(picture), dpi=80)


def bars(axis: Any, panel: dict[str, Any], groups: dict[str, list[Run]]) -> None:
    """Draws the mean of each group and its standard error."""
    [metric] = panel["metrics"]
    found = {name: [run.metrics[metric] for run in runs] for name, runs in groups.items()}
    names = sorted(found, key=lambda name: float(np.mean(found[name])))
    means = [float(np.mean(found[name])) for name in names]
    errors = [np.std(found[name], ddof=1) / len(found[name]) ** 0.5 if len(found[name]) > 1 else 0 for name in names]
    drawn = axis.barh(names, means, xerr=errors, color="tab:orange", error_kw={"linewidth": 1})
    texts = [
        f"{mean:.3f}" + (f" \u00b1 {error:.3f}" if error else "") for mean, error in zip(means, errors, strict=True)
    ]
    axis.bar_label(drawn, texts, fontsize=7, padding=3)
    axis.set_xlim(0, 1.25 * max(means))


def scatter(axis: Any, panel: dict[str, Any], groups: dict[str, list[Run]]) -> None:
    """Draws a point for each run."""
    axis.set_xscale("log")
    axis.xaxis.set_minor_formatter(NullFormatter())
    for name, runs in groups.items():
        values = [summarize(run.result) for run in runs]
        x, y = ([value.get(panel[side]["summary"], np.nan) for value in values] for side in "xy")
        axis.scatter(x, y, s=22, label=name, color=color(name, groups))


def curves(axis: Any, panel: dict[str, Any], groups: dict[str, list[Run]]) -> None:
    """Draws the mean of each group by epoch, with its standard error."""
    [metric] = panel["y"]
    for name, runs in groups.items():
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
        axis.set_xlabel("epoch", fontsize=8)
        axis.plot(epochs, mean, color=color(name, groups), linewidth=1.2)
        axis.fill_between(epochs, mean - error, mean + error, color=color(name, groups), alpha=0.2, linewidth=0)


def color(name: str, groups: dict[str, list[Run]]) -> Any:
    """Returns the color of a group, the same in all charts."""
    return plt.get_cmap("tab20")([*groups].index(name) % 20)


def parallel(axis: Any, panel: dict[str, Any], groups: dict[str, list[Run]]) -> None:
    """Draws a line for each trial through its settings and its metric, which colors it."""
    names = [column.get("config") or column["summary"] for column in panel["columns"]]
    columns = list(zip(*values_of(names, groups), strict=True))
    heights = []
    style: Any = {"fontsize": 8, "va": "center", "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1}}
    for k, column in enumerate(columns):
        numbers, texts = numbers_of(column)
        low, high = np.nanmin(numbers), np.nanmax(numbers)
        heights.append(np.nan_to_num((numbers - low) / max(high - low, 1e-12), nan=NONE))
        axis.axvline(k, color="0.8", linewidth=1, zorder=0)
        ticks = dict(enumerate(texts)) if texts else {low: f"{low:.3g}", high: f"{high:.3g}"}
        for number, text in ticks.items():
            axis.text(k + 0.03, (number - low) / max(high - low, 1e-12), text, **style)
        if np.isnan(numbers).any():
            axis.text(k + 0.03, NONE, "none", **style)
    for line_K in np.stack(heights, axis=1):
        axis.plot(line_K, color=plt.get_cmap("viridis")(line_K[-1]), linewidth=1.2)
    axis.set_xticks(range(len(names)), [name.removeprefix("model.") for name in names])
    axis.set_xlim(-0.4, len(names) - 0.6)
    axis.set_yticks([])
    axis.spines[:].set_visible(False)


def importance(axis: Any, panel: dict[str, Any], groups: dict[str, list[Run]]) -> None:
    """Draws the importance of each setting for the metric in a random forest, which is what W&B shows."""
    from sklearn.ensemble import RandomForestRegressor

    metric, names = panel["with_respect_to"], panel["searched"]
    *settings, values = (numbers_of(column)[0] for column in zip(*values_of([*names, metric], groups), strict=True))
    forest = RandomForestRegressor(n_estimators=200, random_state=0).fit(np.stack(settings, axis=1), values)
    order = np.argsort(forest.feature_importances_)
    axis.set_title(f"importance for {metric}", fontsize=10)
    axis.barh([names[k].removeprefix("model.") for k in order], forest.feature_importances_[order], color="tab:blue")


def numbers_of(column: Sequence[Any]) -> tuple[NDArray[np.float64], list[str]]:
    """Returns values as numbers, NaN for none, and the texts that stand for 0, 1, ... where they are texts."""
    texts = sorted({value for value in column if isinstance(value, str)})
    numbers = [texts.index(value) if isinstance(value, str) else value for value in column]
    return np.array(numbers, dtype=float), texts


def values_of(names: list[str], groups: dict[str, list[Run]]) -> list[list[Any]]:
    """Returns the settings and final values by these names, a row for each trial; None for what a trial did not set."""
    runs = [run for [run] in groups.values()]
    tried = tried_values(runs[0].path.parents[1], runs)
    rows = (tried[run.path] | summarize(run.result) for run in runs)
    return [[row.get(name) for name in names] for row in rows]


DRAW = {
    "BarPlot": bars,
    "ScatterPlot": scatter,
    "LinePlot": curves,
    "ParallelCoordinatesPlot": parallel,
    "ParameterImportancePlot": importance,
}

if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
