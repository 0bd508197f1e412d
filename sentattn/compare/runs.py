"""The runs of a comparison: run directories to settings with their seeds, on the same rows."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from sentattn.compare.folders import run_folders
from sentattn.compare.names import names
from sentattn.config.groups import at
from sentattn.config.schema import SEEDS
from sentattn.config.targets import current
from sentattn.config.types import parse
from sentattn.errors import Fault, RunError, UserError
from sentattn.metrics import Floats, Ints, classifier_metrics, correct
from sentattn.run import CONFIG, MODEL, RESULT, SPLITS, Run

REVISION = 7
"""Digits of a revision that are shown."""
ROUNDING = 1e-5
"""How far probabilities in single precision may be from a sum of 1, and metrics of theirs from those of the run."""


@dataclass(frozen=True)
class Rows:
    """The rows that runs were evaluated on.

    Attributes:
        row_ids: Hash of each row's text and label.
        labels_N: Numbers of the true classes.
        group_N: Number of each row's group, such as its film; None where rows have none.
        lengths_N: Number of tokens.
    """

    row_ids: tuple[str, ...]
    labels_N: Ints
    group_N: Ints | None
    lengths_N: Ints

    @cached_property
    def key(self) -> tuple[int, bytes]:
        """What two runs have in common that were evaluated on the same rows."""
        return hash(self.row_ids), self.labels_N.tobytes()


@dataclass(frozen=True)
class Evaluated:
    """A finished run with its predictions of one split."""

    run: Run
    settings: Mapping[str, Any]
    result: Mapping[str, Any]
    setting: str
    seed: int
    rows: Rows
    probabilities_NC: Floats
    trials: int | None = None
    """Number of trials of the study that found its setting; None for a setting of no study."""


@dataclass(frozen=True)
class Setting:
    """Runs that differ in their seed only, and what they are called.

    Attributes:
        name: The variant, and what sets it apart from the other settings.
        runs: A run for each seed.
        deterministic: Whether all trainings of this setting are equal, so that another seed would change nothing.
        notes: What to know of its runs, such as that they are of several revisions of the code.
    """

    name: str
    runs: Sequence[Evaluated]
    deterministic: bool
    notes: Sequence[str] = ()

    @property
    def settings(self) -> Mapping[str, Any]:
        """The resolved settings of its first run."""
        return self.runs[0].settings

    @property
    def has_seeds(self) -> bool:
        """Whether there are enough seeds to know how much another one would change."""
        return self.deterministic or len(self.runs) >= SEEDS

    @cached_property
    def probabilities(self) -> Floats:
        """Probability of each class, for each seed and row, (S, N, C)."""
        return np.stack([one.probabilities_NC for one in self.runs])

    @cached_property
    def correct(self) -> Floats:
        """1 for each seed and row that is predicted correctly, else 0, (S, N)."""
        return np.stack([correct(one.probabilities_NC, one.rows.labels_N) for one in self.runs])

    def mean(self, metric: str) -> float:
        """Returns the mean over seeds of a metric of `result.json`; NaN where a run lacks it."""
        return float(np.mean([one.result["metrics"].get(metric, np.nan) for one in self.runs]))


@dataclass(frozen=True)
class PlannedPairs:
    """The pairs of a plan, of settings of a comparison with the seeds of the plan.

    Attributes:
        title: The file of the plan and its hash.
        lines: The plan, as YAML.
        pairs: Its pairs.
    """

    title: str
    lines: Sequence[str]
    pairs: Sequence[tuple[Setting, Setting]]

    def added(self, comparison: Comparison, *, exploratory: int) -> list[str]:
        """Returns what a comparison has that the plan does not: seeds, settings and pairs.

        Args:
            comparison: All settings, with all their runs.
            exploratory: Number of the pairs that are tested beside those of the plan.
        """
        planned = {one.runs[0].setting: one for pair in self.pairs for one in pair}
        found = []
        for one in comparison.settings:
            if (known := planned.get(one.runs[0].setting)) is None:
                seeds = ", ".join(str(run.seed) for run in one.runs)
                found.append(f"the setting {one.name} (seeds {seeds})")
            elif seeds := ", ".join(str(run.seed) for run in one.runs if run not in known.runs):
                found.append(f"seeds {seeds} of {one.name}")
        if exploratory:
            found.append(f"{exploratory} exploratory pair{'s' * (exploratory != 1)}")
        return [f"Not in the plan, and in none of its tests: {'; '.join(found)}."] if found else []


@dataclass(frozen=True)
class Comparison:
    """Settings that were evaluated on the same rows.

    Attributes:
        data: Name of the data set.
        split: `test`, `val` or the name of an evaluation.
        rows: The rows.
        ordered: Whether classes are steps of a scale.
        settings: The settings.
        plan: The plan whose pairs are tested; None for those that are declared by how settings differ.
    """

    data: str
    split: str
    rows: Rows
    ordered: bool
    settings: Sequence[Setting]
    plan: PlannedPairs | None = None


def comparisons(
    paths: Iterable[Path], *, split: str, where: Sequence[str] = ()
) -> tuple[list[Comparison], list[Fault]]:
    """Reads runs and groups them by the rows that they were evaluated on, the largest group first.

    Args:
        paths: Run directories, or folders that hold some at any depth. Of a study those are read that confirm its
            best setting; trials are left out unless they are named themselves.
        split: `test`, `val` or the name of an evaluation.
        where: Filters such as `data=imdb` or `model.attention.hops=4`; a run has to fit all.

    Returns:
        The comparisons, and a fault for each run that is left out.

    Raises:
        RunError: If no run is left.
    """
    evaluated: list[Evaluated] = []
    faults: list[Fault] = []
    trials: dict[Path, int] = {}
    named = list(paths)
    found_runs = [run for folder in named for run in run_folders(folder, faults, trials)]
    for path in {path.resolve(): path for path in found_runs}.values():
        try:
            if (one := _read(Run(path), split, where, trials=path in named)) is not None:
                evaluated.append(replace(one, trials=trials.get(path.resolve())))
        except UserError as error:
            faults += error.faults
    if not evaluated:
        message = f"No finished run with predictions of split={split} is left."
        if any(Run(path).is_trial for path in found_runs):
            message += " Trials of sweeps count only where their own directories are given."
        raise RunError(*faults, Fault("runs", "not_found", message))
    by_rows: dict[Any, list[Evaluated]] = defaultdict(list)
    for one in evaluated:
        by_rows[one.result["data"], one.rows.key].append(one)
    found = [_comparison(runs, split) for runs in by_rows.values()]
    return sorted(found, key=lambda comparison: len(comparison.settings), reverse=True), faults


def _read(run: Run, split: str, where: Sequence[str], *, trials: bool) -> Evaluated | None:
    """Reads one run; None where a filter leaves it out, or `trials` does.

    Raises:
        RunError: If it is unfinished or damaged.
    """
    result = run.result
    if (run.is_trial and not trials) or not all(_fits(run.settings, *text.split("=", 1)) for text in where):
        return None
    if result.get("status") != "finished":
        raise RunError(Fault("runs", "interrupted", f"{run.path} is {result.get('status')}; it is left out."))
    try:
        setting, seed = str(result["setting"]), int(result["seed"])
        stored = {str(name): float(value) for name, value in result["metrics"].items() if value is not None}
        _ = result["data"], result["parameters"]["total"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"{run.path / RESULT} lacks a result ({error!r}); it is left out."
        raise RunError(Fault("runs", "damaged", message)) from error
    rows, probabilities_NC = _predictions(run, split)
    _require_same(run, split, stored, classifier_metrics(probabilities_NC, rows.labels_N, ordered=_is_ordered(run)))
    return Evaluated(run, current(run.settings), result, setting, seed, rows, probabilities_NC)


def _require_same(run: Run, split: str, stored: Mapping[str, float], computed: Mapping[str, float]) -> None:
    """Refuses a run whose stored metrics are not those of its predictions."""
    known = {name for name in computed if f"{split}/{name}" in stored}
    if "format" not in run.result:  # earlier versions had bins of equal width, and a kappa of one class was NaN
        known -= {"calibration_error", "quadratic_kappa"}
    for name in sorted(known):
        value, expected = computed[name], stored[f"{split}/{name}"]
        if not np.isclose(value, expected, rtol=ROUNDING, atol=ROUNDING, equal_nan=True):
            message = (
                f"{run.path}: its predictions have {value:.6g} of {split}/{name}, {RESULT} says {expected:.6g}. "
                "It is left out."
            )
            raise RunError(Fault("runs", "damaged", message))


def _predictions(run: Run, split: str) -> tuple[Rows, Floats]:
    """Reads and checks the predictions of a split."""
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    file = run.predictions(split)
    columns = ["row_id", "group", "length", "label", "predicted", "probabilities"]
    try:
        table = pq.read_table(file, columns=columns, filters=[("split", "==", split)])
    except FileNotFoundError as error:
        path = shlex.quote(str(run.path))
        again = f"to train it again: python -m sentattn.train from={path}"
        if split not in SPLITS:
            again = f"to write it: python -m sentattn.evaluate {path} name={split} data=NAME"
        raise RunError(Fault("runs", "missing", f"{run.path} has no {file.name}; it is left out; {again}")) from error
    except (OSError, ValueError, KeyError, ArrowException) as error:
        raise RunError(Fault("runs", "damaged", f"{file} cannot be read ({error}); it is left out.")) from error
    if not table.num_rows:
        advice = ", since it was trained with test=false: type split=val" if split == "test" else ""
        message = f"{run.path} has no predictions of split={split}{advice}; it is left out."
        raise RunError(Fault("runs", "missing", message))
    flat = table["probabilities"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    labels_N = table["label"].to_numpy().astype(np.int64)
    probabilities_NC = flat.astype(np.float64).reshape(len(labels_N), -1) if flat.size % len(labels_N) == 0 else None
    if probabilities_NC is None or not _consistent(probabilities_NC, labels_N, table["predicted"].to_numpy()):
        message = f"{file}: probabilities, predicted and label do not fit each other; it is left out."
        raise RunError(Fault("runs", "damaged", message))
    # A row without a group is one by itself; no name begins with a space.
    groups = [name or f" {row}" for row, name in enumerate(table["group"].to_pylist())]
    names, group_N = np.unique(groups, return_inverse=True)
    rows = Rows(
        row_ids=tuple(table["row_id"].to_pylist()),
        labels_N=labels_N,
        group_N=group_N.astype(np.int64) if 1 < len(names) < len(groups) else None,
        lengths_N=table["length"].to_numpy().astype(np.int64),
    )
    return rows, probabilities_NC


def _consistent(probabilities_NC: Floats, labels_N: Ints, predicted_N: Ints) -> bool:
    classes = probabilities_NC.shape[1]
    is_sum_1 = np.abs(probabilities_NC.sum(axis=1) - 1).max() < ROUNDING * classes
    is_predicted = bool((probabilities_NC.argmax(axis=1) == predicted_N).all())
    return bool(is_sum_1 and is_predicted and labels_N.min() >= 0 and labels_N.max() < classes)


def _fits(settings: Mapping[str, Any], key: str, text: str) -> bool:
    """Whether settings have a value; a group such as `data` is compared by its name."""
    parent, _, last = key.rpartition(".")
    node = at(settings, parent) if parent else settings
    value = node.get(last) if isinstance(node, Mapping) else None
    return str(value.get("name")) == text if isinstance(value, Mapping) else value == parse(text)


def _comparison(runs: Sequence[Evaluated], split: str) -> Comparison:
    by_setting: dict[str, dict[int, list[Evaluated]]] = defaultdict(lambda: defaultdict(list))
    for one in sorted(runs, key=lambda one: one.run.path.name):
        by_setting[one.setting][one.seed].append(one)
    groups = [[seeds[seed][-1] for seed in sorted(seeds)] for seeds in by_setting.values()]  # the latest run counts
    found_names = names([seeds[0].settings for seeds in groups])
    settings = [
        Setting(name, seeds, bool(seeds[0].result.get("deterministic", False)), _notes(seeds, trained))
        for name, seeds, trained in zip(found_names, groups, by_setting.values(), strict=True)
    ]
    first = runs[0]
    return Comparison(first.result["data"], split, first.rows, _is_ordered(first.run), settings)


def _notes(runs: Sequence[Evaluated], trained: Mapping[int, Sequence[Evaluated]]) -> list[str]:
    """Returns what to know of the runs that count, given all that were trained with each seed."""
    again = [str(seed) for seed, of_seed in sorted(trained.items()) if len(of_seed) > 1]
    notes = [f"the latest run counts of seeds that were trained again ({', '.join(again)})"] if again else []
    revisions = {str(one.result.get("git"))[:REVISION] for one in runs}
    if len(revisions) > 1:
        notes.append(f"runs of several revisions of the code ({', '.join(sorted(revisions))})")
    return notes


def _is_ordered(run: Run) -> bool:
    try:
        return bool(yaml.safe_load((run.path / MODEL / CONFIG).read_text(encoding="utf-8")).get("ordered"))
    except (OSError, ValueError, AttributeError, yaml.YAMLError):
        return False
