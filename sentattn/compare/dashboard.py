"""The dashboard of a comparison on W&B: its content, and its publication."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from sentattn.compare.comparison import Comparison
from sentattn.compare.leaderboard import board_lines, notes
from sentattn.config.types import Json, Node
from sentattn.errors import Fault, RunError
from sentattn.loggers.wandb import dashboard as boards
from sentattn.loggers.wandb.dashboard import Specification
from sentattn.run import RESULT, Run

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
    from sentattn.loggers.wandb.run import log_run
    from sentattn.loggers.wandb.upload import offline_reason, upload

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
