"""What a comparison says: the leaderboard, the sentences of its tests, and both for runs that were just trained."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from sentattn.compare.leaderboard import Entry, Format, leaderboard, lines, metric_lines, notes, terminal_lines
from sentattn.compare.pairs import messages
from sentattn.compare.runs import Comparison, comparisons
from sentattn.console import WIDTH
from sentattn.errors import UserError
from sentattn.run import Run

Family: TypeAlias = Literal["declared", "all"]
SPLITS = ("val", "test")


def comparison_lines(
    comparison: Comparison,
    entries: Sequence[Entry],
    *,
    style: Format = "table",
    margin: float = 0.5,
    family: Family = "declared",
) -> tuple[list[str], list[str]]:
    """Returns the leaderboard and the sentences of a comparison, as lines.

    Args:
        comparison: Settings on the same rows.
        entries: Their leaderboard.
        style: How the leaderboard is written.
        margin: Points of accuracy within which two settings count as equivalent.
        family: `declared` pairs, or `all`, of which the others are marked as exploratory.
    """
    board = lines(entries, style)
    if style == "table":
        rows, groups = len(comparison.rows.labels_N), comparison.rows.group_N
        counts = f"{rows:,} rows" + ("" if groups is None else f" in {groups.max() + 1:,} groups")
        title = f"{comparison.data}, split {comparison.split}: {counts}. Means over seeds with 95% intervals."
        if len({run.result.get("data_fingerprint") for one in comparison.settings for run in one.runs} - {None}) > 1:
            title += " Not all settings were trained on the same rows."
        board = [*textwrap.wrap(title, WIDTH), "", *board]
        board += [line for note in notes(entries) for line in textwrap.wrap(note, WIDTH, subsequent_indent="  ")]
    return board, _sentences(comparison, margin, explore=family == "all")


def _sentences(comparison: Comparison, margin: float, *, explore: bool) -> list[str]:
    """Returns what the tests say, in lines of at most 80 columns."""
    blocks = messages(comparison, margin=margin, explore=explore)
    lines = [line for title, items in blocks for line in (title, *(f"- {item}" for item in items))]
    wrapped = (textwrap.wrap(line, WIDTH, subsequent_indent="  " * line.startswith("-")) for line in lines)
    return [line for part in wrapped for line in part]


def training_lines(runs: Sequence[Run]) -> list[str]:
    """Returns what is printed after a training: all metrics of several seeds, and the leaderboard they are on.

    The leaderboard ranks the settings of finished runs under the same `output_dir` that were evaluated on the same
    validation rows, by the objective. It is left out where this setting is the only one, as are runs that cannot be
    read and trials of sweeps.

    Args:
        runs: Finished runs of one setting, a seed each.
    """
    shown = []
    if len(runs) > 1:
        found = [one for split in SPLITS for one in _readable([run.path for run in runs], split)]
        shown += metric_lines([leaderboard(one)[0] for one in found], [one.split for one in found]) if found else []
    last = runs[-1]
    for comparison in _readable([Path(last.settings["output_dir"])], "val"):
        own = [one for one in comparison.settings if any(last.path.samefile(other.run.path) for other in one.runs)]
        if own and len(comparison.settings) > 1:
            objective = last.settings["objective"]["metric"]
            metric = objective.removeprefix("val/")
            title = f"{len(comparison.settings)} settings on these rows of {comparison.data}, by {objective}:"
            shown += [title, *terminal_lines(leaderboard(comparison, metric), metric, own[0])]
    return shown


def _readable(paths: Sequence[Path], split: str) -> list[Comparison]:
    try:
        return comparisons(paths, split=split)[0]
    except UserError:
        return []
