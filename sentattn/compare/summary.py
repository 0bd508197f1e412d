"""A comparison as lines of text, and the summary that is printed after a training."""

from __future__ import annotations

import math
import os
import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import numpy as np

from sentattn.compare.comparison import Comparison, read_comparisons
from sentattn.compare.leaderboard import (
    IN_TERMINAL,
    Format,
    csv_lines,
    format_metric,
    leaderboard_lines,
    notes,
    terminal_lines,
)
from sentattn.compare.names import names
from sentattn.compare.runs import EvaluatedRun, Rows, Setting
from sentattn.compare.statistics import UNKNOWN, Estimate
from sentattn.config.schema import BETTER
from sentattn.console import WIDTH, table_lines
from sentattn.errors import UserError
from sentattn.run import SPLITS, Run

NEWEST = 20
"""Runs that the leaderboard after a training is about."""
NOT_READ = Rows((), np.empty(0, np.int64), None, np.empty(0, np.int64)), np.empty((0, 0))
"""Rows and probabilities of a run whose predictions are not read."""


class StoredSetting(Setting):
    """A setting whose metrics are those of `result.json`, on validation rows and without errors."""

    @cached_property
    def metrics(self) -> Mapping[str, Estimate]:
        """Each metric that all runs have: mean over seeds."""
        stored = {name.removeprefix("val/") for name in self.runs[0].result["metrics"] if name.startswith("val/")}
        return {name: Estimate.of(self.stored(f"val/{name}"), [UNKNOWN]) for name in {*stored, *IN_TERMINAL}}


def board_lines(comparison: Comparison, style: Format = "table") -> list[str]:
    """Returns the leaderboard as lines; in the terminal, with a heading and remarks about the runs."""
    board = leaderboard_lines(comparison.leaderboard, style, majority=comparison.majority)
    if style != "table":
        return board
    title = f"{comparison.data}, split {comparison.split}: {comparison.counts}. Means over seeds with 95% intervals."
    fingerprints = {run.result.get("data_fingerprint") for setting in comparison.settings for run in setting.runs}
    if len(fingerprints - {None}) > 1:
        title += " Not all settings were trained on the same rows."
    remarks = [textwrap.wrap(note, WIDTH, subsequent_indent="  ") for note in notes(comparison.leaderboard)]
    return [*textwrap.wrap(title, WIDTH), "", *board, *(line for lines in remarks for line in lines)]


def message_lines(comparison: Comparison) -> list[str]:
    """Returns the results of the tests in words, as lines of at most 80 columns."""
    lines = []
    for title, items in comparison.messages:
        lines += textwrap.wrap(title, WIDTH)
        for item in items:
            lines += textwrap.wrap(f"- {item}", WIDTH, subsequent_indent="  ")
    return lines


def verdict_lines(comparison: Comparison) -> list[str]:
    """Returns the tests as CSV: unrounded differences and ends of intervals, and adjusted p-values."""
    header = "first,second,family,first_seeds,second_seeds,difference,verdict,margin"
    for test in ("difference", "equivalence"):
        header += f",{test}_p,{test}_confidence,{test}_low,{test}_high"
    rows: list[list[object]] = [[*header.split(",")]]
    for pair in comparison.tests:
        first, second = pair.first, pair.second
        rows.append([first.name, second.name, "declared" if pair.declared else "exploratory"])
        rows[-1] += [len(first.runs), len(second.runs), pair.estimate.value, pair.verdict, comparison.margin / 100]
        of_difference, of_equivalence = pair.intervals
        rows[-1] += [pair.p_difference, 1 - pair.levels[0], *of_difference]
        rows[-1] += [pair.p_equivalence, 1 - 2 * pair.levels[1], *of_equivalence]
    return csv_lines(rows)


def training_lines(runs: Sequence[Run]) -> list[str]:
    """Returns the summary of a training: all metrics of several seeds, and the leaderboard they are on.

    The leaderboard ranks the settings of the newest runs on the same data under the same `output_dir`, by the
    objective. It reads the `result.json` of at most `NEWEST` runs and nothing else, so that it takes no longer the more
    runs there are. It is left out where this setting is the only one, as are runs that cannot be read and trials of
    sweeps.

    Args:
        runs: Finished runs of one setting, a seed each.
    """
    lines = _seed_lines(runs) if len(runs) > 1 else []
    result = runs[-1].result
    settings = result.get("settings") or runs[-1].settings
    objective = settings["objective"]["metric"]
    metric = objective.removeprefix("val/")
    ranked = _newest(runs, Path(settings["output_dir"], result["data"]), metric)
    trained = next((setting for setting in ranked if setting.key == result["setting"]), None)
    if trained and len(ranked) > 1:
        title = f"{len(ranked)} settings in the newest runs on {result['data']}, by {objective}, without intervals:"
        majority = result.get("majority", {}).get("val")
        lines += [title, *terminal_lines(ranked, metric, trained, majority=majority)]
    return lines


def _seed_lines(runs: Sequence[Run]) -> list[str]:
    """Returns all metrics of a setting on the splits whose predictions can be read."""
    by_split: dict[str, Setting] = {}
    for split in SPLITS:
        with suppress(UserError):
            by_split[split] = read_comparisons([run.path for run in runs], split=split)[0][0].leaderboard[0]
    if not by_split:
        return []
    setting, *_ = by_split.values()
    seeds = ", ".join(str(run.seed) for run in setting.runs)
    rows = [["", *by_split]]
    rows += [[name, *(format_metric(of_split, name) for of_split in by_split.values())] for name in setting.metrics]
    title = f"{len(setting.runs)} seeds ({seeds}): means with 95% intervals."
    return [title, *table_lines(rows, align="<" + ">" * len(by_split))]


def _newest(runs: Sequence[Run], folder: Path, metric: str) -> list[Setting]:
    """Returns the settings of runs, and of the newest runs in a folder with the same rows, the best by a metric first.

    Their metrics are means over seeds, without an error: no predictions are read.
    """
    paths = [path for model in _subfolders(folder) for path in _subfolders(model)]  # their names begin with the time
    newest = sorted(paths, key=lambda path: path.name)[-NEWEST:]
    by_setting: dict[str, dict[int, EvaluatedRun]] = defaultdict(dict)
    for run in (*map(Run, newest), *runs):  # of a seed that was trained twice the later run counts
        with suppress(UserError, KeyError, TypeError, ValueError):
            result = run.result
            rows, status = result.get("data_fingerprint"), (result["status"], result["study"])
            stored = result.get("settings") or {"model": {"name": result["model"]}}
            evaluated = EvaluatedRun(run, stored, result, result["setting"], result["seed"], *NOT_READ)
            if rows == runs[-1].result.get("data_fingerprint") and status == ("finished", None):
                by_setting[evaluated.setting][evaluated.seed] = evaluated
    of_settings = [list(seeds.values()) for seeds in by_setting.values()]
    labels = names([seeds[0].settings for seeds in of_settings])
    settings = [
        StoredSetting(name, seeds, deterministic=False) for name, seeds in zip(labels, of_settings, strict=True)
    ]
    known = [setting for setting in settings if math.isfinite(setting.stored(f"val/{metric}"))]
    return sorted(known, key=lambda setting: setting.stored(f"val/{metric}"), reverse=BETTER[metric] == "max")


def _subfolders(folder: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return []
