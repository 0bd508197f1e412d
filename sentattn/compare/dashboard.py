"""The dashboard of a comparison on W&B: what it shows, and how it gets there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentattn.compare.leaderboard import Entry, lines, notes
from sentattn.compare.pairs import messages
from sentattn.compare.runs import Comparison
from sentattn.compare.summary import Family
from sentattn.errors import Fault, RunError
from sentattn.loggers.panels import (
    Specification,
    confusion_panel,
    curve_panels,
    leaderboard_panels,
    picture_panels,
    place_of,
    section,
    study_specification,
    tried_values,
)
from sentattn.metrics import majority_share
from sentattn.run import RESULT, Run

INTERVALS = (
    "The intervals of this table count rows (or their groups) and seeds, so they are about another training on other "
    "rows. The bars of the charts are standard errors over seeds alone, as W&B computes them."
)


def specification(
    comparison: Comparison,
    entries: Sequence[Entry],
    ids: Mapping[Path, str],
    place: Mapping[str, Any],
    *,
    margin: float,
    family: Family,
) -> Specification:
    """Returns what the dashboard of a comparison shows.

    Args:
        comparison: Settings on the same rows.
        entries: Their leaderboard.
        ids: The name of each run on W&B, by its directory.
        place: `project`, `entity` and `host` of the runs.
        margin: Points of accuracy within which two settings count as equivalent.
        family: `declared` pairs, or `all`.
    """
    runs = [one for entry in entries for one in entry.setting.runs if one.run.path in ids]
    split, name = comparison.split, f"{comparison.data}, {len(entries)} settings"
    boards = leaderboard_panels(split)
    curves, errors = curve_panels(), [confusion_panel(split)]
    parts = {"Leaderboard": boards, "Learning curves": curves, "Errors": errors}
    parts["Attention"] = picture_panels(one.run.path for one in runs)
    blocks: list[dict[str, Any]] = [
        {
            "kind": "MarkdownBlock",
            "text": "\n".join(lines(entries, "markdown", majority=majority_share(comparison.rows.labels_N))),
        },
        {"kind": "P", "text": INTERVALS},
        *({"kind": "P", "text": note} for note in notes(entries)),
    ]
    for title, items in messages(comparison, margin=margin, explore=family == "all"):
        blocks.append({"kind": "P", "text": title})
        if items:
            blocks.append({"kind": "UnorderedList", "items": list(items)})
    blocks.append({"kind": "PanelGrid", "panels": [*boards, *curves, *errors]})
    return {
        **place,
        "about": f"{comparison.data}, split {split}, {len(comparison.rows.labels_N)} rows",
        "runs": [ids[one.run.path] for one in runs],
        "workspace": {"name": name, "sections": [section(title, panels) for title, panels in parts.items() if panels]},
        "report": {"title": name, "description": f"split {split}", "blocks": blocks},
    }


def publish(
    path: Path,
    parts: Sequence[tuple[Comparison, Sequence[Entry]]],
    studies: Sequence[Path],
    *,
    margin: float,
    family: Family,
) -> Iterator[str]:
    """Uploads the runs that W&B does not have, writes `dashboard.json`, and publishes what is in it.

    Where there is no key or no network, the file is all there is. What was published before is replaced.

    Args:
        path: The file.
        parts: Comparisons with their leaderboards.
        studies: Folders of studies.
        margin: Points of accuracy within which two settings count as equivalent.
        family: `declared` pairs, or `all`.

    Yields:
        What was done, a line each.

    Raises:
        RunError: With what could not be done, after all that could be.
    """
    from sentattn.loggers import dashboard

    published = {one.get("about"): one.get("published", {}) for one in dashboard.read(path)}
    faults: list[Fault] = []
    specifications: list[Specification] = []

    def add(one: Specification, reason: str) -> Iterator[str]:
        one["published"] = published.get(one["about"], {})
        specifications.append(one)
        try:
            if not reason:
                dashboard.publish(one, one["published"])
        except RunError as error:
            faults.extend(error.faults)
        finally:  # what was published is replaced the next time
            dashboard.write(path, specifications)
        if reason:
            yield f"{one['about']}: in {path}, not published: {reason}. The same command publishes it later."
        else:
            yield from (f"{name}: {address}" for name, address in one["published"].items())

    for comparison, entries in parts:
        place = place_of(run.settings for run in _runs(entries))
        ids, reason, done = _uploaded(_runs(entries), place, faults)
        yield from done
        yield from add(specification(comparison, entries, ids, place, margin=margin, family=family), reason)
    for study in studies:
        trials = [Run(file.parent) for file in sorted(study.glob(f"trials/**/{RESULT}"))]
        place = place_of(trial.settings for trial in trials)
        ids, reason, done = _uploaded(trials, place, faults, tried_values(study, trials))
        yield from done
        yield from add(study_specification(study, ids, place), reason)
    if faults:
        raise RunError(*dict.fromkeys(faults))


def _runs(entries: Sequence[Entry]) -> list[Run]:
    return [one.run for entry in entries for one in entry.setting.runs]


def _uploaded(
    runs: Sequence[Run],
    place: Mapping[str, Any],
    faults: list[Fault],
    values: Mapping[Path, Mapping[str, Any]] | None = None,
) -> tuple[dict[Path, str], str, list[str]]:
    """Uploads runs, and notes what goes wrong.

    Returns:
        The name of each run on W&B by its directory, why nothing can be uploaded or an empty string, and what was done.
    """
    from sentattn.loggers.replay import logged
    from sentattn.loggers.upload import offline_reason, upload

    if reason := offline_reason(place["host"]):
        return {run.path: run.path.name for run in runs}, reason, []
    ids, done = {}, []
    for run in runs:
        try:
            local = logged(run, place, (values or {}).get(run.path))
            outcome = upload(local)
            ids[run.path] = local.run_id
        except RunError as error:
            faults += [Fault(str(run.path), one.kind, f"{run.path} was not uploaded: {one}") for one in error.faults]
        else:
            done += [f"{run.path}: {outcome}"] if outcome else []
    return ids, "", done
