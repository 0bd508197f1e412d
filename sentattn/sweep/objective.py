"""Objectives of a sweep: metrics of validation, and what a training or a model costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sentattn.config.arguments import Faults
from sentattn.config.groups import at
from sentattn.config.schema import BETTER
from sentattn.config.types import as_typed
from sentattn.errors import suggestion

COSTS = {
    "latency_ms.one": "min",
    "latency_ms.batch": "min",
    "parameters.total": "min",
    "parameters.trainable": "min",
    "seconds.train": "min",
    "seconds.total": "min",
    "peak_memory_bytes": "min",
    "tokens_per_second": "max",
}
"""Costs in `result.json`, and which direction of each is better."""
METRICS: dict[str, str] = {f"val/{metric}": mode for metric, mode in BETTER.items()} | COSTS
"""Every metric that can be an objective, and which direction of it is better."""


@dataclass(frozen=True)
class Objective:
    """What a sweep optimizes.

    Attributes:
        metric: A metric of validation such as `val/accuracy`, or a cost of `result.json` such as `latency_ms.one`.
        mode: Whether a larger or a smaller value is better.
    """

    metric: str
    mode: Literal["max", "min"]


def read_objectives(asked: Sequence[Mapping[str, Any]], faults: Faults) -> tuple[Objective, ...]:
    """Returns the objectives of a sweep, by default validation accuracy.

    Args:
        asked: `metric` and optionally `mode` of each.
        faults: Collects what is wrong.
    """
    objectives = []
    for entry in asked or [{"metric": "val/accuracy"}]:
        metric = str(entry["metric"])
        better = METRICS.get(metric)
        mode = entry.get("mode") or better
        if better is None:
            reason = "the test set is for the end" if metric.startswith("test/") else f"there is no metric {metric!r}"
            choices = f"Choose one of {', '.join(METRICS)}."
            faults.add(f"objective.metric={metric}: {reason}.{suggestion(metric, METRICS)} {choices}")
        elif mode not in ("max", "min"):
            faults.add(f"objective.mode must be max or min, got {as_typed(mode)}.")
        elif mode != better:
            faults.add(f"objective.mode={mode} would search for the worst {metric}: type objective.mode={better}.")
        else:
            objectives.append(Objective(metric, "max" if mode == "max" else "min"))
    if len({objective.metric for objective in objectives}) < len(objectives):
        faults.add("objective.metric: a metric is given twice; leave one out.")
    return tuple(objectives)


def metric_of(result: Mapping[str, Any], metric: str) -> float | None:
    """Returns the value of an objective in a run's `result.json`; None where it is missing or not finite."""
    value = result.get("metrics", {}).get(metric, at(result, metric))
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
