"""From a draw of the sampler to the arguments of a training."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hydra.core.override_parser.types import Quote, QuotedString
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from sentattn.config.schema import RAW
from sentattn.config.types import given
from sentattn.sweep.space import Dimension, Value

if TYPE_CHECKING:
    from optuna import Trial

    from sentattn.sweep.plan import Plan

WORD = re.compile(r"[A-Za-z_][\w.-]*")
OTHER_THAN_TEXT = {"true", "false", "null", "nan", "inf"}
"""Words that Hydra's grammar reads as something else, in any mixture of small and capital letters."""
TRAINING_FIGURE = "val/"


def suggest(trial: Trial, plan: Plan) -> dict[str, Value]:
    """Draws the values of a trial.

    Args:
        trial: Optuna's.
        plan: Its dimensions stand behind those that they depend on.

    Returns:
        Values by key; a key whose condition does not hold is left out.
    """
    values: dict[str, Value] = {}
    for dimension in plan.space.values():
        if dimension.is_active(values):
            values[dimension.key] = dimension.value(_draw(trial, dimension))
    return values


def _draw(trial: Trial, dimension: Dimension) -> Value:
    key, distribution = dimension.key, dimension.distribution
    match distribution:
        case CategoricalDistribution():
            return trial.suggest_categorical(key, distribution.choices)
        case IntDistribution():
            return trial.suggest_int(
                key, distribution.low, distribution.high, step=distribution.step, log=distribution.log
            )
        case FloatDistribution():
            return trial.suggest_float(
                key, distribution.low, distribution.high, step=distribution.step, log=distribution.log
            )
        case _:
            raise AssertionError(f"no dimension is of kind {type(distribution).__name__}")


def arguments(plan: Plan, values: Mapping[str, Value]) -> list[str]:
    """Returns what `python -m sentattn.train` takes for a trial."""
    own = [f"output_dir={plan.output_dir}", f"group={plan.study}", "test=false"]
    if "seed" not in values:
        own.append(f"seed={plan.seed}")
    return [*setting(plan, values), *own]


def setting(plan: Plan, values: Mapping[str, Value]) -> list[str]:
    """Returns a trial's values as arguments without what belongs to the sweep: what trains the same setting again."""
    objective = next((one for one in plan.objectives if one.metric.startswith(TRAINING_FIGURE)), None)
    best = [f"objective.metric={objective.metric}", f"objective.mode={objective.mode}"] if objective else []
    return [*plan.overrides, *(typed(key, value) for key, value in values.items()), *best]


def typed(key: str, value: Value) -> str:
    """Returns a value as one types it for a setting, so that Hydra reads the same value."""
    if not isinstance(value, str) or key in RAW:
        assert not isinstance(value, float) or math.isfinite(value)
        return f"{key}={given(value)}"
    if WORD.fullmatch(value) and value.lower() not in OTHER_THAN_TEXT:
        return f"{key}={value}"
    return f"{key}={QuotedString(value, Quote.single).with_quotes()}"
