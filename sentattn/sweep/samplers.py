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
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import optuna
from optuna import pruners, samplers
from optuna.distributions import CategoricalDistribution
from optuna.exceptions import ExperimentalWarning

from sentattn.config import types
from sentattn.errors import suggestion
from sentattn.sweep.search_space import Dimension, all_values, points

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

    from sentattn.sweep.plan import Plan

TYPED = {"int", "float", "str", "bool", "None"}
"""Types that can be typed; an argument of any other is no setting."""


def quiet() -> None:
    """Keeps Optuna from printing each trial and its warnings of experimental features: they are our choice."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for category in (ExperimentalWarning, FutureWarning, UserWarning):
        warnings.filterwarnings("ignore", category=category, module=r"optuna\.|sentattn\.sweep")


@dataclass(frozen=True)
class Component:
    """A sampler or a pruner.

    Attributes:
        make: Optuna's class.
        defaults: Our own, where they differ from Optuna's.
        unless: Defaults that are left out where another setting has a value: by their name, that setting and value.
        packages: What it needs and Optuna does not bring.
        named: Arguments that are objects in Optuna and names here: annotation and what makes the object.
    """

    make: Callable[..., Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    unless: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    packages: Sequence[str] = ()
    named: Mapping[str, tuple[str, Callable[[Any], Any]]] = field(default_factory=dict)

    def settings(self) -> dict[str, str]:
        """Returns what can be set, with annotations as in `sentattn.config.types`."""
        arguments = inspect.signature(self.make).parameters.values()
        annotations = {a.name: inspect.formatannotation(a.annotation).strip("'") for a in arguments}
        plain = {name: text for name, text in annotations.items() if name != "seed" and _is_typed(text)}
        return plain | {name: annotation for name, (annotation, _) in self.named.items()}

    def build(self, given: Mapping[str, Any], **filled: Any) -> Any:
        """Returns Optuna's object."""
        left_out = [name for name, (other, value) in self.unless.items() if given.get(other) is value]
        defaults = {name: value for name, value in self.defaults.items() if name not in left_out}
        arguments = {**defaults, **given, **filled}
        quiet()
        for name, (_, make) in self.named.items():
            if name in arguments:
                arguments[name] = make(arguments[name])
        return self.make(**arguments)


def _is_typed(annotation: str) -> bool:
    return all(part.strip() in TYPED for part in annotation.split("|"))


def faults_of(kind: str, given: Mapping[str, Any], table: Mapping[str, Component]) -> list[str]:
    """Returns what is wrong with a sampler or a pruner by itself.

    Args:
        kind: `sampler` or `pruner`.
        given: Its name under `name`, and its settings.
        table: Those that there are.
    """
    name = given.get("name")
    there = f"There are {', '.join(table)}."
    if not isinstance(name, str) or name not in table:
        shown = types.as_typed(name)
        return [f"{kind}={shown}: there is no {kind} {shown!r}.{suggestion(shown, table)} {there}"]
    component = table[name]
    legal = component.settings()
    settings = {key: value for key, value in given.items() if key != "name"}
    faults = []
    for key, value in settings.items():
        if key not in legal:
            takes = f"It takes {', '.join(legal)}." if legal else "It takes no settings."
            faults.append(f"{kind}.{key}: {kind}={name} has no {key!r}.{suggestion(key, legal)} {takes}")
        elif fault := types.fault(f"{kind}.{key}", legal[key], value):
            faults.append(fault.message)
    missing = [package for package in component.packages if importlib.util.find_spec(package) is None]
    if missing:
        faults.append(f"{kind}={name} needs {' and '.join(missing)}: pip install {' '.join(missing)}.")
    return faults or _refused(kind, name, component, settings)


