"""What a comparison says: the leaderboard, the sentences of its tests, and both for runs that were just trained."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from sentattn.compare.leaderboard import (
    IN_TERMINAL,
    Entry,
    Format,
    leaderboard,
    lines,
    metric_lines,
    notes,
    paper_lines,
    terminal_lines,
)
from sentattn.compare.names import names
from sentattn.compare.pairs import messages, pairs
from sentattn.compare.runs import Comparison, Evaluated, Rows, Setting, comparisons
from sentattn.compare.statistics import UNKNOWN, Estimate
from sentattn.config.schema import BETTER
from sentattn.console import WIDTH
from sentattn.errors import UserError
from sentattn.metrics import majority_share
from sentattn.run import SPLITS, Run

Family: TypeAlias = Literal["declared", "all"]
NEWEST = 20
"""Runs that the leaderboard after a training is about."""
NOT_READ = Rows((), np.empty(0, np.int64), None, np.empty(0, np.int64)), np.empty((0, 0))
"""Rows and probabilities of a run whose predictions are not read."""


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
    board = lines(entries, style, majority=majority_share(comparison.rows.labels_N))
    if style == "table":
        rows, groups = len(comparison.rows.labels_N), comparison.rows.group_N
        counts = f"{rows:,} rows" + ("" if groups is None else f" in {groups.max() + 1:,} groups")
        title = f"{comparison.data}, split {comparison.split}: {counts}. Means over seeds with 95% intervals."
        if len({run.result.get("data_fingerprint") for one in comparison.settings for run in one.runs} - {None}) > 1:
            title += " Not all settings were trained on the same rows."
        board = [*textwrap.wrap(title, WIDTH), "", *board]
        board += [line for note in notes(entries) for line in textwrap.wrap(note, WIDTH, subsequent_indent="  ")]
    return board, _sentences(comparison, margin, explore=family == "all")


def verdict_lines(comparison: Comparison, *, margin: float, family: Family) -> list[str]:
    """Returns the tests of a comparison as CSV: differences and ends of intervals as they are, p-values adjusted."""
    header = "first,second,family,first_seeds,second_seeds,difference,verdict,margin"
    for test in ("difference", "equivalence"):
        header += f",{test}_p,{test}_confidence,{test}_low,{test}_high"
    rows: list[list[Any]] = [header.split(",")]
    for pair in pairs(comparison, margin=margin, explore=family == "all"):
        first, second = pair.first, pair.second
        rows.append([first.name, second.name, "declared" if pair.declared else "exploratory"])
        rows[-1] += [len(first.runs), len(second.runs), pair.estimate.value, pair.verdict, margin / 100]
        of_difference, of_equivalence = pair.intervals
        rows[-1] += [pair.p_difference, 1 - pair.levels[0], *of_difference]
        rows[-1] += [pair.p_equivalence, 1 - 2 * pair.levels[1], *of_equivalence]
    return paper_lines([[str(cell) for cell in row] for row in rows], "csv")


def _sentences(comparison: Comparison, margin: float, *, explore: bool) -> list[str]:
    """Returns what the tests say, in lines of at most 80 columns."""
    blocks = messages(comparison, margin=margin, explore=explore)
    lines = [line for title, items in blocks for line in (title, *(f"- {item}" for item in items))]
    wrapped = (textwrap.wrap(line, WIDTH, subsequent_indent="  " * line.startswith("-")) for line in lines)
    return [line for part in wrapped for line in part]


def training_lines(runs: Sequence[Run]) -> list[str]:
    """Returns what is printed after a training: all metrics of several seeds, and the leaderboard they are on.

    The leaderboard ranks the settings of the newest runs on the same data under the same `output_dir`, by the
    objective. It reads the `result.json` of at most `NEWEST` runs and nothing else, so that it takes no longer the more
    runs there are. It is left out where this setting is the only one, as are runs that cannot be read and trials of
    sweeps.

    Args:
        runs: Finished runs of one setting, a seed each.
    """
    shown = []
    if len(runs) > 1:
        found = [one for split in SPLITS for one in _readable([run.path for run in runs], split)]
        shown += metric_lines([leaderboard(one)[0] for one in found], [one.split for one in found]) if found else []
    result = runs[-1].result
    settings = result.get("settings") or runs[-1].settings
    objective = settings["objective"]["metric"]
    metric = objective.removeprefix("val/")
    entries = _newest(runs, Path(settings["output_dir"], result["data"]), metric)
    own = next((one.setting for one in entries if one.setting.runs[0].setting == result["setting"]), None)
    if own and len(entries) > 1:
        title = f"{len(entries)} settings in the newest runs on {result['data']}, by {objective}, without intervals:"
        shown += [title, *terminal_lines(entries, metric, own, majority=result.get("majority", {}).get("val"))]
    return shown


def _newest(runs: Sequence[Run], folder: Path, metric: str) -> list[Entry]:
    """Returns the settings of runs, and of the newest runs in a folder with the same rows, the best by a metric first.

    Their metrics are means over seeds, without an error: no predictions are read.
    """
    paths = [path for model in _subfolders(folder) for path in _subfolders(model)]  # their names begin with the time
    newest = sorted(paths, key=lambda path: path.name)[-NEWEST:]
    by_setting: dict[str, dict[int, Evaluated]] = {}
    for run in (*map(Run, newest), *runs):  # of a seed that was trained twice the later run counts
        with suppress(UserError, KeyError, TypeError, ValueError):
            result = run.result
            rows, status = result.get("data_fingerprint"), (result["status"], result["study"])
            one = Evaluated(run, result.get("settings") or {}, result, result["setting"], result["seed"], *NOT_READ)
            if rows == runs[-1].result.get("data_fingerprint") and status == ("finished", None):
                by_setting.setdefault(one.setting, {})[one.seed] = one
    of_settings = [list(seeds.values()) for seeds in by_setting.values()]
    labels = names(
        [of_seeds[0].settings or {"model": {"name": of_seeds[0].result["model"]}} for of_seeds in of_settings]
    )
    entries = []
    for name, of_seeds in zip(labels, of_settings, strict=True):
        setting = Setting(name, of_seeds, deterministic=False)
        means = {name: setting.mean(f"val/{name}") for name in (metric, *IN_TERMINAL)}
        entries.append(Entry(setting, {name: Estimate.of(mean, [UNKNOWN]) for name, mean in means.items()}))
    known = [entry for entry in entries if math.isfinite(entry.metrics[metric].value)]
    return sorted(known, key=lambda entry: entry.metrics[metric].value, reverse=BETTER[metric] == "max")


def _subfolders(folder: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return []


def _readable(paths: Sequence[Path], split: str) -> list[Comparison]:
    try:
        return comparisons(paths, split=split)[0]
    except UserError:
        return []
