"""Draws charts of a dashboard as W&B would, from `dashboard.json`: those of runs, or of a study.

usage: python docs/dashboard.py outputs/imdb/dashboard.json [PICTURE]

Reads the runs below the folder of the file and writes docs/dashboard.png, or PICTURE in docs/.
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

from sentattn.config.groups import at
from sentattn.config.targets import label
from sentattn.loggers.guard import summarize
from sentattn.run import METRICS, Run

COLUMNS = 2


def main(path: Path, picture: str = "dashboard.png") -> None:
    """Draws the first dashboard of a file."""
    [one, *_] = json.loads(path.read_text(encoding="utf-8"))
    folders = {file.parent.name: file.parent for file in path.parent.rglob("result.json")}
    groups: dict[str, list[Run]] = defaultdict(list)
    for name in one["runs"]:
        run = Run(folders[name])
        is_trial = run.result.get("study") is not None
        groups[name if is_trial else f"{label(run.settings)}-{run.result['setting'][:4]}"].append(run)
    panels = [panel for part in one["workspace"]["sections"] for panel in part["panels"] if panel["kind"] in DRAW]
    panels = [panel for panel in panels if panel.get("y") != ["train/gradient_norm"]]
    searched = [column["config"] for panel in panels for column in panel.get("columns", ()) if "config" in column]
    rows = -(-len(panels) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(13, 3.6 * rows), layout="constrained")
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for panel, axis in zip(panels, axes.flat, strict=False):
        axis.set_title(panel["title"], fontsize=9)
        axis.tick_params(labelsize=7)
        DRAW[panel["kind"]](axis, panel | {"searched": searched}, groups)
    if not is_trial:
        figure.legend(*axes.flat[2].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=7)
    figure.savefig(Path(__file__).with_name(picture), dpi=80)


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


def parallel(axis: Any, panel: dict[str, Any], groups: dict[str, list[Run]]) -> None:
    """Draws a line for each trial through its settings and its metric, which colours it."""
    names = [column.get("config") or column["summary"] for column in panel["columns"]]
    table_TK = values_of(names, groups)
    columns = zip(*table_TK, strict=True)
    texts = [{value: place for place, value in enumerate(sorted(set(map(str, column))))} for column in columns]
    places_TK = np.array(
        [
            [value if isinstance(value, int | float) else texts[k][str(value)] for k, value in enumerate(row)]
            for row in table_TK
        ],
        dtype=float,
    )
    low_K, high_K = places_TK.min(axis=0), places_TK.max(axis=0)
    scaled_TK = (places_TK - low_K) / np.maximum(high_K - low_K, 1e-12)
    for line_K in scaled_TK:
        axis.plot(line_K, color=plt.get_cmap("viridis")(line_K[-1]), linewidth=1)
    for k, value in enumerate(table_TK[0]):
        is_text = not isinstance(value, int | float)
        ends = ((0, low_K), (-1, high_K))
        low, high = (sorted(texts[k])[end] if is_text else f"{bound[k]:.3g}" for end, bound in ends)
        axis.text(k, -0.04, f"{low}", ha="center", va="top", fontsize=7)
        axis.text(k, 1.02, f"{high}", ha="center", va="bottom", fontsize=7)
        axis.axvline(k, color="0.7", linewidth=0.5)
    axis.set_xticks(range(len(names)), [name.removeprefix("model.") for name in names])
    axis.set_yticks([])
    axis.set_ylim(-0.12, 1.12)


def importance(axis: Any, panel: dict[str, Any], groups: dict[str, list[Run]]) -> None:
    """Draws the importance of each setting for the metric in a random forest, which is what W&B shows."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.preprocessing import OrdinalEncoder

    metric = panel["with_respect_to"]
    names = panel["searched"]
    table_TK = values_of([*names, metric], groups)
    columns = list(zip(*table_TK, strict=True))
    encoded = [
        np.array(column, dtype=float)
        if all(isinstance(value, int | float) for value in column)
        else OrdinalEncoder().fit_transform([[str(value)] for value in column]).ravel()
        for column in columns
    ]
    forest = RandomForestRegressor(n_estimators=200, random_state=0).fit(np.stack(encoded[:-1], axis=1), encoded[-1])
    order = np.argsort(forest.feature_importances_)
    axis.set_title(f"importance for {metric}", fontsize=9)
    axis.barh([names[k].removeprefix("model.") for k in order], forest.feature_importances_[order], color="tab:blue")


def values_of(names: list[str], groups: dict[str, list[Run]]) -> list[list[Any]]:
    """Returns the settings and summaries by these names, a row for each trial."""
    rows = []
    for [run] in groups.values():
        known = summarize(run.result)
        rows.append([known[name] if name in known else at(run.settings, name) for name in names])
    return rows


DRAW = {
    "BarPlot": bars,
    "ScatterPlot": scatter,
    "LinePlot": curves,
    "ParallelCoordinatesPlot": parallel,
    "ParameterImportancePlot": importance,
}

if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
