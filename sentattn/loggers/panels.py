"""What a dashboard on W&B shows, as plain data: panels of a workspace, blocks of a report, and those of a study.

`sentattn.loggers.dashboard` makes W&B's own objects of it. A panel or block is a dictionary of its class in
`wandb_workspaces.reports.v2` (`kind`) and the arguments of that class, in which `{"config": KEY}` and
`{"summary": KEY}` stand for a setting and a final value of a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentattn.run import TRIALS, Run

MAX_BARS = 50
MAX_ROWS = 10
"""Trials in the table of a study."""
PICTURES = "wandb/*run-*/files/media/images/attention/*.png"
WANDB = "sentattn.loggers.wandb_logger"
CONFUSION = {"Actual": "Actual", "Predicted": "Predicted", "nPredictions": "nPredictions"}
_PICTURE = re.compile(r"(.+)_\d+_[0-9a-f]+\.png")
Specification = dict[str, Any]


def place_of(settings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns where runs are on W&B: as the first that was logged there says, else the default project."""
    for one in settings:
        logger = one.get("logger")
        if isinstance(logger, Mapping) and logger.get("_target_") == WANDB:
            return {key: logger.get(key) for key in ("project", "entity", "host")}
    return {"project": "sentattn", "entity": None, "host": None}


def leaderboard_panels(split: str) -> list[dict[str, Any]]:
    """Returns bars with standard errors over seeds, accuracy against cost, and the settings side by side."""
    accuracy, loss = f"{split}/accuracy", f"{split}/log_loss"
    costs = ("seconds/train", "parameters/total", "latency_ms/one")
    return [
        *(_bars(metric) for metric in (accuracy, loss)),
        *(
            {
                "kind": "ScatterPlot",
                "title": f"{accuracy} against {cost}",
                "x": {"summary": cost},
                "y": {"summary": accuracy},
                "log_x": True,
            }
            for cost in costs
        ),
        {"kind": "RunComparer", "diff_only": "split"},
    ]


def curve_panels(*, grouped: bool = True) -> list[dict[str, Any]]:
    """Returns learning curves; grouped, means and standard errors over seeds."""
    over_seeds = _over_seeds() if grouped else {}
    return [
        {"kind": "LinePlot", "title": metric, "x": "epoch", "y": [metric], **over_seeds}
        for metric in ("val/accuracy", "val/log_loss", "train/loss", "train/gradient_norm")
    ]


def sweep_panels(keys: Sequence[str], metric: str) -> list[dict[str, Any]]:
    """Returns parallel coordinates of the settings that were searched, and their importance for a metric."""
    columns = [*({"config": key} for key in keys), {"summary": metric}]
    return [
        {"kind": "ParallelCoordinatesPlot", "title": f"settings and {metric}", "columns": columns},
        {"kind": "ParameterImportancePlot", "with_respect_to": metric},
    ]


def _bars(metric: str) -> dict[str, Any]:
    return {"kind": "BarPlot", "title": metric, "metrics": [metric], "max_bars_to_show": MAX_BARS, **_over_seeds()}


def _over_seeds() -> dict[str, Any]:
    return {"groupby": "Group", "groupby_aggfunc": "mean", "groupby_rangefunc": "stderr"}


def confusion_panel(split: str) -> dict[str, Any]:
    """Returns the chart of W&B's `confusion_matrix`, of all runs together."""
    return {
        "kind": "CustomChart",
        "query": {"summaryTable": {"tableKey": f"{split}/confusion_matrix_table"}},
        "chart_name": "wandb/confusion_matrix/v1",
        "chart_fields": CONFUSION,
        "chart_strings": {"title": f"confusion matrix, {split}"},
    }


def picture_panels(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Returns the pictures of attention that runs have logged, if there are any."""
    found = (_PICTURE.fullmatch(file.name) for path in paths for file in path.glob(PICTURES))
    keys = sorted({f"attention/{match[1]}" for match in found if match})
    return [{"kind": "MediaBrowser", "title": "attention", "media_keys": keys, "num_columns": 2}] if keys else []


def section(name: str, panels: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns a section of a workspace."""
    return {"name": name, "panels": list(panels)}


def study_specification(study: Path, ids: Mapping[Path, str], place: Mapping[str, Any]) -> Specification:
    """Returns what the dashboard of a study shows, from its table of trials.

    Args:
        study: The study's folder.
        ids: The name of each trial on W&B, by its directory.
        place: `project`, `entity` and `host` of the trials.
    """
    import pyarrow.parquet as pq

    from sentattn.loggers.guard import summarize  # imports Lightning

    table = pq.read_table(study / TRIALS)
    columns = table.column_names
    complete = [row for row in table.to_pylist() if row["state"] == "complete"]
    trials = {Path(row["directory"]).resolve() for row in complete}
    runs = {path: name for path, name in ids.items() if {path.resolve(), path.resolve().parent} & trials}  # or seeds
    values = summarize(Run(next(iter(runs))).result) if runs else {}
    searched = columns[columns.index("state") + 1 : columns.index("best_epoch")]
    keys, metrics = ([name for name in searched if (name in values) is known] for known in (False, True))
    panels = [panel for metric in metrics for panel in sweep_panels(keys, metric)]
    heading = ["trial", *keys, *metrics, "seconds"]
    rows = [["number", *heading[1:]], ["---"] * len(heading)]
    lines = [heading, rows[1], *([_cell(row[name]) for name in rows[0]] for row in complete[:MAX_ROWS])]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    name = f"study {study.name}"
    return {
        **place,
        "about": name,
        "runs": [*runs.values()],
        "workspace": {
            "name": name,
            "sections": [section("Sweep", panels), section("Learning curves", curve_panels(grouped=False))],
        },
        "report": {
            "title": name,
            "description": f"{len(complete)} complete trials",
            "blocks": [{"kind": "MarkdownBlock", "text": text}, {"kind": "PanelGrid", "panels": panels}],
        },
    }


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
