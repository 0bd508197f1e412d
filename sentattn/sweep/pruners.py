"""What ends a trial early: Optuna's pruners by name.

The default ends a trial that lies in the lowest quarter of what three or more complete ones had reached after the same
epoch. Since pruned trials are not compared with, the rule grows stricter by itself: on recorded trainings it saves as
many epochs as the median does in the beginning, at less than half of its regret (docs/performance.md). With the four to
eight epochs of a training here, Hyperband and successive halving have two rungs to decide on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optuna import pruners

from sentattn.sweep.components import Component, faults_of

if TYPE_CHECKING:
    from optuna.pruners import BasePruner

    from sentattn.sweep.config import Plan

DEFAULT, NONE, REPEATS = "percentile", "none", "wilcoxon"
INNER = ("median", "percentile", "hyperband", "successive_halving", "threshold")


def _inner(name: str) -> Any:
    return PRUNERS[name].build({})


PRUNERS: dict[str, Component] = {
    DEFAULT: Component(pruners.PercentilePruner, {"percentile": 75.0, "n_startup_trials": 3}),
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
    return REPEATS if repeats > 1 else DEFAULT


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
