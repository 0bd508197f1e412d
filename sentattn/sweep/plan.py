"""The plan of a sweep: search space, objectives, Optuna's sampler and pruner by name, and the sweep's own settings."""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_type_hints

import optuna
from optuna import pruners, samplers
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler

from sentattn.config import types
from sentattn.config.groups import get_path
from sentattn.config.schema import BETTER
from sentattn.config.search_space import Dimension, Value, override
from sentattn.config.types import Count, Kind, Node, Positive, Seed, Whole, as_typed
from sentattn.errors import Fault, SettingError, suggestion
from sentattn.jobs.slots import SlotOptions

COSTS = ("latency_ms.one", "latency_ms.batch", "parameters.total", "parameters.trainable", "peak_memory_bytes")
OBJECTIVE_METRICS: dict[str, str] = {
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
    engine: Literal["local", "ray"] = "local"


OPTION_TYPES: dict[str, Kind] = {"study": str | None, **get_type_hints(Options, include_extras=True)}
"""The sweep's own keys with their types; `study=null` names a study by model and data."""
NOT_SEARCHED: dict[str, str] = {
    **dict.fromkeys(OPTION_TYPES, "a sweep has one value of it"),
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
            "data.val_by",
            "data.test_size",
            "data.test_seed",
            "data.split_seed",
            "data.folds",
            "data.fold",
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
        words: The sweep as it is typed, without what may run code; none where it starts several studies.
        space: The search space; each dimension comes after those that it depends on.
        studies: The studies of a file that starts several; the plan itself then has no trials.
    """

    study: str
    overrides: tuple[str, ...]
    space: Mapping[str, Dimension]
    objectives: tuple[Objective, ...]
    sampler: Node
    pruner: Node
    words: tuple[str, ...] = field(default=(), compare=False)
    studies: tuple[Plan, ...] = ()

    def arguments(self, values: Mapping[str, Value]) -> list[str]:
        """Returns the arguments of `python -m sentattn.train` that train the setting of a trial."""
        validated = [objective for objective in self.objectives if objective.metric.startswith("val/")]
        best = [f"objective.{key}={value}" for first in validated[:1] for key, value in vars(first).items()]
        return [*self.overrides, *(override(key, value) for key, value in values.items()), *best]

    def trial_arguments(self, values: Mapping[str, Value]) -> list[str]:
        """Returns the arguments of `python -m sentattn.train` for a trial, with what belongs to the sweep."""
        settings = [f"output_dir={self.output_dir}", f"group={self.study}", "test=false"]
        if (key := "model.embedding.layer") in values:  # the first trial caches the states of all layers
            layers = [layer for layer in self.space[key].values() or () if layer != "mix"]
            settings.append(f"model.embedding.cache_layers={as_typed(layers)}")
        return [*self.arguments(values), *settings, f"seed={self.seed}"]


DEFAULT_SAMPLER, DEFAULT_PRUNER, REPEATS_PRUNER, NO_PRUNER = "tpe", "percentile", "wilcoxon", "none"


def quiet() -> None:
    """Keeps Optuna from printing each trial and its warnings of experimental features: they are our choice."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for category in (ExperimentalWarning, FutureWarning, UserWarning):
        warnings.filterwarnings("ignore", category=category, module=r"optuna\.|sentattn\.sweep")


SAMPLERS: dict[str, Callable[..., BaseSampler]] = {
    DEFAULT_SAMPLER: samplers.TPESampler,
    "gp": samplers.GPSampler,
    "cmaes": samplers.CmaEsSampler,
    "random": samplers.RandomSampler,
    "qmc": samplers.QMCSampler,
    "nsgaii": samplers.NSGAIISampler,
    "nsgaiii": samplers.NSGAIIISampler,
}
PRUNERS: dict[str, Callable[..., BasePruner]] = {
    DEFAULT_PRUNER: pruners.PercentilePruner,
    "median": pruners.MedianPruner,
    "hyperband": pruners.HyperbandPruner,
    "successive_halving": pruners.SuccessiveHalvingPruner,
    "threshold": pruners.ThresholdPruner,
    REPEATS_PRUNER: pruners.WilcoxonPruner,
    NO_PRUNER: pruners.NopPruner,
}
TABLES: dict[str, Mapping[str, Callable[..., object]]] = {"sampler": SAMPLERS, "pruner": PRUNERS}
DEFAULTS: dict[str, dict[str, Any]] = {
    DEFAULT_SAMPLER: {"multivariate": True, "group": True},
    **{name: {"warn_independent_sampling": False} for name in ("gp", "cmaes")},
    # Without scrambling every study would begin with the same points, the first of them a corner.
    "qmc": {"scramble": True, "warn_independent_sampling": False, "warn_asynchronous_seeding": False},
    # Optuna's 50 would be a sweep of random draws.
    **{name: {"population_size": 20} for name in ("nsgaii", "nsgaiii")},
    DEFAULT_PRUNER: {"percentile": 75.0, "n_startup_trials": 3},
}
"""Settings that differ from Optuna's defaults."""


def unknown(key: str, what: str, name: str, legal: Iterable[str]) -> Fault:
    """Returns the fault of a name that is not among the legal ones, with the closest of them."""
    names = ", ".join(legal) or "none"
    return Fault(key, "unknown", f"{key}: {name!r} is no {what}.{suggestion(name, legal)} Legal: {names}.")


def _build(kind: str, component: Node, **others: object) -> object:
    """Returns Optuna's object.

    Raises:
        SettingError: With Optuna's reason, if it refuses its settings.
    """
    quiet()
    name, settings = component["name"], {key: value for key, value in component.items() if key != "name"}
    try:
        return TABLES[kind][name](**DEFAULTS.get(name, {}) | settings | others)
    except (TypeError, ValueError) as error:
        typed = "".join(f" {kind}.{key}={types.as_typed(value)}" for key, value in settings.items())
        raise SettingError(Fault(kind, "conflict", f"{kind}={name}{typed}: {' '.join(str(error).split())}")) from error


def _check(kind: str, component: Node) -> list[Fault]:
    """Returns what is wrong with the name of a component, with the types of its settings, or what Optuna refuses."""
    name, faults = component["name"], list[Fault]()
    if types.as_typed(name) not in TABLES[kind]:  # the name may be a list
        return [unknown(kind, kind, types.as_typed(name), TABLES[kind])]
    hints = types.hints(TABLES[kind][name])
    legal = {key: type_ for key, type_ in hints.items() if type_ is not Any and key != "seed"}
    for setting, value in component.items():
        key = f"{kind}.{setting}"
        if setting not in (*legal, "name"):
            faults.append(unknown(key, f"setting of {kind}={name}", setting, legal))
        elif setting != "name" and (fault := types.fault(key, legal[setting], value)):
            faults.append(fault)
    try:
        if not faults:
            _build(kind, component)
    except SettingError as error:
        faults += error.faults
    return faults


def check_sampler(sampler: Node, space: Mapping[str, Dimension], objectives: int) -> list[Fault]:
    """Returns what is wrong with a sampler, by itself and for a space and this number of objectives."""
    numbers = sum(not dimension.is_categorical and not dimension.when for dimension in space.values())
    if sampler["name"] == "cmaes" and (importlib.util.find_spec("cmaes") is None or objectives > 1 or numbers < 2):
        needs = "one objective, two ranges of numbers that every trial has, and the package cmaes (pip install cmaes)"
        return [Fault("sampler", "conflict", f"sampler=cmaes needs {needs}; type sampler=tpe.")]
    return _check("sampler", sampler)


def build_sampler(plan: Plan, *, past: int = 0) -> BaseSampler:
    """Returns Optuna's sampler for a study that has `past` trials.

    A resumed study has new draws; a quasi-random sequence keeps its place itself, with the first seed.
    """
    seed = plan.seed if plan.sampler["name"] == "qmc" else (plan.seed + 7919 * past) % 2**32
    return cast(BaseSampler, _build("sampler", plan.sampler, seed=seed))


def default_pruner(objectives: int, repeats: int) -> str:
    """Returns the pruner that goes with these numbers of objectives and of trainings a trial."""
    if objectives > 1:
        return NO_PRUNER
    return REPEATS_PRUNER if repeats > 1 else DEFAULT_PRUNER


def check_pruner(pruner: Node, objectives: int, repeats: int) -> list[Fault]:
    """Returns what is wrong with a pruner, by itself and for these numbers of objectives and trainings a trial."""
    name, default = pruner["name"], default_pruner(objectives, repeats)
    faults = _check("pruner", pruner)
    if name in PRUNERS and name != NO_PRUNER and (objectives > 1 or (name == REPEATS_PRUNER) != (repeats > 1)):
        count = f"{objectives} objective{'s' * (objectives > 1)} and repeats={repeats}"
        advice = " or ".join(f"pruner={legal}" for legal in dict.fromkeys((default, NO_PRUNER)))
        message = f"pruner={name} cannot be used with {count}: type {advice}."
        faults.append(Fault("pruner", "conflict", message))
    return faults


def build_pruner(settings: Node) -> BasePruner:
    """Returns Optuna's pruner."""
    return cast(BasePruner, _build("pruner", settings))
