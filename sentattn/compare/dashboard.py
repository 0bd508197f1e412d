"""The dashboard of a comparison on W&B: its content, its publication, and runs that are uploaded for it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path

import numpy as np

from sentattn.compare.comparison import Comparison
from sentattn.compare.leaderboard import board_lines, notes
from sentattn.config.types import Json, Node
from sentattn.errors import Fault, RunError
from sentattn.loggers import LoggedRun, wandb_logger
from sentattn.loggers.wandb import dashboard as boards
from sentattn.loggers.wandb.dashboard import Specification
from sentattn.loggers.wandb.upload import LocalRun, find_runs, offline_reason, upload
from sentattn.prediction.model import LABELS
from sentattn.run import MODEL, PREDICTIONS, RESULT, Run, summarize

INTERVALS = (
    "The intervals of this table count rows (or their groups) and seeds, so they are about another training on other "
    "rows. The bars of the charts are standard errors over seeds alone, as W&B computes them."
)


def specification(comparison: Comparison, ids: Mapping[Path, str], place: Node) -> Specification:
    """Returns the dashboard of a comparison from the names of its runs on W&B, which are at a place."""
    paths = [run.path for setting in comparison.leaderboard for run in setting.runs if run.path in ids]
    split = comparison.split
    bars, curves, errors = boards.leaderboard_panels(split), boards.curve_panels(), [boards.confusion_panel(split)]
    pictures = boards.picture_panels(paths)
    blocks: list[Json] = [
        {"kind": "MarkdownBlock", "text": "\n".join(board_lines(comparison, "markdown"))},
        *({"kind": "P", "text": text} for text in (INTERVALS, *notes(comparison.leaderboard))),
    ]
    for title, items in comparison.messages:
        blocks += [{"kind": "P", "text": title}, *([{"kind": "UnorderedList", "items": items}] if items else [])]
    blocks.append({"kind": "PanelGrid", "panels": [*bars, *curves, *errors]})
    return boards.dashboard(
        place,
        [ids[path] for path in paths],
        name=f"{comparison.data}, {len(comparison.settings)} settings",
        about=f"{comparison.data}, split {split}, {len(comparison.rows.labels_N)} rows",
        description=f"split {split}",
        sections={"Leaderboard": bars, "Learning curves": curves, "Errors": errors, "Attention": pictures},
        blocks=blocks,
    )


def publish(path: Path, comparisons: Sequence[Comparison], studies: Sequence[Path]) -> Iterator[str]:
    """Uploads the runs that W&B does not have, writes `dashboard.json`, and publishes its content.

    Without a key or network the file is written and nothing is published. A dashboard that was published before is
    replaced. Yields a line for each step.

    Raises:
        RunError: With everything that failed, after the rest was done.
    """
    former = boards.published(path)
    faults: list[Fault] = []
    specifications: list[Specification] = []
    sources: list[tuple[list[Run], Mapping[Path, Node], Callable[..., Specification]]] = []
    for comparison in comparisons:
        runs = [run.run for setting in comparison.leaderboard for run in setting.runs]
        sources.append((runs, {}, partial(specification, comparison)))
    for study in studies:
        trials = [Run(file.parent) for file in sorted(study.glob(f"trials/**/{RESULT}"))]
        sources.append((trials, boards.tried_values(study, trials), partial(boards.study_specification, study)))
    for runs, values, specify in sources:
        place = boards.place_of(run.settings for run in runs)
        reason = offline_reason(place["host"])
        ids = {run.path: run.path.name for run in runs} if reason else {}
        for run in () if reason else runs:
            try:
                local = log_run(run, place, values.get(run.path))
                outcome = upload(local)
                ids[run.path] = local.run_id
                if outcome:
                    yield f"{run.path}: {outcome}"
            except RunError as error:
                faults += [
                    Fault(str(run.path), fault.kind, f"{run.path} was not uploaded: {fault}") for fault in error.faults
                ]
        content = specify(ids, place)
        about = content["about"]
        content["published"] = former.get(about, {})
        specifications.append(content)
        try:
            if not reason:
                boards.publish(content, former)
        except RunError as error:
            faults += error.faults
        finally:  # the next call replaces what was published
            boards.write(path, specifications)
        if reason:
            yield f"{about}: in {path}, not published: {reason}. The same command publishes it later."
        else:
            yield from (f"{name}: {address}" for name, address in content["published"].items())
    if faults:
        raise RunError(*dict.fromkeys(faults))


def log_run(run: Run, place: Node, values: Node | None = None) -> LocalRun:
    """Returns W&B's folder of a finished run, and writes it if it is missing: metrics, summary and confusion matrices.

    `place` is the `project`, `entity` and `host` of a run that was trained without W&B; `values` are those that a trial
    of a sweep tried, by their keys. A `RunError` if the run is damaged or W&B's files cannot be written.
    """
    if logged := find_runs([run.path]):
        return logged[0]._replace(host=logged[0].host or place["host"])
    result, matrices = run.result, _confusions(run)
    settings = {"group": None, "tags": [], **run.settings}
    # Resumed, so that the guard logs the epochs of the run directory.
    logged_run = LoggedRun(run.path, settings, str(result["setting"]), resumed=True, study=result.get("study"))
    guard = wandb_logger(**place, mode="offline", run=logged_run)
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(io.StringIO()):
        guard.start()
        guard.attempt(lambda logger: logger.experiment.config.update(dict(values or {}), allow_val_change=True), None)
        guard.log_media(lambda: matrices, epoch=int(result.get("best_epoch") or 1))
        guard.finish(summarize(result))
    if not (logged := find_runs([run.path])):
        reason = output.getvalue().strip() or "W&B wrote no file"
        raise RunError(Fault(str(run.path), "failed", f"{run.path} cannot be logged for W&B: {reason}"))
    return logged[0]._replace(host=place["host"])


def _confusions(run: Run) -> dict[str, object]:
    """Returns the confusion matrix of each split of which the run has predictions; a `RunError` without predictions."""
    import pyarrow.parquet as pq

    from sentattn.loggers.wandb.run import confusion_matrix  # imports Lightning

    try:
        table = pq.read_table(run.path / PREDICTIONS, columns=["split", "label", "predicted"])
    except (OSError, ValueError, KeyError) as error:
        message = f"{run.path / PREDICTIONS} cannot be read: {error}."
        raise RunError(Fault(str(run.path), "damaged", message)) from error
    split_N = np.array(table["split"].to_pylist())
    labels_N, predicted_N = table["label"].to_numpy(), table["predicted"].to_numpy()
    file = run.path / MODEL / LABELS  # a reference has no model
    numbers = range(int(max(labels_N.max(), predicted_N.max())) + 1)
    names = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else [*map(str, numbers)]
    return {
        f"{split}/confusion_matrix": confusion_matrix(labels_N[split_N == split], predicted_N[split_N == split], names)
        for split in np.unique(split_N).tolist()
    }
