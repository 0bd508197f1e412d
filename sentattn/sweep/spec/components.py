"""What suggests the next trial, prunes one and runs one: Optuna's samplers and pruners by name, and the engine.

The default sampler is TPE over several settings at once, in groups of those that occur together. A sweep here has a few
dozen trials over settings of mixed kinds, some of them conditional: groups model the settings of each condition from
the trials that had them, where a Gaussian process and CMA-ES draw them at random.

The default pruner ends a trial in the lowest quarter of what three or more complete ones had reached after the same
epoch. Since pruned trials are not compared with, the rule grows stricter by itself: on recorded trainings it saves as
many epochs as the median does in the beginning, at less than half of its regret (docs/performance.md). With the four to
eight epochs of a training here, Hyperband and successive halving have two rungs to decide on.
"""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import optuna
from optuna import pruners, samplers
from optuna.distributions import CategoricalDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial

from sentattn.config import types
from sentattn.config.targets import TARGET
from sentattn.errors import Fault, SettingError, suggestion
from sentattn.sweep.spec.search_space import Dimension, points

if TYPE_CHECKING:
    from sentattn.sweep.spec.plan import Plan

DEFAULT_SAMPLER, DEFAULT_PRUNER, REPEATS_PRUNER, NO_PRUNER = "tpe", "percentile", "wilcoxon", "none"
GRID, BRUTE_FORCE = "grid", "brute_force"
LARGEST_GRID = 1_000_000
LOCAL, RAY, AUTO = "local", "ray", "auto"
ADDRESS = re.compile(r"[^\s/]+:\d{1,5}")


def quiet() -> None:
    """Keeps Optuna from printing each trial and its warnings of experimental features: they are our choice."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for category in (ExperimentalWarning, FutureWarning, UserWarning):
        warnings.filterwarnings("ignore", category=category, module=r"optuna\.|sentattn\.sweep")


class _Grid(samplers.GridSampler):
    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Assigns a point of the grid, unless the trial has its values: it is tried again."""
        if not trial.params:
            super().before_trial(study, trial)

    def after_trial(self, *_: Any) -> None:
        """Does nothing: the study ends when all points are tried; Optuna's `stop` is not allowed outside its loop."""


class _BruteForce(samplers.BruteForceSampler):
    def after_trial(self, *_: Any) -> None:
        """Does nothing, as in a grid."""


