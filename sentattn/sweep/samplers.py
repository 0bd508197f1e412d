"""What suggests the next trial and what prunes one: Optuna's samplers and pruners by name.

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
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import optuna
from optuna import pruners, samplers
from optuna.distributions import CategoricalDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import nsgaii
from optuna.trial import FrozenTrial

from sentattn.config import types
from sentattn.errors import Fault
from sentattn.sweep.components import check_component
from sentattn.sweep.search_space import Dimension, points

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

    from sentattn.sweep.plan import Plan

DEFAULT_SAMPLER, DEFAULT_PRUNER, REPEATS_PRUNER, NO_PRUNER = "tpe", "percentile", "wilcoxon", "none"
LARGEST_GRID = 1_000_000


def quiet() -> None:
    """Keeps Optuna from printing each trial and its warnings of experimental features: they are our choice."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for category in (ExperimentalWarning, FutureWarning, UserWarning):
        warnings.filterwarnings("ignore", category=category, module=r"optuna\.|sentattn\.sweep")


@dataclass(frozen=True)
class Component:
    """A sampler or a pruner: Optuna's class, and our defaults where they differ from Optuna's."""

    make: Callable[..., Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        """Returns the types of what can be set: numbers, truth values, texts, and objects by their names."""
        kinds = types.hints(self.make)
        kinds |= {name: Literal[tuple(table)] for name, table in OBJECTS.items() if name in kinds}
        return {name: kind for name, kind in kinds.items() if kind is not Any and name != "seed"}

    def build(self, settings: Mapping[str, Any], **others: Any) -> Any:
        """Returns Optuna's object."""
        quiet()
        arguments = {**self.defaults, **settings, **others}
        if settings.get("multivariate") is False and "group" not in settings:
            del arguments["group"]  # Optuna groups only what it models together
        objects = {name: table[arguments[name]]() for name, table in OBJECTS.items() if name in arguments}
        return self.make(**arguments | objects)


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


SAMPLERS: dict[str, Component] = {
    DEFAULT_SAMPLER: Component(samplers.TPESampler, {"multivariate": True, "group": True}),
    "gp": Component(samplers.GPSampler, {"warn_independent_sampling": False}),
    "cmaes": Component(samplers.CmaEsSampler, {"warn_independent_sampling": False}),
    "random": Component(samplers.RandomSampler),
    # Without scrambling every study would begin with the same points, the first of them a corner.
    "qmc": Component(
        samplers.QMCSampler,
        {"scramble": True, "warn_independent_sampling": False, "warn_asynchronous_seeding": False},
    ),
    "grid": Component(partial(_Grid, {})),
    # Optuna's 50 would be a sweep of random draws.
    "nsgaii": Component(samplers.NSGAIISampler, {"population_size": 20}),
    "nsgaiii": Component(samplers.NSGAIIISampler, {"population_size": 20}),
    "brute_force": Component(_BruteForce),
}
PRUNERS: dict[str, Component] = {
    DEFAULT_PRUNER: Component(pruners.PercentilePruner, {"percentile": 75.0, "n_startup_trials": 3}),
    "median": Component(pruners.MedianPruner),
    "hyperband": Component(pruners.HyperbandPruner),
    "successive_halving": Component(pruners.SuccessiveHalvingPruner),
    "threshold": Component(pruners.ThresholdPruner),
    "patient": Component(pruners.PatientPruner, {"wrapped_pruner": "median"}),
    REPEATS_PRUNER: Component(pruners.WilcoxonPruner),
    NO_PRUNER: Component(pruners.NopPruner),
}
OBJECTS: dict[str, dict[str, Callable[[], Any]]] = {
    "crossover": {
        name.removesuffix("Crossover").lower(): getattr(nsgaii, name)
        for name in sorted(nsgaii.__all__)
        if name.endswith("Crossover") and not name.startswith("Base")
    },
    "mutation": {"polynomial": nsgaii.PolynomialMutation},
    "wrapped_pruner": {
        name: partial(PRUNERS[name].build, {})
        for name in ("median", DEFAULT_PRUNER, "hyperband", "successive_halving", "threshold")
    },
}
"""Arguments that are objects in Optuna and names here."""


def _check(kind: str, component: Mapping[str, Any], table: Mapping[str, Component]) -> list[Fault]:
    """Returns what is wrong with a sampler or a pruner by itself."""
    name = component["name"]
    faults = check_component(kind, component, {one: made.settings for one, made in table.items()})
    if not faults:
        try:
            table[name].build({key: value for key, value in component.items() if key != "name"})
        except (TypeError, ValueError) as error:
            reason = " ".join(str(error).replace("`", "").split()).rstrip(".")
            faults.append(Fault(kind, "conflict", f"{kind}={name}: {reason}."))
    return faults


def check_sampler(sampler: Mapping[str, Any], space: Mapping[str, Dimension], objectives: int) -> list[Fault]:
    """Returns what is wrong with a sampler, by itself and for a space and this number of objectives."""
    name, messages = sampler["name"], []
    if name in ("grid", "brute_force") and points(space, LARGEST_GRID) is None:
        limit = f"at most {LARGEST_GRID:,} points, of choices and ranges with steps"
        messages.append(f"sampler={name} needs a space of {limit}; type sampler=qmc.")
    if name == "grid" and (conditional := [key for key, dimension in space.items() if dimension.when]):
        conditions = f"would also try {' and '.join(conditional)} where their conditions do not hold"
        messages.append(f"sampler=grid {conditions}; type sampler=brute_force.")
    numbers = len(space) - len(drawn_at_random(sampler, space))
    if name == "cmaes" and (importlib.util.find_spec("cmaes") is None or objectives > 1 or numbers < 2):
        needs = "one objective, two ranges of numbers that every trial has, and the package cmaes (pip install cmaes)"
        messages.append(f"sampler=cmaes needs {needs}; type sampler=tpe.")
    return [*_check("sampler", sampler, SAMPLERS), *(Fault("sampler", "conflict", message) for message in messages)]


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
    settings = dict(plan.sampler)
    name = settings.pop("name")
    seed = plan.seed if name in ("qmc", "grid") else (plan.seed + 7919 * past) % 2**32
    if name == "grid":
        return _Grid({key: list(dimension.values() or ()) for key, dimension in plan.space.items()}, seed=seed)
    sampler: BaseSampler = SAMPLERS[name].build(settings, seed=seed)
    return sampler


def default_pruner(objectives: int, repeats: int) -> str:
    """Returns the pruner that goes with these numbers of objectives and of trainings a trial."""
    if objectives > 1:
        return NO_PRUNER
    return REPEATS_PRUNER if repeats > 1 else DEFAULT_PRUNER


def check_pruner(pruner: Mapping[str, Any], objectives: int, repeats: int) -> list[Fault]:
    """Returns what is wrong with a pruner, by itself and for these numbers of objectives and trainings a trial."""
    name, default = pruner["name"], default_pruner(objectives, repeats)
    faults = _check("pruner", pruner, PRUNERS)
    if name in PRUNERS and name != NO_PRUNER and (objectives > 1 or (name == REPEATS_PRUNER) != (repeats > 1)):
        count = f"{objectives} objective{'s' * (objectives > 1)} and repeats={repeats}"
        message = f"pruner={name} cannot be used with {count}: type pruner={default} or pruner={NO_PRUNER}."
        faults.append(Fault("pruner", "conflict", message))
    return faults


def build_pruner(plan: Plan) -> BasePruner:
    """Returns Optuna's pruner."""
    settings = dict(plan.pruner)
    pruner: BasePruner = PRUNERS[settings.pop("name")].build(settings)
    return pruner
