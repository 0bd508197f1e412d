"""The content of a dashboard on W&B as plain data: panels of a workspace, blocks of a report, and those of a study.

`sentattn.loggers.wandb.workspace` converts it to objects of `wandb-workspaces`. A panel or block is a dictionary of its class in
`wandb_workspaces.reports.v2` (`kind`) and the arguments of that class, in which `{"config": KEY}` and
`{"summary": KEY}` stand for a setting and a final value of a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from sentattn.run import TRIALS, Run

MAX_BARS = 50
MAX_ROWS = 10
"""Trials in the table of a study."""
PICTURES = "wandb/*run-*/files/media/images/attention/*.png"
WANDB = "sentattn.loggers.wandb_logger"
OVER_SEEDS = {"groupby": "Group", "groupby_aggfunc": "mean", "groupby_rangefunc": "stderr"}
"""A point for each setting: the mean over its seeds, with its standard error."""
CONFUSION = {"Actual": "Actual", "Predicted": "Predicted", "nPredictions": "nPredictions"}
_PICTURE = re.compile(r"(.+)_\d+_[0-9a-f]+\.png")
Panel: TypeAlias = dict[str, Any]
Specification: TypeAlias = dict[str, Any]


def place_of(settings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns `project`, `entity` and `host` of the first run that was logged to W&B, else the default project."""
    for of_run in settings:
        logger = of_run.get("logger")
        if isinstance(logger, Mapping) and logger.get("_target_") == WANDB:
            return {key: logger.get(key) for key in ("project", "entity", "host")}
    return {"project": "sentattn", "entity": None, "host": None}