def _refused(kind: str, name: str, component: Component, settings: Mapping[str, Any]) -> list[str]:
    """What Optuna itself refuses when it is given the settings."""
    needed = [
        argument.name
        for argument in inspect.signature(component.make).parameters.values()
        if argument.default is argument.empty
        and argument.name not in {*settings, *component.defaults}
        and (argument.name in component.settings())
    ]
    if needed:
        return [f"{kind}={name} needs {' and '.join(f'{kind}.{key}=VALUE' for key in needed)}."]
    try:
        component.build(settings)
    except (TypeError, ValueError) as error:
        typed = " ".join(f"{kind}.{key}={types.as_typed(value)}" for key, value in settings.items())
        return [f"{kind}={name} {typed}: {' '.join(str(error).replace('`', '').split()).rstrip('.')}."]
    return []


DEFAULT_SAMPLER = "tpe"
LARGEST_GRID = 1_000_000
CROSSOVERS = {
    name.removesuffix("Crossover").lower(): name
    for name in samplers.nsgaii.__all__
    if name.endswith("Crossover") and not name.startswith("Base")
}
MUTATIONS = {"polynomial": "PolynomialMutation"}


class _Grid(samplers.GridSampler):
    """A grid; when all of it is done is the study's to say, which `Study.stop` does not allow outside a loop."""

    def after_trial(self, *_: Any) -> None:
        pass


class _BruteForce(samplers.BruteForceSampler):
    """Every point of a space once; when all are done is the study's to say."""

    def after_trial(self, *_: Any) -> None:
        pass


def _crossover(name: str) -> Any:
    return getattr(samplers.nsgaii, CROSSOVERS[name])()


def _mutation(name: str) -> Any:
    return getattr(samplers.nsgaii, MUTATIONS[name])()


def _names(table: Mapping[str, str]) -> str:
    return f"Literal{sorted(table)}"


_GENETIC = {"crossover": (_names(CROSSOVERS), _crossover)} | (
    {"mutation": (_names(MUTATIONS), _mutation)} if "PolynomialMutation" in samplers.nsgaii.__all__ else {}
)
SAMPLERS: dict[str, Component] = {
    "tpe": Component(
        samplers.TPESampler, {"multivariate": True, "group": True}, unless={"group": ("multivariate", False)}
    ),
    "gp": Component(samplers.GPSampler, {"warn_independent_sampling": False}, packages=["scipy", "torch"]),
    "cmaes": Component(samplers.CmaEsSampler, {"warn_independent_sampling": False}, packages=["cmaes"]),
    "random": Component(samplers.RandomSampler),
    # Without scrambling every study would begin with the same points, the first of them a corner.
    "qmc": Component(
        samplers.QMCSampler,
        {"scramble": True, "warn_independent_sampling": False, "warn_asynchronous_seeding": False},
        packages=["scipy"],
    ),
    "grid": Component(partial(_Grid, {})),
    # Optuna's 50 would be a sweep of random draws.
    "nsgaii": Component(samplers.NSGAIISampler, {"population_size": 20}, named=_GENETIC),
    "nsgaiii": Component(samplers.NSGAIIISampler, {"population_size": 20}, named=_GENETIC),
    "brute_force": Component(_BruteForce),
}
SEES_NUMBERS_ONLY = ("cmaes",)
NEEDS_EVERY_TRIAL = ("gp", "cmaes", "qmc")
"""Samplers that know a setting only if all trials have it."""


def check_sampler(given: Mapping[str, Any], space: Mapping[str, Dimension], objectives: int) -> list[str]:
    """Returns what is wrong with a sampler, by itself and for a space and so many objectives."""
    name = given.get("name")
    faults = faults_of("sampler", given, SAMPLERS)
    if name in ("grid", "brute_force"):
        endless = [dimension for dimension in space.values() if dimension.size() is None]
        faults += [
            f"{one.key}={one.written}: sampler={name} needs ranges of single values; type {one.key}=choice(...)."
            for one in endless
        ]
        if not endless and points(space, LARGEST_GRID) is None:
            faults.append(f"sampler={name} would need more than {LARGEST_GRID:,} trials; type sampler=qmc.")
    if name == "grid" and (conditional := [key for key, one in space.items() if one.when]):
        faults.append(
            f"sampler=grid knows no conditions, and {' and '.join(conditional)} would be tried where it does nothing; "
            "type sampler=brute_force."
        )
    if name == "cmaes" and objectives > 1:
        faults.append("sampler=cmaes has one objective; type sampler=nsgaii.")
    if name == "cmaes" and len(space) - len(drawn_at_random(given, space)) < 2:
        faults.append("sampler=cmaes needs two ranges of numbers that every trial has; type sampler=tpe.")
    return faults


