"""The dashboard on W&B: its content as plain data, and its publication through `wandb-workspaces`.

A panel or block is a dictionary of its class in `wandb_workspaces.reports.v2` (`kind`) and the arguments of that class,
in which `{"config": KEY}` and `{"summary": KEY}` stand for a setting and a final value of a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from sentattn.config.types import Json, Node
from sentattn.console import table_in_format
from sentattn.errors import Fault, RunError, first_line
from sentattn.loggers.wandb.upload import api_errors, server, wandb_settings
from sentattn.run import TRIALS, Run, summarize, write_atomically

FILE = "dashboard.json"
WORKSPACE, REPORT = "workspace", "report"
COLUMNS = ["run:displayName", "summary:test/accuracy", "summary:val/accuracy", "summary:seconds/train", "config:seed"]
"""Columns that are pinned in the table of runs."""
MAX_BARS, MAX_ROWS = 50, 10
"""Most settings in a bar chart, and most trials in the table of a study."""
PICTURES = "wandb/*run-*/files/media/images/attention/*.png"
OVER_SEEDS = {"groupby": "Group", "groupby_aggfunc": "mean", "groupby_rangefunc": "stderr"}
"""A point for each setting: the mean over its seeds, with its standard error."""
CONFUSION = {"Actual": "Actual", "Predicted": "Predicted", "nPredictions": "nPredictions"}
_PICTURE = re.compile(r"(.+)_\d+_[0-9a-f]+\.png")
Panel: TypeAlias = Json
Specification: TypeAlias = Json


def place_of(settings: Iterable[Node]) -> Json:
    """Returns `project`, `entity` and `host` of the first run that was logged to W&B, else the default project."""
    for of_run in settings:
        if logger := wandb_settings(of_run):
            return {key: logger.get(key) for key in ("project", "entity", "host")}
    return {"project": "sentattn", "entity": None, "host": None}


def leaderboard_panels(split: str) -> list[Panel]:
    """Returns bars with standard errors over seeds, accuracy against cost, and the settings side by side."""
    accuracy = f"{split}/accuracy"
    bars = [
        {"kind": "BarPlot", "title": metric, "metrics": [metric], "max_bars_to_show": MAX_BARS, **OVER_SEEDS}
        for metric in (accuracy, f"{split}/log_loss")
    ]
    points = [
        {"title": f"{accuracy} against {cost}", "x": {"summary": cost}, "y": {"summary": accuracy}, "log_x": True}
        for cost in ("seconds/train", "parameters/total", "latency_ms/one")
    ]
    return [
        *bars,
        *({"kind": "ScatterPlot", **panel} for panel in points),
        {"kind": "RunComparer", "diff_only": "split"},
    ]


def curve_panels(*, grouped: bool = True) -> list[Panel]:
    """Returns learning curves; grouped, means and standard errors over seeds."""
    over_seeds = OVER_SEEDS if grouped else {}
    return [
        {"kind": "LinePlot", "title": metric, "x": "epoch", "y": [metric], **over_seeds}
        for metric in ("val/accuracy", "val/log_loss", "train/loss", "train/gradient_norm")
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
    place: Node,
    runs: Sequence[str],
    *,
    name: str,
    about: str,
    description: str,
    sections: Mapping[str, Sequence[Panel]],
    blocks: Sequence[Panel],
) -> Specification:
    """Returns a workspace of panels and a report of blocks; when published, they replace the former ones `about` it."""
    shown = [{"name": title, "panels": list(panels)} for title, panels in sections.items() if panels]
    report = {"title": name, "description": description, "blocks": list(blocks)}
    workspace = {"name": name, "sections": shown}
    return {**place, "about": about, "runs": list(runs), WORKSPACE: workspace, REPORT: report}


def study_specification(study: Path, ids: Mapping[Path, str], place: Node) -> Specification:
    """Returns the dashboard of a study from its folder; `ids` are the names of its trials on W&B by directory."""
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
    panels: list[Panel] = []
    for metric in map(_final, metrics):
        columns = [*({"config": key} for key in keys), {"summary": metric}]
        panels += [
            {"kind": "ParallelCoordinatesPlot", "title": f"settings and {metric}", "columns": columns},
            {"kind": "ParameterImportancePlot", "with_respect_to": metric},
        ]
    heading = ["trial", *keys, *metrics, "seconds"]
    best = complete[:MAX_ROWS]
    cells = [[_cell(row[name]) for name in ("number", *heading[1:])] for row in best]
    table = "\n".join(table_in_format([heading, *cells], "markdown"))
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


def tried_values(study: Path, runs: Iterable[Run]) -> dict[Path, Json]:
    """Returns the values that runs of a study tried, by their directories, from the study's table of trials."""
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