def leaderboard_panels(split: str) -> list[Panel]:
    """Returns bars with standard errors over seeds, accuracy against cost, and the settings side by side."""
    accuracy, loss = f"{split}/accuracy", f"{split}/log_loss"
    costs = ("seconds/train", "parameters/total", "latency_ms/one")
    return [
        *(
            {"kind": "BarPlot", "title": metric, "metrics": [metric], "max_bars_to_show": MAX_BARS, **OVER_SEEDS}
            for metric in (accuracy, loss)
        ),
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


def curve_panels(*, grouped: bool = True) -> list[Panel]:
    """Returns learning curves; grouped, means and standard errors over seeds."""
    over_seeds = OVER_SEEDS if grouped else {}
    return [
        {"kind": "LinePlot", "title": metric, "x": "epoch", "y": [metric], **over_seeds}
        for metric in ("val/accuracy", "val/log_loss", "train/loss", "train/gradient_norm")
    ]


def sweep_panels(keys: Sequence[str], metric: str) -> list[Panel]:
    """Returns parallel coordinates of the settings that were searched, and their importance for a metric."""
    columns = [*({"config": key} for key in keys), {"summary": metric}]
    return [
        {"kind": "ParallelCoordinatesPlot", "title": f"settings and {metric}", "columns": columns},
        {"kind": "ParameterImportancePlot", "with_respect_to": metric},
    ]


def confusion_panel(split: str) -> Panel:
    """Returns the chart of W&B's `confusion_matrix`, of all runs together."""
    return {
        "kind": "CustomChart",
        "query": {"summaryTable": {"tableKey": f"{split}/confusion_matrix_table"}},
        "chart_name": "wandb/confusion_matrix/v1",
        "chart_fields": CONFUSION,
        "chart_strings": {"title": f"confusion matrix, {split}"},
    }


def picture_panels(paths: Iterable[Path]) -> list[Panel]:
    """Returns the pictures of attention that runs have logged, if there are any."""
    matches = (_PICTURE.fullmatch(file.name) for path in paths for file in path.glob(PICTURES))
    keys = sorted({f"attention/{match[1]}" for match in matches if match})
    return [{"kind": "MediaBrowser", "title": "attention", "media_keys": keys, "num_columns": 2}] if keys else []


def dashboard(
    place: Mapping[str, Any],
    runs: Sequence[str],
    *,
    name: str,
    about: str,
    description: str,
    sections: Mapping[str, Sequence[Panel]],
    blocks: Sequence[dict[str, Any]],
) -> Specification:
    """Returns a dashboard: a workspace with sections of panels, and a report of blocks.

    A dashboard that is published replaces the former one with the same `about`.
    """
    shown = [{"name": title, "panels": list(panels)} for title, panels in sections.items() if panels]
    return {
        **place,
        "about": about,
        "runs": list(runs),
        "workspace": {"name": name, "sections": shown},
        "report": {"title": name, "description": description, "blocks": list(blocks)},
    }


def study_specification(study: Path, ids: Mapping[Path, str], place: Mapping[str, Any]) -> Specification:
    """Returns the dashboard of a study, from its table of trials.

    Args:
        study: The study's folder.
        ids: The name of each trial on W&B, by its directory.
        place: `project`, `entity` and `host` of the trials.
    """
    from sentattn.loggers.guard import summarize  # imports Lightning

    trials, searched = _trials(study)
    complete = [row for row in trials.values() if row["state"] == "complete"]
    runs = {path: name for path, name in ids.items() if trials.get(_number(study, path)) in complete}
    first = next(map(Run, runs), None)
    values = summarize(first.result) if first else {}
    keys, metrics = ([name for name in searched if (_final(name) in values) is known] for known in (False, True))
    order = ""
    if first and (metric := first.settings["objective"]["metric"]) in metrics:
        complete.sort(key=lambda row: row[metric], reverse=first.settings["objective"]["mode"] == "max")
        order = f", the best by {metric} first"
    panels = [panel for metric in metrics for panel in sweep_panels(keys, _final(metric))]
    heading = ["trial", *keys, *metrics, "seconds"]
    best = complete[:MAX_ROWS]
    cells = [[_cell(row[name]) for name in ("number", *heading[1:])] for row in best]
    table = "\n".join(f"| {' | '.join(row)} |" for row in (heading, ["---"] * len(heading), *cells))
    return dashboard(
        place,
        list(runs.values()),
        name=f"study {study.name}",
        about=f"study {study.name}",
        description=f"{len(complete)} complete trials",
        sections={"Sweep": panels, "Learning curves": curve_panels(grouped=False)},
        blocks=[
            {"kind": "P", "text": f"{len(best)} of {len(complete)} complete trials{order}."},
            {"kind": "MarkdownBlock", "text": table},
            {"kind": "PanelGrid", "panels": panels},
        ],
    )


def tried_values(study: Path, runs: Iterable[Run]) -> dict[Path, dict[str, Any]]:
    """Returns the values that runs of a study tried, by their directories, from the study's table of trials."""
    from sentattn.loggers.guard import summarize  # imports Lightning

    trials, searched = _trials(study)
    values = {}
    for run in runs:
        row, known = trials.get(_number(study, run.path), {}), summarize(run.result)
        tried = {name: row.get(name) for name in searched if _final(name) not in known}
        values[run.path] = {name: value for name, value in tried.items() if value is not None}
    return values


def _final(name: str) -> str:
    """Returns the name of an objective among the final values of a run: `latency_ms.one` is `latency_ms/one` there."""
    return name.replace(".", "/")


def _number(study: Path, path: Path) -> str:
    """Returns the number of the trial that a run directory belongs to; an empty string for none."""
    inside, folder = path.resolve(), (study / "trials").resolve()
    return inside.relative_to(folder).parts[0] if folder in inside.parents else ""


def _trials(study: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Returns the rows of a study's table of trials by number, and its columns of settings and objectives."""
    import pyarrow.parquet as pq

    table = pq.read_table(study / TRIALS)
    columns = table.column_names
    trials = {str(row["number"]): row for row in table.to_pylist()}
    return trials, columns[columns.index("state") + 1 : columns.index("best_epoch")]


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