def drawn_at_random(given: Mapping[str, Any], space: Mapping[str, Dimension]) -> list[str]:
    """Returns the keys of which a sampler learns nothing, and which it draws at random."""
    name = given.get("name")
    categorical = {key for key, one in space.items() if isinstance(one.distribution, CategoricalDistribution)}
    unknown = categorical if name in SEES_NUMBERS_ONLY else set()
    return [key for key, one in space.items() if key in unknown or (one.when and name in NEEDS_EVERY_TRIAL)]


def build_sampler(plan: Plan, *, past: int = 0) -> BaseSampler:
    """Returns Optuna's sampler.

    Args:
        plan: The sweep.
        past: Trials that there are already. A continued study goes on with draws of its own; a quasi-random sequence
            and a grid keep their place themselves, and need the seed they began with.
    """
    name, given = plan.sampler["name"], {key: value for key, value in plan.sampler.items() if key != "name"}
    seed = plan.seed if name in ("qmc", "grid") else (plan.seed + 7919 * past) % 2**32
    if name == "grid":
        return _Grid({key: all_values(one) for key, one in plan.space.items()}, seed=seed)
    sampler: BaseSampler = SAMPLERS[name].build(given, seed=seed)
    return sampler


DEFAULT_PRUNER, NONE, REPEATS = "percentile", "none", "wilcoxon"
INNER = ("median", "percentile", "hyperband", "successive_halving", "threshold")


def _inner(name: str) -> Any:
    return PRUNERS[name].build({})


PRUNERS: dict[str, Component] = {
    DEFAULT_PRUNER: Component(pruners.PercentilePruner, {"percentile": 75.0, "n_startup_trials": 3}),
    "median": Component(pruners.MedianPruner),
    "hyperband": Component(pruners.HyperbandPruner),
    "successive_halving": Component(pruners.SuccessiveHalvingPruner),
    "threshold": Component(pruners.ThresholdPruner),
    "patient": Component(
        pruners.PatientPruner, {"wrapped_pruner": "median"}, named={"wrapped_pruner": (f"Literal{list(INNER)}", _inner)}
    ),
    REPEATS: Component(pruners.WilcoxonPruner, packages=["scipy"]),
    NONE: Component(pruners.NopPruner),
}


def default_pruner(objectives: int, repeats: int) -> str:
    """Returns the pruner that goes with so many objectives and trainings a trial."""
    if objectives > 1:
        return NONE
    return REPEATS if repeats > 1 else DEFAULT_PRUNER


def check_pruner(given: Mapping[str, Any], objectives: int, repeats: int) -> list[str]:
    """Returns what is wrong with a pruner, by itself and for so many objectives and trainings a trial."""
    name = given.get("name")
    faults = faults_of("pruner", given, PRUNERS)
    if name not in PRUNERS or name == NONE:
        return faults
    if objectives > 1:
        faults.append(f"pruner={name} compares trials by one figure, and here are {objectives}; type pruner=none.")
    elif name == REPEATS and repeats == 1:
        faults.append("pruner=wilcoxon compares the repeats of a trial, and here is one; type repeats=5 or another.")
    elif name != REPEATS and repeats > 1:
        faults.append(
            f"pruner={name} compares epochs, and with repeats={repeats} trials are means; type pruner=wilcoxon."
        )
    return faults


def build_pruner(plan: Plan) -> BasePruner:
    """Returns Optuna's pruner."""
    given = {key: value for key, value in plan.pruner.items() if key != "name"}
    pruner: BasePruner = PRUNERS[plan.pruner["name"]].build(given)
    return pruner
