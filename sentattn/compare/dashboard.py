"""The workspace and the report on W&B of a comparison or of a study, as objects of `wandb-workspaces`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.compare.comparison import Comparison
from sentattn.compare.leaderboard import board_lines, notes
from sentattn.compare.metric import ACCURACY, METRICS
from sentattn.errors import Fault, RunError
from sentattn.loggers.wandb.upload import LocalRun, find_runs, server, upload, wandb_settings
from sentattn.run import RESULT_FILE, TRIALS_FILE, Run, summarize, write_atomically, writing

if TYPE_CHECKING:
    from wandb_workspaces.reports.v2 import Report
    from wandb_workspaces.workspaces import Workspace

FILE = "wandb.json"
"""The addresses of what was saved, by what it is about."""
COLUMNS = ["run:displayName", "summary:test/accuracy", "summary:val/accuracy", "summary:seconds/train", "config:seed"]
"""Columns that are pinned in the table of runs."""
MAX_BARS = 50
"""Most settings in a bar chart."""
PICTURES = "files/media/images/attention/*.png"
OVER_SEEDS = {"groupby": "config.setting", "groupby_aggfunc": "mean", "groupby_rangefunc": "stderr"}
"""A point for each setting, also where several have one `group=`: the mean over its seeds, with its standard error."""
CONFUSION = {"Actual": "Actual", "Predicted": "Predicted", "nPredictions": "nPredictions"}
INTERVALS = (
    "The intervals of this table count rows (or their groups) and seeds, so they are about another training on other "
    "rows. The bars of the charts are standard errors over seeds alone, as W&B computes them."
)


def comparison_pages(comparison: Comparison, *, entity: str, project: str) -> tuple[Workspace, Report]:
    """Returns the workspace and the report of the runs of a comparison that were logged to W&B."""
    import wandb_workspaces.reports.v2 as wr

    split, name = comparison.split, comparison.metric.name
    compared = f"{split}/{name if name in METRICS else ACCURACY.name}"  # runs log no metric of a class
    logged = find_runs(_paths(comparison))
    board: list[Any] = [
        wr.BarPlot(title=metric, metrics=[metric], max_bars_to_show=MAX_BARS, **OVER_SEEDS)
        for metric in dict.fromkeys([compared, f"{split}/log_loss"])
    ]
    for cost in ("seconds/train", "parameters/total", "latency_ms/one"):
        x, y = wr.SummaryMetric(cost), wr.SummaryMetric(compared)
        board.append(wr.ScatterPlot(title=f"{compared} against {cost}", x=x, y=y, log_x=True))
    board.append(wr.RunComparer(diff_only="split"))
    curves = _curves(**OVER_SEEDS)
    errors = wr.CustomChart(
        query={"summaryTable": {"tableKey": f"{split}/confusion_matrix_table"}},
        chart_name="wandb/confusion_matrix/v1",
        chart_fields=CONFUSION,
        chart_strings={"title": f"confusion matrix, {split}"},
    )
    blocks = [
        wr.MarkdownBlock(text="\n".join(board_lines(comparison, markdown=True))),
        *map(wr.P, (INTERVALS, *notes(comparison.leaderboard))),
    ]
    for title, items in comparison.messages:
        blocks += [wr.P(title), *([wr.UnorderedList(items=items)] if items else [])]
    return _pages(
        logged,
        entity=entity,
        project=project,
        name=f"{comparison.data}, {len(comparison.settings)} settings",
        description=f"split {split}",
        sections={"Leaderboard": board, "Learning curves": curves, "Errors": [errors], "Attention": _pictures(logged)},
        blocks=blocks,
        charts=[*board, *curves, errors],
    )


def _paths(comparison: Comparison) -> list[Path]:
    """Returns the runs of the leaderboard, one for each setting, seed and fold."""
    return [each.path for setting in comparison.leaderboard for run in setting.runs for each in (run.folds or [run])]


def study_pages(study: Path, *, entity: str, project: str) -> tuple[Workspace, Report]:
    """Returns the workspace and the report of the complete trials of a study that were logged to W&B."""
    import pyarrow.parquet as pq
    import wandb_workspaces.reports.v2 as wr

    table = pq.read_table(study / TRIALS_FILE)
    names = table.column_names
    searched = names[names.index("state") + 1 : names.index("best_epoch")]
    complete = [row["number"] for row in table.to_pylist() if row["state"] == "complete"]
    logged = [run for number in complete for run in find_runs([study / "trials" / str(number)])]
    values = summarize(Run(logged[0].directory).result) if logged else {}
    # An objective such as `latency_ms.one` is `latency_ms/one` among the final values of a run.
    keys, metrics = (
        [name for name in searched if (name.replace(".", "/") in values) is known] for known in (False, True)
    )
    charts: list[Any] = []
    for metric in (name.replace(".", "/") for name in metrics):
        axes = [*map(wr.Config, keys), wr.SummaryMetric(metric)]
        columns = [wr.ParallelCoordinatesPlotColumn(metric=axis) for axis in axes]
        charts += [
            wr.ParallelCoordinatesPlot(title=f"settings and {metric}", columns=columns),
            wr.ParameterImportancePlot(with_respect_to=metric),
        ]
    return _pages(
        logged,
        entity=entity,
        project=project,
        name=f"study {study.name}",
        description=f"{len(complete)} complete trials",
        sections={"Sweep": charts, "Learning curves": _curves()},
        charts=charts,
    )


def _curves(**over_seeds: str) -> list[Any]:
    """Returns learning curves."""
    import wandb_workspaces.reports.v2 as wr

    metrics = ("val/accuracy", "val/log_loss", "train/loss", "train/gradient_norm")
    return [wr.LinePlot(title=metric, x="epoch", y=[metric], **over_seeds) for metric in metrics]


def _pictures(logged: Iterable[LocalRun]) -> list[Any]:
    """Returns the pictures of attention that runs have logged, if there are any."""
    import wandb_workspaces.reports.v2 as wr

    # W&B adds the step and a hash to the name, as in row_12_2000_0a1b.png.
    keys = {f"attention/{file.name.rsplit('_', 2)[0]}" for run in logged for file in run.file.parent.glob(PICTURES)}
    return [wr.MediaBrowser(title="attention", media_keys=sorted(keys), num_columns=2)] if keys else []


def _pages(
    logged: Sequence[LocalRun],
    *,
    entity: str,
    project: str,
    name: str,
    description: str,
    sections: Mapping[str, Sequence[Any]],
    charts: Sequence[Any],
    blocks: Sequence[Any] = (),
) -> tuple[Workspace, Report]:
    """Returns a workspace of panels by section, and a report of blocks and charts, about the same runs."""
    import wandb_workspaces.reports.v2 as wr
    import wandb_workspaces.workspaces as ws
    from wandb_workspaces import expr

    filters = expr.And(expr.Metric("ID").isin([run.run_id for run in logged]))
    runs = wr.Runset(entity=entity, project=project, name=name, filters=filters)
    grid = wr.PanelGrid(panels=deepcopy(list(charts)), runsets=[runs])
    return (
        ws.Workspace(
            entity=entity,
            project=project,
            name=name,
            sections=[
                ws.Section(name=title, panels=list(panels), is_open=True)
                for title, panels in sections.items()
                if panels
            ],
            runset_settings=ws.RunsetSettings(filters=filters, pinned_columns=COLUMNS),
        ),
        wr.Report(entity=entity, project=project, title=name, description=description, blocks=[*blocks, grid]),
    )


def publish(path: Path, comparisons: Sequence[Comparison], studies: Sequence[Path]) -> Iterator[str]:
    """Saves a workspace and a report of each comparison and study on W&B, and their addresses in a file.

    What the file knows is replaced on W&B. Runs that were logged offline are uploaded afterwards. Yields a line for
    each step.

    Raises:
        RunError: If no run was logged to W&B, there is no key, or the server cannot be reached or refuses something.
    """
    known = _read(path)
    uploads: list[LocalRun] = []
    sources: list[Comparison | Path] = [*comparisons, *studies]
    for source in sources:
        if isinstance(source, Comparison):
            about = f"{source.data}, split {source.split}, {len(source.rows.labels_N)} rows"
            paths, make = _paths(source), partial(comparison_pages, source)
        else:
            about, paths = f"study {source.name}", [file.parent for file in source.glob(f"trials/**/{RESULT_FILE}")]
            make = partial(study_pages, source)
        logged = find_runs(paths)
        if without := sorted({*map(str, paths)} - {str(run.directory) for run in logged}):
            yield f"{about}: not shown, as they were trained without W&B: {', '.join(without)}"
        if not logged:
            raise RunError(Fault("to", "missing", f"{about}: no run was logged to W&B, as logger=wandb does."))
        settings = [wandb_settings(Run(run.directory).settings) for run in logged]
        places = [(own.get("entity"), own.get("project")) for own in settings]
        if elsewhere := [str(run.directory) for run, place in zip(logged, places, strict=True) if place != places[0]]:
            yield f"{about}: not shown, as they are in another project of W&B: {', '.join(elsewhere)}"
        addresses = known.setdefault(about, {})
        try:
            _save(make, logged[0], addresses)
        finally:
            if addresses:  # the next call replaces what was saved
                with writing(path):
                    write_atomically(path, json.dumps(known, indent=2, ensure_ascii=False) + "\n")
        yield from (f"{name}: {address}" for name, address in addresses.items())
        uploads += logged
    yield upload(uploads)


def _save(make: Callable[..., tuple[Workspace, Report]], run: LocalRun, addresses: dict[str, str]) -> None:
    """Saves a workspace and a report in the project of a run, and notes the address of each."""
    import wandb

    place = wandb_settings(Run(run.directory).settings)
    with server(run.host):
        entity = str(place["entity"] or wandb.Api().default_entity)
    workspace, report = make(entity=entity, project=place["project"])
    with server(run.host):  # the report first, since it makes a project that does not exist
        report = _replacing(report, addresses.get("report"), "title", "description", "blocks").save()
        addresses["report"] = str(report.url)
        workspace = _replacing(workspace, addresses.get("workspace"), "name", "sections", "runset_settings").save()
        addresses["workspace"] = str(workspace.url)


def _replacing(page: Any, address: str | None, *fields: str) -> Any:
    """Returns the page at an address with the contents of another, and the other where there is none."""
    kept = None
    if address is not None:
        with suppress(ValueError, TypeError, KeyError, AttributeError):  # the answer has null for a deleted object
            kept = type(page).from_url(address)
    if kept is None:
        return page
    for field in fields:
        setattr(kept, field, getattr(page, field))
    return kept


def _read(path: Path) -> dict[str, dict[str, str]]:
    """Returns the addresses in a file, by what they are about; none if it cannot be read."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        content = json.loads(path.read_text(encoding="utf-8"))
        return {about: dict(addresses) for about, addresses in content.items()}
    return {}
