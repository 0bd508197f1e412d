"""Plans without a configuration behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentattn.config.groups import Choices
from sentattn.config.search_space import When, read_dimension
from sentattn.sweep.plan import Objective, Plan

HOPS = {"model.attention.hops": "range(1,31)"}
PRUNE: When = {"model/pooling": ("prune",)}
SPACE: Mapping[str, str | tuple[str, When]] = {
    "model.attention.hops": "range(1,31)",
    "loss.penalty": "tag(log,zero,interval(1e-3,1))",
    "model/pooling": "choice(flatten,mean,prune)",
    "model.pooling.p": ("range(8,129)", PRUNE),
}


def plan(space: Mapping[str, str | tuple[str, When]] = SPACE, **others: Any) -> Plan:
    """A plan over a space written as in a file, with these fields in place of its own."""
    fields: dict[str, Any] = {
        "study": "mine",
        "overrides": ("model=structured",),
        "objectives": (Objective("val/accuracy", "max"),),
        "trials": 10,
        "sampler": {"name": "random"},
        "pruner": {"name": "none"},
    }
    choices = Choices.of()
    written = {key: entry if isinstance(entry, tuple) else (entry, {}) for key, entry in space.items()}
    dimensions = {key: read_dimension(key, text, choices, when) for key, (text, when) in written.items()}
    return Plan(space=dimensions, **(fields | others))