def _trials(study: Path) -> tuple[dict[str, Json], list[str]]:
    """Returns the rows of a study's table of trials by number, and its columns of settings and objectives."""
    import pyarrow.parquet as pq

    table = pq.read_table(study / TRIALS)
    columns = table.column_names
    trials = {str(row["number"]): row for row in table.to_pylist()}
    return trials, columns[columns.index("state") + 1 : columns.index("best_epoch")]


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def published(path: Path) -> dict[str, dict[str, str]]:
    """Returns the addresses of the dashboards in a file, by subject; none if it cannot be read."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        entries = json.loads(path.read_text(encoding="utf-8"))
        return {entry.get("about"): entry.get("published", {}) for entry in entries}
    return {}


def write(path: Path, specifications: list[Specification]) -> None:
    """Writes dashboards, with the addresses of those that are published; a `RunError` if the file cannot be written."""
    try:
        write_atomically(path, json.dumps(specifications, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}."
        raise RunError(Fault("to", "unwritable", message)) from error


def publish(specification: Specification, former: Mapping[str, dict[str, str]]) -> dict[str, str]:
    """Creates workspace and report of a dashboard, or replaces the former ones, and returns their addresses.

    They become `published` in the specification; `former` are those that were published before, by subject. A
    `RunError` if the server cannot be reached or refuses them.
    """
    import wandb
    import wandb_workspaces.reports.v2 as wr
    import wandb_workspaces.workspaces as ws
    from wandb_workspaces import expr

    addresses = specification["published"] = dict(former.get(specification["about"], {}))
    filters = expr.And(expr.Metric("ID").isin(specification["runs"]))
    with server(specification["host"]):
        try:
            entity = str(specification["entity"] or wandb.Api().default_entity)
            place = {"entity": entity, "project": specification["project"]}
            content = specification[WORKSPACE]
            workspace = _existing(ws.Workspace, addresses.get(WORKSPACE)) or ws.Workspace(**place)
            workspace.name = content["name"]
            workspace.sections = [
                ws.Section(name=section["name"], panels=_object(section["panels"]), is_open=True)
                for section in content["sections"]
            ]
            workspace.runset_settings = ws.RunsetSettings(filters=filters, pinned_columns=COLUMNS)
            workspace.save()
            addresses[WORKSPACE] = str(workspace.url)
            content = specification[REPORT]
            report = _existing(wr.Report, addresses.get(REPORT)) or wr.Report(**place)
            report.title, report.description = content["title"], content["description"]
            report.blocks = _object(content["blocks"], wr.Runset(**place, name=content["title"], filters=filters))
            report.save()
            addresses[REPORT] = str(report.url)
        except api_errors() as error:
            reason = first_line(error)
            raise RunError(Fault("to", "failed", f"the dashboard was not published: {reason}.")) from error
    return addresses


def _existing(kind: Any, address: str | None) -> Any:
    """Returns the workspace or report at an address; None without an address, and where it was deleted."""
    if address is not None:
        with suppress(ValueError, TypeError, KeyError, AttributeError):  # the answer has null for a deleted object
            return kind.from_url(address)
    return None


def _object(value: Any, runs: Any = None) -> Any:
    """Returns W&B's objects of plain data: of panels, blocks with panels about `runs`, and values of runs."""
    import wandb_workspaces.reports.v2 as wr

    if isinstance(value, list):
        return [_object(item, runs) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"config"}:
        return wr.Config(value["config"])
    if value.keys() == {"summary"}:
        return wr.SummaryMetric(value["summary"])
    if "kind" not in value:
        return value
    arguments = {key: _object(argument) for key, argument in value.items() if key != "kind"}
    if value["kind"] == "PanelGrid":
        arguments["runsets"] = [runs]
    if value["kind"] == "ParallelCoordinatesPlot":
        arguments["columns"] = [wr.ParallelCoordinatesPlotColumn(metric=metric) for metric in arguments["columns"]]
    return getattr(wr, value["kind"])(**arguments)
