"""The plan of a sweep: search space, objectives and the sweep's own settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_type_hints

from sentattn.config.groups import get_path
from sentattn.config.schema import BETTER
from sentattn.config.search_space import Dimension, Value, override
from sentattn.config.types import Count, Kind, Node, Positive, Seed, Whole, as_typed
from sentattn.jobs.slots import SlotOptions

COSTS = ("latency_ms.one", "latency_ms.batch", "parameters.total", "parameters.trainable", "peak_memory_bytes")
METRICS: dict[str, str] = {
    **{f"val/{metric}": mode for metric, mode in BETTER.items()},
    **dict.fromkeys((*COSTS, "seconds.train", "seconds.total"), "min"),
    "tokens_per_second": "max",
}
"""Metrics of validation and costs in `result.json` that can be objectives, and which direction of each is better."""

SLOT = "the devices of a trial are those of its slot; type gpus_per_trial=2"
DECIDED: dict[str, str] = {
    "test": "trials never use the test set; confirm=5 tests the best setting at the end",
    "seeds": "type repeats=3 for several seeds a trial",
    "resume": "the same command resumes a study",
    "check": "every setting is checked before the first trial",
    "group": "the trials of a study are a group",
    "run": "a sweep trains and reads no run",
    **dict.fromkeys(("logger.job_type", "logger.wandb.job_type"), "the runs of a sweep are trials"),
    **dict.fromkeys(("trainer.devices", "trainer.num_nodes", "trainer.strategy"), SLOT),
}
"""Settings of a training that a sweep sets, and what to do instead."""


@dataclass(frozen=True)
class Objective:
    """What a sweep optimizes.

    Attributes:
        metric: A metric of validation such as `val/accuracy`, or a cost of `result.json` such as `latency_ms.one`.
        mode: `max` where a larger value is better, else `min`.
    """

    metric: str
    mode: str


def metric_of(result: Node, metric: str) -> float | None:
    """Returns the value of an objective in a run's `result.json`; None where it is missing or not finite."""
    value = result.get("metrics", {}).get(metric, get_path(result, metric))
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


@dataclass(frozen=True, kw_only=True)
class Options(SlotOptions):
    """The sweep's own settings, by the names that they have in a file and on the command line.

    `python -m sentattn.sweep --help` describes them; `confirm` is the number of seeds that train and test the best
    setting at the end, and `seed` is that of the sampler and of every trial.
    """

    trials: Count | None = None
    hours: Positive | None = None
    repeats: Count = 1
    retries: Whole = 1
    failures: Count = 5
    limit_minutes: Positive | None = None
    keep: Whole = 3
    confirm: Whole = 0
    output_dir: str = "outputs"
    seed: Seed = 0
    warm_start: str | None = None
    engine: Literal["local", "ray"] = "local"


OPTIONS: dict[str, Kind] = {"study": str | None, **get_type_hints(Options, include_extras=True)}
"""The sweep's own keys with their types; `study=null` names a study by model and data."""
NOT_SEARCHED: dict[str, str] = {
    **dict.fromkeys(OPTIONS, "a sweep has one value of it"),
    "seed": "seeds are repeats of a setting, and the best of several is lucky; type repeats=3, or one seed",
    **dict.fromkeys(("trainer", "trainer.accelerator"), SLOT),
    **dict.fromkeys(("logger", "tags", "checkpoint_minutes"), "it has no effect on the result"),
    **dict.fromkeys(
        (
            "data",
            "experiment",
            "from",
            "data.dataset",
            "data.limit",
            "data.val_size",
            "data.split_seed",
            "data.drop_duplicates",
        ),
        "trials on different data cannot be compared; start a study for each",
    ),
}
"""Settings that have one value in a study, and why."""


@dataclass(frozen=True, kw_only=True)
class Plan(Options):
    """A sweep, read and checked.

    Attributes:
        overrides: Arguments that all trials have.
        space: The search space; each dimension comes after those that it depends on.
        enqueue: Points to try first: values by key, of which a point may leave some to the sampler.
        studies: The studies of a file that starts several; the plan itself then has no trials.
    """

    study: str
    overrides: tuple[str, ...]
    space: Mapping[str, Dimension]
    objectives: tuple[Objective, ...]
    sampler: Node
    pruner: Node
    enqueue: tuple[Mapping[str, Value], ...] = ()
    studies: tuple[Plan, ...] = ()

    @property
    def modes(self) -> list[str]:
        """Which direction of each objective is better."""
        return [objective.mode for objective in self.objectives]

    def arguments(self, values: Mapping[str, Value]) -> list[str]:
        """Returns the arguments of `python -m sentattn.train` that train the setting of a trial."""
        validated = [objective for objective in self.objectives if objective.metric.startswith("val/")]
        best = [f"objective.{key}={value}" for first in validated[:1] for key, value in vars(first).items()]
        return [*self.overrides, *(override(key, value) for key, value in values.items()), *best]

    def trial_arguments(self, values: Mapping[str, Value]) -> list[str]:
        """Returns the arguments of `python -m sentattn.train` for a trial, with what belongs to the sweep."""
        settings = [f"output_dir={self.output_dir}", f"group={self.study}", "test=false"]
        if dimension := self.space.get("model.embedding.layer"):  # the first trial caches the states of all layers
            layers = [layer for layer in dimension.values() or () if layer != "mix"]
            settings.append(f"model.embedding.cache_layers={as_typed(layers)}")
        return [*self.arguments(values), *settings, f"seed={self.seed}"]
