"""What a sweep looks for: figures of validation, and what a training or a model costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sentattn.config.arguments import Faults
from sentattn.config.schema import BETTER
from sentattn.config.types import given
from sentattn.errors import suggestion

MEASURED = {
    "latency_ms.one": "min",
    "latency_ms.batch": "min",
    "parameters.total": "min",
    "parameters.trainable": "min",
    "seconds.train": "min",
    "seconds.total": "min",
    "peak_memory_bytes": "min",
    "tokens_per_second": "max",
}
"""Figures of `result.json` that cost is told by, and which way each is better."""
METRICS: dict[str, str] = {f"val/{figure}": mode for figure, mode in BETTER.items()} | MEASURED
"""What a sweep can look for, and which way each is better."""


@dataclass(frozen=True)
class Objective:
    """What a sweep looks for.

    Attributes:
        metric: A figure of validation such as `val/accuracy`, or of `result.json` such as `latency_ms.one`.
        mode: Whether more or less of it is better.
    """

    metric: str
    mode: Literal["max", "min"]


def read_objectives(asked: Sequence[Mapping[str, Any]], faults: Faults) -> tuple[Objective, ...]:
    """Returns what a sweep looks for, by default the accuracy of validation; faults go to where they are gathered."""
    listed = asked or [{"metric": "val/accuracy"}]
    found = []
    for one in listed:
        metric = str(one["metric"])
        better = METRICS.get(metric)
        mode = one.get("mode") or better
        if better is None:
            there = f"There are {', '.join(METRICS)}."
            reason = "the test set is for the end" if metric.startswith("test/") else f"there is no figure {metric!r}"
            faults.add(f"objective.metric={metric}: {reason}.{suggestion(metric, METRICS)} {there}")
        elif mode not in ("max", "min"):
            faults.add(f"objective.mode={given(mode)} is not legal: it takes max or min.")
        elif mode != better:
            faults.add(f"objective.mode={mode} would look for the worst {metric}: type objective.mode={better}.")
        else:
            found.append(Objective(metric, "max" if mode == "max" else "min"))
    if len({one.metric for one in found}) < len(found):
        faults.add("objective.metric: a figure is there twice; leave one out.")
    return tuple(found)
