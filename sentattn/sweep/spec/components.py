"""What suggests the next trial, and what prunes one: Optuna's samplers and pruners by name."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import optuna
from optuna import pruners, samplers
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler

from sentattn.config import types
from sentattn.config.search_space import Dimension
from sentattn.config.types import Node
from sentattn.errors import Fault, SettingError, suggestion

if TYPE_CHECKING:
    from sentattn.sweep.spec.plan import Plan

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
    if name not in TABLES[kind]:
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
        message = f"pruner={name} cannot be used with {count}: type pruner={default} or pruner={NO_PRUNER}."
        faults.append(Fault("pruner", "conflict", message))
    return faults


def build_pruner(settings: Node) -> BasePruner:
    """Returns Optuna's pruner."""
    return cast(BasePruner, _build("pruner", settings))
