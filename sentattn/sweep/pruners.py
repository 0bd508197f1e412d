"""What ends a trial early: Optuna's pruners by name.

The default is the median of what earlier trials had reached after the same epoch. With the four to eight epochs of a
training here, Hyperband and successive halving have two rungs to decide on, and Hyperband parts the few dozen trials
into brackets of which the sampler sees one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optuna import pruners

from sentattn.sweep.components import Component, faults_of

if TYPE_CHECKING:
    from optuna.pruners import BasePruner

    from sentattn.sweep.plan import Plan

NONE, REPEATS = "none", "wilcoxon"
INNER = ("median", "percentile", "hyperband", "successive_halving", "threshold")


def _inner(name: str) -> Any:
    return PRUNERS[name].build({})


PRUNERS: dict[str, Component] = {
    "median": Component(pruners.MedianPruner),
    "percentile": Component(pruners.PercentilePruner, {"percentile": 25.0}),
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
    return REPEATS if repeats > 1 else "median"


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
