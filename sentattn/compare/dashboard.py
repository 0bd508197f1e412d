"""The dashboard of a comparison on W&B: its content, and its publication."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentattn.compare.comparison import Comparison
from sentattn.compare.leaderboard import board_lines, notes
from sentattn.errors import Fault, RunError
from sentattn.loggers.wandb.dashboard import (
    Specification,
    confusion_panel,
    curve_panels,
    dashboard,
    leaderboard_panels,
    picture_panels,
    place_of,
    study_specification,
    tried_values,
)
from sentattn.run import RESULT, Run

INTERVALS = (
    "The intervals of this table count rows (or their groups) and seeds, so they are about another training on other "
    "rows. The bars of the charts are standard errors over seeds alone, as W&B computes them."
)


def specification(comparison: Comparison, ids: Mapping[Path, str], place: Mapping[str, Any]) -> Specification:
    """Returns the dashboard of a comparison.

    Args:
        comparison: Settings on the same rows.
        ids: The name of each run on W&B, by its directory.
        place: `project`, `entity` and `host` of the runs.
    """
    paths = [run.path for setting in comparison.leaderboard for run in setting.runs if run.path in ids]
    split, name = comparison.split, f"{comparison.data}, {len(comparison.settings)} settings"
    boards = leaderboard_panels(split)
    curves, errors = curve_panels(), [confusion_panel(split)]
    sections = {"Leaderboard": boards, "Learning curves": curves, "Errors": errors, "Attention": picture_panels(paths)}
    table = board_lines(comparison, "markdown")
    blocks: list[dict[str, Any]] = [
        {"kind": "MarkdownBlock", "text": "\n".join(table)},
        *({"kind": "P", "text": text} for text in (INTERVALS, *notes(comparison.leaderboard))),
    ]
    for title, items in comparison.messages:
        blocks.append({"kind": "P", "text": title})
        if items:
            blocks.append({"kind": "UnorderedList", "items": list(items)})
    blocks.append({"kind": "PanelGrid", "panels": [*boards, *curves, *errors]})
    return dashboard(
        place,
        [ids[path] for path in paths],
        name=name,
        about=f"{comparison.data}, split {split}, {len(comparison.rows.labels_N)} rows",
        description=f"split {split}",
        sections=sections,
        blocks=blocks,
    )


def publish(path: Path, comparisons: Sequence[Comparison], studies: Sequence[Path]) -> Iterator[str]:
    """Uploads the runs that W&B does not have, writes `dashboard.json`, and publishes its content.

    Without a key or network the file is written and nothing is published. A dashboard that was published before is
    replaced.

    Args:
        path: The file.
        comparisons: The comparisons.
        studies: Folders of studies.

    Yields:
        A line for each step.

    Raises:
        RunError: With everything that failed, after the rest was done.
    """
    from sentattn.loggers.wandb import dashboard as wandb_dashboard

    former = wandb_dashboard.published(path)
    faults: list[Fault] = []
    specifications: list[Specification] = []

    def add(specification: Specification, reason: str) -> Iterator[str]:
        about = specification["about"]
        specification["published"] = former.get(about, {})
        specifications.append(specification)
        try:
            if not reason:
                wandb_dashboard.publish(specification, former)
        except RunError as error:
            faults.extend(error.faults)
        finally:  # the next call replaces what was published
            wandb_dashboard.write(path, specifications)
        if reason:
            yield f"{about}: in {path}, not published: {reason}. The same command publishes it later."
        else:
            yield from (f"{name}: {address}" for name, address in specification["published"].items())

    for comparison in comparisons:
        runs = [run.run for setting in comparison.leaderboard for run in setting.runs]
        place = place_of(run.settings for run in runs)
        ids, reason, done = _upload(runs, place, faults)
        yield from done
        yield from add(specification(comparison, ids, place), reason)
    for study in studies:
        trials = [Run(file.parent) for file in sorted(study.glob(f"trials/**/{RESULT}"))]
        place = place_of(trial.settings for trial in trials)
        ids, reason, done = _upload(trials, place, faults, tried_values(study, trials))
        yield from done
        yield from add(study_specification(study, ids, place), reason)
    if faults:
        raise RunError(*dict.fromkeys(faults))


def _upload(
    runs: Sequence[Run],
    place: Mapping[str, Any],
    faults: list[Fault],
    values: Mapping[Path, Mapping[str, Any]] | None = None,
) -> tuple[dict[Path, str], str, list[str]]:
    """Uploads runs, and adds errors to `faults`.

    Returns:
        The name of each run on W&B by its directory, why nothing can be uploaded or an empty string, and a line for
        each upload.
    """
    from sentattn.loggers.wandb.media import log_run
    from sentattn.loggers.wandb.upload import offline_reason, upload

    if reason := offline_reason(place["host"]):
        return {run.path: run.path.name for run in runs}, reason, []
    ids, lines = {}, []
    for run in runs:
        try:
            local = log_run(run, place, (values or {}).get(run.path))
            outcome = upload(local)
            ids[run.path] = local.run_id
        except RunError as error:
            faults += [
                Fault(str(run.path), fault.kind, f"{run.path} was not uploaded: {fault}") for fault in error.faults
            ]
        else:
            lines += [f"{run.path}: {outcome}"] if outcome else []
    return ids, "", lines
