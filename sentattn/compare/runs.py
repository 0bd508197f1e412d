"""Finished runs with their predictions, and settings: the runs that differ in their seed only."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from sentattn.compare.folders import run_folders
from sentattn.compare.metrics import correct_of, estimates
from sentattn.compare.names import names
from sentattn.compare.statistics import Estimate
from sentattn.config.groups import get_path
from sentattn.config.schema import SEEDS
from sentattn.config.targets import current
from sentattn.config.types import parse
from sentattn.errors import Fault, RunError, UserError
from sentattn.metrics import Floats, Ints, classifier_metrics
from sentattn.run import CONFIG, MODEL, RESULT, SPLITS, Run

REVISION = 7
"""Digits of a revision that are shown."""
ROUNDING = 1e-5
"""Tolerance of sums of probabilities in single precision, and of stored metrics against recomputed ones."""


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
        """Equal for runs that were evaluated on the same rows."""
        return hash(self.row_ids), self.labels_N.tobytes()


@dataclass(frozen=True)
class EvaluatedRun:
    """A finished run with its predictions of one split.

    Attributes:
        run: The run directory.
        settings: The resolved settings.
        result: The content of `result.json`.
        setting: Hash of the settings without the seed.
        seed: The seed.
        rows: The rows of the split.
        probabilities_NC: Probability of each class.
        ordered: Whether classes are steps of a scale, as far as the run's model says.
        trials: Number of trials of the study that found the setting; None for a setting of no study.
    """

    run: Run
    settings: Mapping[str, Any]
    result: Mapping[str, Any]
    setting: str
    seed: int
    rows: Rows
    probabilities_NC: Floats
    ordered: bool = False
    trials: int | None = None

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.run.path


@dataclass(frozen=True)
class Setting:
    """Runs that differ in their seed only.

    Attributes:
        name: The variant, and the values that distinguish it from the other settings.
        runs: A run for each seed.
        deterministic: Whether all trainings of this setting are equal, so that another seed would change nothing.
        ordered: Whether classes are steps of a scale.
        notes: Remarks about its runs, such as that they are of several revisions of the code.
    """

    name: str
    runs: Sequence[EvaluatedRun]
    deterministic: bool
    ordered: bool = False
    notes: Sequence[str] = ()

    @property
    def key(self) -> str:
        """Hash of the settings without the seed."""
        return self.runs[0].setting

    @property
    def settings(self) -> Mapping[str, Any]:
        """The resolved settings of its first run."""
        return self.runs[0].settings

    @property
    def rows(self) -> Rows:
        """The rows that its runs were evaluated on."""
        return self.runs[0].rows

    @property
    def has_seeds(self) -> bool:
        """Whether there are enough seeds to know how much another one would change."""
        return self.deterministic or len(self.runs) >= SEEDS

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return int(self.runs[0].result["parameters"]["total"])

    @cached_property
    def probabilities(self) -> Floats:
        """Probability of each class, for each seed and row, (S, N, C)."""
        return np.stack([run.probabilities_NC for run in self.runs])

    @cached_property
    def correct(self) -> Floats:
        """1 for each seed and row that is predicted correctly, else 0, (S, N)."""
        return correct_of(self.probabilities, self.rows.labels_N)

    @cached_property
    def metrics(self) -> Mapping[str, Estimate]:
        """Each metric of the predictions: mean over seeds, with its standard error."""
        return estimates(
            self.probabilities,
            self.rows.labels_N,
            self.rows.group_N,
            ordered=self.ordered,
            deterministic=self.deterministic,
        )

    def interval(self, metric: str = "accuracy") -> tuple[float, float] | None:
        """Returns the 95% interval of a metric; None where there are too few seeds, or its error is not known."""
        estimate = self.metrics[metric]
        return estimate.interval() if self.has_seeds and estimate.error > 0 else None

    def stored(self, metric: str) -> float:
        """Returns the mean over seeds of a metric of `result.json`; NaN where a run lacks it."""
        return float(np.mean([run.result["metrics"].get(metric, np.nan) for run in self.runs]))

    def cost(self, key: str) -> float:
        """Returns the mean over seeds of a cost in `result.json`, such as `seconds.train`; NaN where a run lacks it."""
        return float(np.mean([get_path(run.result, key) or np.nan for run in self.runs]))


def group_by_setting(runs: Iterable[EvaluatedRun], *, ordered: bool) -> list[Setting]:
    """Returns the settings of runs on the same rows; of several runs with a seed the latest counts."""
    trained: dict[str, dict[int, list[EvaluatedRun]]] = defaultdict(lambda: defaultdict(list))
    for run in sorted(runs, key=lambda run: run.path.name):  # the names of directories begin with the time
        trained[run.setting][run.seed].append(run)
    latest = [[seeds[seed][-1] for seed in sorted(seeds)] for seeds in trained.values()]
    return [
        Setting(name, seeds, bool(seeds[0].result.get("deterministic", False)), ordered, _notes(seeds, again))
        for name, seeds, again in zip(
            names([seeds[0].settings for seeds in latest]), latest, trained.values(), strict=True
        )
    ]


def _notes(runs: Sequence[EvaluatedRun], trained: Mapping[int, Sequence[EvaluatedRun]]) -> list[str]:
    """Returns remarks about the runs that count, from all runs of each seed."""
    again = [str(seed) for seed, of_seed in sorted(trained.items()) if len(of_seed) > 1]
    notes = [f"the latest run counts of seeds that were trained again ({', '.join(again)})"] if again else []
    revisions = {str(run.result.get("git"))[:REVISION] for run in runs}
    if len(revisions) > 1:
        notes.append(f"runs of several revisions of the code ({', '.join(sorted(revisions))})")
    return notes


def read_runs(
    paths: Sequence[Path], *, split: str, where: Sequence[str] = ()
) -> tuple[list[EvaluatedRun], list[Fault]]:
    """Reads the finished runs in some folders, with their predictions of a split.

    Args:
        paths: Run directories, or folders that hold some at any depth. Of a study, the runs that confirm its best
            setting are read; trials are left out unless their own directories are given.
        split: `test`, `val` or the name of an evaluation.
        where: Filters such as `data=imdb` or `model.attention.hops=4`; a run has to fit all.

    Returns:
        The runs, and an error for each run that is left out.

    Raises:
        RunError: If no run is left.
    """
    evaluated: list[EvaluatedRun] = []
    faults: list[Fault] = []
    trials: dict[Path, int] = {}
    folders = [run for path in paths for run in run_folders(path, faults, trials)]
    for resolved, path in {path.resolve(): path for path in folders}.items():
        try:
            run = Run(path)
            is_wanted = run.result.get("study") is None or path in paths
            if is_wanted and all(_fits(run.settings, *text.split("=", 1)) for text in where):
                evaluated.append(_read(run, split, trials.get(resolved)))
        except UserError as error:
            faults += error.faults
    if not evaluated:
        message = f"No finished run with predictions of split={split} is left."
        if any(Run(path).is_trial for path in folders):
            message += " Trials of sweeps count only where their own directories are given."
        raise RunError(*faults, Fault("runs", "not_found", message))
    return evaluated, faults


def _read(run: Run, split: str, trials: int | None) -> EvaluatedRun:
    """Reads one run.

    Raises:
        RunError: If it is unfinished or damaged.
    """
    result = run.result
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
    ordered = _is_ordered(run)
    computed = classifier_metrics(probabilities_NC, rows.labels_N, ordered=ordered)
    for name, value in sorted(computed.items()):
        expected = stored.get(f"{split}/{name}", value)
        if not np.isclose(value, expected, rtol=ROUNDING, atol=ROUNDING, equal_nan=True):
            message = f"{run.path}: its predictions have {value:.6g} of {split}/{name}, {RESULT} says {expected:.6g}. "
            raise RunError(Fault("runs", "damaged", f"{message}It is left out."))
    return EvaluatedRun(run, current(run.settings), result, setting, seed, rows, probabilities_NC, ordered, trials)


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
    # A row without a group is a group by itself; no name begins with a space.
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
    node = get_path(settings, parent) if parent else settings
    value = node.get(last) if isinstance(node, Mapping) else None
    return str(value.get("name")) == text if isinstance(value, Mapping) else value == parse(text)


def _is_ordered(run: Run) -> bool:
    try:
        return bool(yaml.safe_load((run.path / MODEL / CONFIG).read_text(encoding="utf-8")).get("ordered"))
    except (OSError, ValueError, AttributeError, yaml.YAMLError):
        return False
