"""Settings: runs that differ in their seed only, their names, and the values in which they differ from each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from sentattn.compare.runs import EvaluatedRun, Rows
from sentattn.compare.statistics import Estimate, correct_of, estimates
from sentattn.config.groups import get_path
from sentattn.config.schema import ADDED_LATER, SEEDS, counts
from sentattn.config.targets import TARGET, label
from sentattn.config.types import Node, Tree, as_typed
from sentattn.metrics import Floats

REVISION = 7
"""Digits of a revision that are shown."""
VECTORS = "data.vectors"
"""Part of the hash of a setting by content, and so excluded by `counts`."""


@dataclass(frozen=True)
class Setting:
    """Runs that differ in their seed only, one for each seed.

    Attributes:
        name: The variant, and the values that distinguish it from the other settings.
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
        labels_N, group_N = self.rows.labels_N, self.rows.group_N
        return estimates(self.probabilities, labels_N, group_N, ordered=self.ordered, deterministic=self.deterministic)

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
    labels = names([seeds[0].settings for seeds in latest])
    return [
        Setting(name, seeds, bool(seeds[0].result.get("deterministic", False)), ordered, _notes(seeds, again))
        for name, seeds, again in zip(labels, latest, trained.values(), strict=True)
    ]


def _notes(runs: Sequence[EvaluatedRun], trained: Mapping[int, Sequence[EvaluatedRun]]) -> list[str]:
    """Returns remarks about the runs that count, from all runs of each seed."""
    again = [str(seed) for seed, of_seed in sorted(trained.items()) if len(of_seed) > 1]
    notes = [f"the latest run counts of seeds that were trained again ({', '.join(again)})"] if again else []
    revisions = {str(run.result.get("git"))[:REVISION] for run in runs}
    if len(revisions) > 1:
        notes.append(f"runs of several revisions of the code ({', '.join(sorted(revisions))})")
    return notes


def names(settings: Sequence[Node]) -> list[str]:
    """Returns the label of each setting, with the values in which settings of a label differ; references with all."""
    labels = list(map(label, settings))
    flat = list(map(rest, settings))
    result = []
    for name, values in zip(labels, flat, strict=True):
        others = [other for other_name, other in zip(labels, flat, strict=True) if other_name == name]
        is_reference = not any(key.startswith("model.attention.") for key in values)
        words = [
            _as_typed(key, value)
            for key, value in values.items()
            if any(other.get(key, ADDED_LATER.get(key, (value,))[0]) != value for other in others)
            or (is_reference and key.startswith("model.") and key != "model.name")
        ]
        result.append(f"{name}; {', '.join(words)}" if words else name)
    return result


def _as_typed(key: str, value: object) -> str:
    """Returns a setting as it would be typed, without `model.`, numbers rounded; a class by its last name."""
    text = f"{value:.4g}" if isinstance(value, float) else as_typed(value)
    is_class = key.endswith(f".{TARGET}")
    key, text = (key.removesuffix(f".{TARGET}"), text.rpartition(".")[2]) if is_class else (key, text)
    return f"{key.removeprefix('model.')}={text}"


def _flat(settings: Node, path: str = "") -> Iterator[tuple[str, object]]:
    """Yields the settings that can change a result, by dotted key; word vectors by the name of their file."""
    for key, value in settings.items():
        inner = f"{path}.{key}" if path else key
        if inner == VECTORS:
            yield inner, value and Path(value).name
        elif not counts(inner, value):
            continue
        elif isinstance(value, Mapping):
            yield from _flat(value, inner)
        else:
            yield inner, value


def rest(settings: Node, without: Sequence[str] = ()) -> Tree:
    """Returns the settings that can change a result, by dotted key, without those whose keys have some prefixes."""
    return {key: value for key, value in _flat(settings) if not key.startswith(tuple(without))}
