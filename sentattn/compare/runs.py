"""Finished runs with their predictions and texts; settings: runs that differ in their seed only, and their names."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from pydantic import BaseModel, ValidationError

from sentattn.compare.metric import ACCURACY, METRICS, OF_PROBABILITIES, Metric
from sentattn.compare.statistics import UNKNOWN_TERM, Estimate
from sentattn.config.checks import STATE_DATA
from sentattn.config.groups import Choices, get_path
from sentattn.config.hashing import counted, default, hashed, reads_states
from sentattn.config.parameters import leaves
from sentattn.config.schema import CHOICES_KEY, FOLDS, INIT_FROM, SEEDS
from sentattn.config.targets import TARGET_KEY, check_targets, label, needed_trust
from sentattn.config.types import Node, Tree, as_typed, parse
from sentattn.console import Progress, plural
from sentattn.errors import MALFORMED, Fault, RunError, UserError, suggestion
from sentattn.metrics import (
    ORDERED_ONLY,
    Floats,
    Ints,
    calibrated_error,
    calibration_error,
    classifier_metrics,
)
from sentattn.run import (
    CONFIG_FILE,
    CONFIRMED_FILE,
    EVALUATED_SPLITS,
    LABELS_FILE,
    METRICS_FILE,
    MODEL_FOLDER,
    RESULT_FILE,
    TRIALS_FILE,
    Run,
)

if TYPE_CHECKING:
    from sentattn.data.corpus import Split
    from sentattn.data.datamodule import TextData
    from sentattn.prediction.model import Classifier

CALIBRATED = "calibration_error_calibrated"
"""The mean calibration error of a perfectly calibrated model with the same confidences."""
ROUNDING = 1e-5
"""Tolerance of sums of probabilities in single precision, and of stored metrics against recomputed ones."""
VECTORS = "data.vectors"  # in the hash of a setting by content, and so not among what `counted` returns


@dataclass(frozen=True)
class Rows:
    """The rows that runs were evaluated on: the hash of text and label, true class, group and number of tokens of each.

    `group_N` has the number of each row's group, such as its film; it is None where rows have none. Rows of a table of
    predictions have the names that they have there, and no lengths, (0,).
    """

    row_ids: tuple[str, ...]
    labels_N: Ints
    group_N: Ints | None
    lengths_N: Ints

    @cached_property
    def digest(self) -> str:
        """A name of the rows: equal for runs that were evaluated on the same ones."""
        return hashlib.sha256("\n".join(self.row_ids).encode() + self.labels_N.tobytes()).hexdigest()[:16]


OF_PROBES = ("model.name", "model.encoder", "model.layer", "model.dtype")
"""Settings of references that a name has only where they differ."""
NOT_READ = Rows((), np.empty(0, np.int64), None, np.empty(0, np.int64)), np.empty((0, 0))
"""Rows and probabilities of a run whose predictions are not read."""


class _Result(BaseModel):
    """What comparisons read of `result.json`, with its types."""

    setting: str
    seed: int
    data: str
    metrics: dict[str, float | None]
    parameters: dict[str, int | None]
    data_fingerprint: str | None = None
    seconds: dict[str, float | None] = {}
    latency_ms: dict[str, float | None] = {}
    tokens_per_second: float | None = None


@dataclass(frozen=True)
class EvaluatedRun:
    """A finished run with its resolved settings, its `result.json`, and its predictions of one split.

    `setting` is the hash of the settings without the seed, `ordered` says whether classes are steps of a scale, as far
    as the run's model does, and `trials` is the number of trials of the study that found the setting, if any. A run of
    a table has the place of the table as its path, the name of its setting as `model.name` among its settings, and
    may have a score for each row; without probabilities those of the predicted classes are 1. A run of folds has the
    run of each fold and the fold in which each row was tested.
    """

    run: Run
    settings: Node
    result: Node
    setting: str
    seed: int
    rows: Rows
    probabilities_NC: Floats
    ordered: bool = False
    trials: int | None = None
    labels: Sequence[str] = ()
    score_N: Floats | None = None
    has_probabilities: bool = True
    is_of_table: bool = False
    folds: Sequence[EvaluatedRun] = ()
    fold_N: Ints | None = None

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.run.path

    def values(self, metric: Metric) -> Floats:
        """Returns a value for each row, (N,), whose mean is the metric."""
        if metric.of_rows is not None:
            return metric.of_rows(self.probabilities_NC, self.rows.labels_N)
        assert self.score_N is not None, "there is no metric `score` of runs without one"
        return self.score_N

    @property
    def fingerprint(self) -> str | None:
        """Hash of the training, validation and test rows."""
        return self.result.get("data_fingerprint")

    @property
    def reads_states(self) -> bool:
        """Whether the model reads states from files, which are other ones for each run."""
        return reads_states(self.settings)

    def open_model(self, split: str, rows: Split) -> tuple[Classifier, Split]:
        """Returns the model, and the rows as it reads them: their texts, or the states of its own files."""
        from sentattn.prediction.model import LoadedRun

        classifier = LoadedRun(self.path, trust=self.run.trust).classifier
        if self.reads_states:
            data = self.read_data(split)
            classifier.open(data.tokenizer, data.states)
            rows = data.split(split)
        return classifier, rows

    def read_data(self, split: str) -> TextData:
        """Reads the texts again; a `UserError` if they cannot be read or are not those that the run was trained on."""
        from sentattn import build

        if split not in EVALUATED_SPLITS:
            message = f"The texts of split={split} are not those of the runs, and cannot be read again."
            raise RunError(Fault("split", "unsupported", message))
        if self.folds:
            message = (
                f"{FOLDS}={len(self.folds)}: several models have tested these rows; texts are not read again, and "
            )
            raise RunError(Fault(FOLDS, "unsupported", f"{message}there are no references and no insight."))
        if not self.fingerprint:
            message = f"{self.path} does not say what texts it was trained on (data_fingerprint in {RESULT_FILE})."
            raise RunError(Fault("runs", "damaged", message))
        texts_alone = {**self.settings["data"], "vectors": None}  # vectors may take minutes to train
        settings = {"data": texts_alone, "seed": self.seed}
        data = build.build_data(check_targets(settings, Choices.of(), trust=self.run.trust))
        with Progress() as progress:
            data.prepare(progress)
        states = data.states.fingerprint if self.reads_states and data.states else None
        has_other_states = states is not None and states != self.result["encoder"]
        if data.fingerprint != self.fingerprint or has_other_states:
            rows = "states" if has_other_states else "texts"
            message = f"data={self.result['data']} has other {rows} now than when {self.path} was trained."
            raise RunError(Fault("data.path", "conflict", message))
        return data


def text_runs(settings: Sequence[Setting]) -> list[EvaluatedRun]:
    """Returns a run of each setting whose rows are read as texts; if there is none, of each.

    Others are read as states of texts, or are tables of predictions.
    """
    runs = [setting.runs[0] for setting in settings]
    key = f"data.{TARGET_KEY}"
    return [run for run in runs if not run.is_of_table and get_path(run.settings, key) != STATE_DATA] or runs


@dataclass(frozen=True)
class Setting:
    """Runs that differ in their seed only, one for each seed.

    The name is the variant with the values that distinguish it from the other settings. Of a deterministic setting all
    trainings are equal. `notes` are remarks about its runs, such as that they are of several revisions of the code.
    `metric` is what settings are compared by.
    """

    name: str
    runs: Sequence[EvaluatedRun]
    deterministic: bool
    ordered: bool = False
    notes: Sequence[str] = ()
    metric: Metric = ACCURACY

    @property
    def key(self) -> str:
        """Hash of the settings without the seed."""
        return self.runs[0].setting

    @property
    def settings(self) -> Node:
        """The resolved settings of its first run."""
        return self.runs[0].settings

    @property
    def rows(self) -> Rows:
        """The rows that its runs were evaluated on."""
        return self.runs[0].rows

    @property
    def fingerprints(self) -> frozenset[str]:
        """Fingerprints of the rows that its runs were trained on."""
        return frozenset(str(run.fingerprint) for run in self.runs)

    @property
    def has_probabilities(self) -> bool:
        """Whether its runs have the probability of each class, not only the predicted one."""
        return all(run.has_probabilities for run in self.runs)

    @property
    def basis(self) -> str:
        """What its errors come from, in words, where this is not its seeds."""
        folds = len(self.runs[0].folds)
        return f"approximately, {folds} folds x {plural(len(self.runs), 'seed')}" if folds else ""

    @property
    def has_seeds(self) -> bool:
        """Whether there are enough seeds, or folds of one, to know how much another one would change."""
        return self.deterministic or len(self.runs) >= SEEDS or len(self.runs) * len(self.runs[0].folds) >= SEEDS

    @cached_property
    def folds(self) -> Ints | None:
        """The fold in which each row was tested, for each seed, (S, N); None without folds."""
        folds = [run.fold_N for run in self.runs if run.fold_N is not None]
        return np.stack(folds) if folds else None

    @property
    def parameters(self) -> float:
        """Number of parameters; NaN of a table."""
        total = self.cost("parameters.total")
        return total if np.isnan(total) else int(total)

    @cached_property
    def probabilities(self) -> Floats:
        """Probability of each class, for each seed and row, (S, N, C)."""
        return np.stack([run.probabilities_NC for run in self.runs])

    @cached_property
    def correct(self) -> Floats:
        """1 for each seed and row that is predicted correctly, else 0, (S, N)."""
        return self.values(ACCURACY)

    def values(self, metric: Metric) -> Floats:
        """Returns a value for each seed and row, (S, N), whose mean over rows is the metric."""
        return np.stack([run.values(metric) for run in self.runs])

    @cached_property
    def gains(self) -> Floats:
        """The values of the metric that settings are compared by, (S, N), negated where lower is better."""
        values_SN = self.values(self.metric)
        return -values_SN if self.metric.is_loss else values_SN

    @cached_property
    def metrics(self) -> Mapping[str, Estimate]:
        """Each metric: mean over seeds, with its error.

        Calibration errors have an error of NaN: their bias is of its size. `CALIBRATED` is the mean calibration error
        of a perfectly calibrated model with the same confidences.
        """
        found = {}
        for metric in dict.fromkeys([*METRICS.values(), self.metric]):
            known = self.ordered or metric.name not in ORDERED_ONLY
            known = known or metric == self.metric
            if known and (self.has_probabilities or metric.name not in OF_PROBABILITIES):
                found[metric.name] = metric.average(
                    self.values(metric), self.rows.group_N, fold_SN=self.folds, deterministic=self.deterministic
                )
        if self.has_probabilities:
            confidence_SN = self.probabilities.max(axis=2)
            errors = map(calibration_error, confidence_SN, self.correct)
            for name, values in (("calibration_error", errors), (CALIBRATED, map(calibrated_error, confidence_SN))):
                found[name] = Estimate(float(np.mean(list(values))), [UNKNOWN_TERM])
        return found

    def interval(self, metric: str = "") -> tuple[float, float] | None:
        """Returns the 95% interval of a metric, by default of that which settings are compared by.

        None where there are too few seeds, or its error is not known.
        """
        estimate = self.metrics[metric or self.metric.name]
        return estimate.interval() if self.has_seeds and estimate.error > 0 else None

    @property
    def on_validation(self) -> float:
        """The mean over seeds of the metric on validation rows, or of the accuracy where runs do not keep it.

        Negated where lower is better; NaN where a run has neither.
        """
        value = self.cost(f"metrics.val/{self.metric.name}")
        if np.isnan(value):
            return self.cost("metrics.val/accuracy")
        return -value if self.metric.is_loss else value

    def cost(self, key: str) -> float:
        """Returns the mean over folds and seeds of a number in `result.json`; NaN where a run lacks it.

        Args:
            key: Such as `seconds.train`.
        """
        results = [[fold.result for fold in run.folds] or [run.result] for run in self.runs]
        values = [[get_path(result, key) for result in of_seed] for of_seed in results]
        return float(np.mean([fmean(np.nan if x is None else x for x in of_seed) for of_seed in values]))


def group_by_setting(
    runs: Iterable[EvaluatedRun], *, ordered: bool = False, metric: Metric = ACCURACY
) -> list[Setting]:
    """Returns the settings of runs on the same rows; of several runs with a seed the latest counts."""
    trained: dict[str, dict[int, list[EvaluatedRun]]] = defaultdict(lambda: defaultdict(list))
    # The names of directories begin with the time; settings of a table keep their order.
    for run in sorted(runs, key=lambda run: (run.is_of_table, "" if run.is_of_table else run.path.name)):
        trained[run.setting][run.seed].append(run)
    latest = [[seeds[seed][-1] for seed in sorted(seeds)] for seeds in trained.values()]
    labels = names([seeds[0].settings for seeds in latest])
    for number, (name, seeds) in enumerate(zip(labels, latest, strict=True)):
        if seeds[0].is_of_table and name in labels[:number]:
            labels[number] = f"{name} ({seeds[0].path.name})"
    return [
        Setting(name, seeds, bool(seeds[0].result.get("deterministic", False)), ordered, _notes(seeds, again), metric)
        for name, seeds, again in zip(labels, latest, trained.values(), strict=True)
    ]


def _notes(runs: Sequence[EvaluatedRun], trained: Mapping[int, Sequence[EvaluatedRun]]) -> list[str]:
    """Returns remarks about the runs that count, from all runs of each seed."""
    again = [str(seed) for seed, of_seed in sorted(trained.items()) if len(of_seed) > 1]
    notes = [f"the latest run counts of seeds that were trained again ({', '.join(again)})"] if again else []
    revisions = {str(run.result.get("git"))[:7] for run in runs}
    if len(revisions) > 1:
        notes.append(f"runs of several revisions of the code ({', '.join(sorted(revisions))})")
    return notes


def names(settings: Sequence[Node], without: Sequence[str] = ()) -> list[str]:
    """Returns the label of each setting, with the values in which settings of a label differ; references with all."""
    labels = list(map(label, settings))
    flat = [rest(node, without, defaults=True) for node in settings]
    result = []
    for node, name, values in zip(settings, labels, flat, strict=True):
        others = [other for other_name, other in zip(labels, flat, strict=True) if other_name == name]
        is_reference = not any(key.startswith("model.attention.") for key in values)
        words = [
            _as_typed(key, value)
            for key, value in values.items()
            if any(other.get(key, *(default(node, key) or (value,))) != value for other in others)
            or (is_reference and key.startswith("model.") and key not in OF_PROBES)
        ]
        result.append(f"{name}; {', '.join(words)}" if words else name)
    return result


def _as_typed(key: str, value: object) -> str:
    """Returns a setting as it would be typed, without `model.`, numbers rounded; a class by its last name."""
    text = f"{value:.4g}" if isinstance(value, float) else as_typed(value)
    if key == INIT_FROM:
        text = Path(text).name
    if key.endswith(f".{TARGET_KEY}"):
        key, text = key.removesuffix(f".{TARGET_KEY}"), text.rpartition(".")[2]
    return f"{key.removeprefix('model.')}={text}"


def rest(settings: Node, without: Sequence[str] = (), *, defaults: bool = False) -> Tree:
    """Returns the settings that can change a result, by dotted key, without those whose keys have some prefixes.

    Word vectors have the name of their file. Settings at their default are left out, unless `defaults`.
    """
    values = counted(settings) if defaults else hashed(settings)
    if "data" in settings:
        vectors = get_path(settings, VECTORS)
        values[VECTORS] = Path(vectors).name if isinstance(vectors, str) else None
    return {key: value for key, value in values.items() if not key.startswith(tuple(without))}


def run_folders(paths: Iterable[Path], faults: list[Fault]) -> dict[Path, int | None]:
    """Returns the run directories below some folders, without descending into runs, and those that confirm studies.

    Each has the number of trials of the study whose best setting it confirms, if any. Errors are added to `faults`.
    """
    runs: dict[Path, Path] = {}
    trials: dict[Path, int] = {}
    for path in paths:
        is_empty = True
        for folder, subfolders, files in os.walk(path):
            subfolders.sort()
            if CONFIG_FILE in files:
                runs[Path(folder).resolve()] = Path(folder)
            elif (
                RESULT_FILE in files or METRICS_FILE in files
            ):  # the folder of its model may have a config.yaml of its own
                faults.append(Fault("runs", "missing", f"{folder} has no {CONFIG_FILE}; it is left out."))
            else:
                if CONFIRMED_FILE in files:
                    trials |= (confirming := _confirming_runs(Path(folder)))
                    runs |= {run: run for run in confirming}
                    is_empty = is_empty and not confirming
                continue
            subfolders.clear()
            is_empty = False
        if is_empty:
            faults.append(Fault("runs", "not_found", f"{path} is no folder that holds a run; it is left out."))
    return {path: trials.get(resolved) for resolved, path in runs.items()}


def _confirming_runs(study: Path) -> dict[Path, int]:
    """Returns the runs that confirm the best setting of a study, with its number of trials; none if it is damaged."""
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    try:
        paths = [Path(path) for path in json.loads((study / CONFIRMED_FILE).read_bytes())["runs"]]
        trials = int(pq.read_metadata(study / TRIALS_FILE).num_rows)
    except (*MALFORMED, ArrowException):
        return {}
    return {path.resolve(): trials for path in paths if path.is_dir()}


def read_runs(
    paths: Sequence[Path], *, split: str | None, where: Sequence[str] = (), trust: bool = False
) -> tuple[list[EvaluatedRun], list[Fault]]:
    """Reads the finished runs in some folders, with their predictions of a split.

    Args:
        paths: Run directories, or folders that hold some at any depth. Of a study, the runs that confirm its best
            setting are read; trials are left out unless their own directories are given.
        split: `test`, `val` or the name of an evaluation; with None no predictions are read.
        where: Filters such as `data=imdb` or `model.attention.hops=4`; a run has to fit all.
        trust: Whether the runs may name classes outside sentattn, whose code is run where texts are read again.

    Returns the runs, and an error for each run that is left out; a `RunError` if no run is left.
    """
    evaluated: list[EvaluatedRun] = []
    faults: list[Fault] = []
    every: list[Node] = []
    folders = run_folders(paths, faults)
    for path, trials in folders.items():
        try:
            run = Run(path, trust=trust)
            is_wanted = run.result.get("study") is None or path in paths
            if where:
                every.append(run.settings)
            if is_wanted and all(_fits(run.settings, *text.split("=", 1)) for text in where):
                evaluated.append(_read(run, split, trials))
        except UserError as error:
            faults += error.faults
    if not evaluated:
        message = f"No finished run with predictions of split={split} is left." if split else "No finished run is left."
        if any(Run(path).is_trial for path in folders):
            message += " Trials of sweeps count only where their own directories are given."
        keys = dict.fromkeys(key for known in every for key in [*leaves(known), *known, *known.get(CHOICES_KEY, {})])
        for key, _, text in (text.partition("=") for text in where):
            values = {as_typed(_value(settings, key)): None for settings in every}
            if keys and key not in keys:
                faults.append(Fault("where", "unknown", f"where={key}=...: no run has {key}.{suggestion(key, keys)}"))
            elif every and not any(_fits(settings, key, text) for settings in every):
                hint = f"{suggestion(text, values)} There are {', '.join([*values][:10])}."
                faults.append(Fault("where", "unknown", f"where={key}={text}: no run has this value.{hint}"))
        raise RunError(*faults, Fault("runs", "not_found", message))
    return evaluated, faults


def _read(run: Run, split: str | None, trials: int | None) -> EvaluatedRun:
    """Reads one run; a `RunError` if it is unfinished or damaged."""
    result = run.result
    if result.get("status") != "finished":
        raise RunError(Fault("runs", "interrupted", f"{run.path} is {result.get('status')}; it is left out."))
    try:
        checked = _Result.model_validate(result, strict=True)
    except ValidationError as error:
        detail = error.errors()[0]
        reason = f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}"
        message = f"{run.path / RESULT_FILE} is damaged ({reason}); it is left out."
        raise RunError(Fault("runs", "damaged", message)) from error
    setting, seed = checked.setting, checked.seed
    if split is None:
        return EvaluatedRun(run, run.settings, result, setting, seed, *NOT_READ)
    rows, probabilities_NC = _predictions(run, split)
    labels, ordered = _classes(run)
    computed = classifier_metrics(probabilities_NC, rows.labels_N, ordered=ordered)
    for name, value in sorted(computed.items()):
        expected = checked.metrics.get(f"{split}/{name}")
        if expected is not None and not np.isclose(value, expected, rtol=ROUNDING, atol=ROUNDING, equal_nan=True):
            message = (
                f"{run.path}: its predictions have {value:.6g} of {split}/{name}, {RESULT_FILE} says {expected:.6g}. "
            )
            raise RunError(Fault("runs", "damaged", f"{message}It is left out."))
    return EvaluatedRun(run, run.settings, result, setting, seed, rows, probabilities_NC, ordered, trials, labels)


def _predictions(run: Run, split: str) -> tuple[Rows, Floats]:
    """Reads and checks the predictions of a split."""
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    file = run.predictions(split)
    columns = ["row_id", "group", "length", "label", "predicted", "probabilities"]
    try:
        table = pq.read_table(file, columns=columns, filters=[("split", "==", split)], partitioning=None)
    except FileNotFoundError as error:
        path = shlex.quote(str(run.path)) + needed_trust(run.settings)
        again = f"to train it again: python -m sentattn.train from={path}"
        if split not in EVALUATED_SPLITS:
            again = f"to write it: python -m sentattn.evaluate {path} name={split} with the data of the other runs"
        raise RunError(Fault("runs", "missing", f"{run.path} has no {file.name}; it is left out; {again}")) from error
    except (OSError, ValueError, KeyError, ArrowException) as error:
        raise RunError(Fault("runs", "damaged", f"{file} cannot be read ({error}); it is left out.")) from error
    if not table.num_rows:
        advice = ", since it was trained with test=false: type split=val" if split == "test" else ""
        message = f"{run.path} has no predictions of split={split}{advice}; it is left out."
        raise RunError(Fault("runs", "missing", message))
    flat = table["probabilities"].combine_chunks().flatten().to_numpy(zero_copy_only=False).astype(np.float64)
    labels_N, predicted_N = (table[name].to_numpy().astype(np.int64) for name in ("label", "predicted"))
    classes, ragged = divmod(flat.size, len(labels_N))
    probabilities_NC = flat[: classes * len(labels_N)].reshape(len(labels_N), classes)
    is_sum_1 = np.abs(probabilities_NC.sum(axis=1) - 1).max() < ROUNDING * classes
    is_predicted = is_sum_1 and (probabilities_NC.argmax(axis=1) == predicted_N).all()
    if ragged or not is_predicted or labels_N.min() < 0 or labels_N.max() >= classes:
        message = f"{file}: probabilities, predicted and label do not fit each other; it is left out."
        raise RunError(Fault("runs", "damaged", message))
    rows = Rows(
        row_ids=tuple(table["row_id"].to_pylist()),
        labels_N=labels_N,
        group_N=group_numbers(table["group"].to_pylist()),
        lengths_N=table["length"].to_numpy().astype(np.int64),
    )
    return rows, probabilities_NC


def group_numbers(groups: Sequence[str]) -> Ints | None:
    """Returns the number of the group of each row, by its name; None where each row, or all, are in one group.

    A row without a name is a group by itself.
    """
    unique = [name or f" {row}" for row, name in enumerate(groups)]  # no name begins with a space
    names, group_N = np.unique(unique, return_inverse=True)
    return group_N.astype(np.int64) if 1 < len(names) < len(groups) else None


def read_column(run: Run, split: str, name: str) -> list[Any]:
    """Returns a column of the predictions of a split, such as `row`, the place of each row in its data set."""
    import pyarrow.parquet as pq

    filters = [("split", "==", split)]
    column = pq.read_table(run.predictions(split), columns=[name], filters=filters, partitioning=None)[name]
    return list(column.to_pylist())


def _fits(settings: Node, key: str, text: str) -> bool:
    """Whether settings have a value."""
    value = _value(settings, key)
    return text in (value, as_typed(value)) or value == parse(text)


def _value(settings: Node, key: str) -> object:
    """Returns the value of a setting; that of a group such as `data` or `model/attention` is its name."""
    if "/" in key:
        return get_path(settings, f"{CHOICES_KEY}.{key}")
    values = (get_path(settings, key), *default(settings, key))
    value = next((value for value in values if value is not None), None)
    return value.get("name") if isinstance(value, Mapping) else value


def _classes(run: Run) -> tuple[list[str], bool]:
    """Returns the names of the classes, none where the run does not say them, and whether they are steps of a scale."""
    folder, labels, ordered = run.path / MODEL_FOLDER, [], False
    with suppress(*MALFORMED, yaml.YAMLError):
        ordered = bool(yaml.safe_load((folder / CONFIG_FILE).read_text(encoding="utf-8")).get("ordered"))
    with suppress(*MALFORMED):
        labels = [str(name) for name in json.loads((folder / LABELS_FILE).read_text(encoding="utf-8"))]
    return labels, ordered