SAMPLERS: dict[str, Callable[..., BaseSampler]] = {
    DEFAULT_SAMPLER: samplers.TPESampler,
    "gp": samplers.GPSampler,
    "cmaes": samplers.CmaEsSampler,
    "random": samplers.RandomSampler,
    "qmc": samplers.QMCSampler,
    GRID: _Grid,
    "nsgaii": samplers.NSGAIISampler,
    "nsgaiii": samplers.NSGAIIISampler,
    BRUTE_FORCE: _BruteForce,
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
DEFAULTS: dict[str, dict[str, Any]] = {
    DEFAULT_SAMPLER: {"multivariate": True, "group": True},
    "gp": {"warn_independent_sampling": False},
    "cmaes": {"warn_independent_sampling": False},
    # Without scrambling every study would begin with the same points, the first of them a corner.
    "qmc": {"scramble": True, "warn_independent_sampling": False, "warn_asynchronous_seeding": False},
    # Optuna's 50 would be a sweep of random draws.
    "nsgaii": {"population_size": 20},
    "nsgaiii": {"population_size": 20},
    DEFAULT_PRUNER: {"percentile": 75.0, "n_startup_trials": 3},
}
"""Settings that differ from Optuna's defaults."""


def _settings(kind: str, component: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a component by the keys under which they are typed, such as `sampler.multivariate`."""
    return {f"{kind}.{key}": value for key, value in component.items() if key not in ("name", TARGET)}


def _build(kind: str, component: Mapping[str, Any], **others: Any) -> Any:
    """Returns Optuna's object, or that of a class of the user's own.

    Raises:
        SettingError: With Optuna's reason, if it refuses its settings.
    """
    quiet()
    base, table = (BaseSampler, SAMPLERS) if kind == "sampler" else (BasePruner, PRUNERS)
    name, settings = component["name"], {key: value for key, value in component.items() if key != "name"}
    try:
        if TARGET in component:
            from sentattn.build import instantiate  # imports torch

            return instantiate(settings, base)
        make: Callable[..., Any] = table[name]
        return make(**DEFAULTS.get(name, {}) | settings | others)
    except SettingError:
        raise
    except (TypeError, ValueError) as error:
        typed = " ".join(f"{key}={types.as_typed(value)}" for key, value in _settings(kind, component).items())
        message = f"{kind}={name}{f' {typed}' if typed else ''}: {' '.join(str(error).split())}"
        raise SettingError(Fault(kind, "conflict", message)) from error


def _check(kind: str, component: Mapping[str, Any], **others: Any) -> list[Fault]:
    """Returns what is wrong with the name of a component, with the types of its settings, or what Optuna refuses."""
    table: Mapping[str, Callable[..., Any]] = SAMPLERS if kind == "sampler" else PRUNERS
    name, faults = component["name"], list[Fault]()
    if TARGET not in component:
        if name not in table:
            text = types.as_typed(name)
            close = f"{suggestion(text, table)} There are {', '.join(table)}"
            return [Fault(kind, "unknown", f"{kind}={text}: there is no {kind} {text!r}.{close}.")]
        legal = {key: type_ for key, type_ in types.hints(table[name]).items() if type_ is not Any and key != "seed"}
        for key, value in _settings(kind, component).items():
            setting = key.partition(".")[2]
            if setting not in legal:
                has = f"{suggestion(setting, legal)} It has {', '.join(legal) or 'no settings'}"
                faults.append(Fault(key, "unknown", f"{key}: {kind}={name} has no {setting!r}.{has}."))
            elif fault := types.fault(key, legal[setting], value):
                faults.append(fault)
    if not faults:
        try:
            _build(kind, component, **others)
        except SettingError as error:
            faults += error.faults
    return faults


def check_sampler(sampler: Mapping[str, Any], space: Mapping[str, Dimension], objectives: int) -> list[Fault]:
    """Returns what is wrong with a sampler, by itself and for a space and this number of objectives."""
    name, messages = sampler["name"], []
    if name in (GRID, BRUTE_FORCE) and points(space, LARGEST_GRID) is None:
        limit = f"at most {LARGEST_GRID:,} points, of choices and ranges with steps"
        messages.append(f"sampler={name} needs a space of {limit}; type sampler=qmc.")
    if name == GRID and (conditional := [key for key, dimension in space.items() if dimension.when]):
        conditions = f"would also try {' and '.join(conditional)} where their conditions do not hold"
        messages.append(f"sampler=grid {conditions}; type sampler=brute_force.")
    numbers = len(space) - len(drawn_at_random(sampler, space))
    if name == "cmaes" and (importlib.util.find_spec("cmaes") is None or objectives > 1 or numbers < 2):
        needs = "one objective, two ranges of numbers that every trial has, and the package cmaes (pip install cmaes)"
        messages.append(f"sampler=cmaes needs {needs}; type sampler=tpe.")
    faults = [Fault("sampler", "conflict", message) for message in messages]
    return faults or _check("sampler", sampler, **({"search_space": {}} if name == GRID else {}))


def drawn_at_random(sampler: Mapping[str, Any], space: Mapping[str, Dimension]) -> list[str]:
    """Returns the keys that a sampler draws at random: conditions that it has no model of, choices in CMA-ES."""
    name = sampler["name"]
    return [
        key
        for key, dimension in space.items()
        if (dimension.when and name in ("gp", "cmaes", "qmc"))
        or (name == "cmaes" and isinstance(dimension.distribution, CategoricalDistribution))
    ]


def build_sampler(plan: Plan, *, past: int = 0) -> BaseSampler:
    """Returns Optuna's sampler.

    Args:
        plan: The sweep.
        past: Trials of the study so far. A resumed study has new draws; a quasi-random sequence and a grid keep their
            place themselves, and need the seed they began with.
    """
    name = plan.sampler["name"]
    arguments: dict[str, Any] = {"seed": plan.seed if name in ("qmc", GRID) else (plan.seed + 7919 * past) % 2**32}
    if TARGET in plan.sampler:
        arguments = {}
    elif name == GRID:
        arguments["search_space"] = {key: list(dimension.values() or ()) for key, dimension in plan.space.items()}
    sampler: BaseSampler = _build("sampler", plan.sampler, **arguments)
    return sampler


def default_pruner(objectives: int, repeats: int) -> str:
    """Returns the pruner that goes with these numbers of objectives and of trainings a trial."""
    if objectives > 1:
        return NO_PRUNER
    return REPEATS_PRUNER if repeats > 1 else DEFAULT_PRUNER


def check_pruner(pruner: Mapping[str, Any], objectives: int, repeats: int) -> list[Fault]:
    """Returns what is wrong with a pruner, by itself and for these numbers of objectives and trainings a trial."""
    name, default = pruner["name"], default_pruner(objectives, repeats)
    faults = _check("pruner", pruner)
    if name in PRUNERS and name != NO_PRUNER and (objectives > 1 or (name == REPEATS_PRUNER) != (repeats > 1)):
        count = f"{objectives} objective{'s' * (objectives > 1)} and repeats={repeats}"
        message = f"pruner={name} cannot be used with {count}: type pruner={default} or pruner={NO_PRUNER}."
        faults.append(Fault("pruner", "conflict", message))
    return faults


def build_pruner(plan: Plan) -> BasePruner:
    """Returns Optuna's pruner."""
    pruner: BasePruner = _build("pruner", plan.pruner)
    return pruner


def read_engine(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    """Returns the engine that settings describe, under `name` with all its settings, and what is wrong with it."""
    name, address = types.as_typed(settings.get("name", LOCAL)), types.as_typed(settings.get("address", AUTO))
    faults = []
    if name not in (LOCAL, RAY):
        close = suggestion(name, (LOCAL, RAY))
        faults.append(Fault("engine", "unknown", f"engine={name}: there is no engine {name!r}.{close}"))
    for key in settings.keys() - {"name", "address"}:
        close = suggestion(key, ("address",))
        faults.append(Fault(f"engine.{key}", "unknown", f"engine.{key}: there is no such setting.{close}"))
    if name == LOCAL and "address" in settings:
        message = "engine.address has an effect with engine=ray only: type engine=ray, or leave engine.address out."
        faults.append(Fault("engine.address", "no_effect", message))
    if name != RAY:
        return {"name": LOCAL}, faults
    if address != AUTO and not ADDRESS.fullmatch(address):
        message = f"engine.address must be auto or HOST:PORT of the cluster's head, got {address}."
        faults.append(Fault("engine.address", "range", message))
    if importlib.util.find_spec("ray") is None:
        faults.append(Fault("engine", "package", 'engine=ray needs Ray: type pip install "sentattn[ray]".'))
    return {"name": name, "address": address}, faults
