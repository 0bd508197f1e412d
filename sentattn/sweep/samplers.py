"""What asks for the next trial: Optuna's samplers by name.

The default is TPE over several settings at once, in groups of those that occur together. A sweep here has a few dozen
trials over settings of mixed kinds, some of which are set under a condition only: groups let each condition's settings
be learned from the trials that had them, where a Gaussian process and CMA-ES draw them at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from optuna import samplers
from optuna.distributions import CategoricalDistribution

from sentattn.sweep.components import Component, faults_of
from sentattn.sweep.search_space import Dimension, all_values, points

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

    from sentattn.sweep.config import Plan

DEFAULT = "tpe"
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


__all__ = ["DEFAULT", "SAMPLERS", "build_sampler", "check_sampler", "drawn_at_random"]
