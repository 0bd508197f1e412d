"""What the charts of the report are drawn from, as plain data: values, and where they stand on their axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sentattn.sweep.records import Record
from sentattn.sweep.report.axes import axis, names, position
from sentattn.sweep.report.importances import Importances
from sentattn.sweep.report.surface import Surface
from sentattn.sweep.search_space import Dimension

if TYPE_CHECKING:
    from sentattn.sweep.report.html import Findings

MOST, CURVES = 2000, 300
"""Trials that are drawn, and those whose course is: the best, and the others evenly."""
DIGITS = 6


def data(found: Findings) -> dict[str, Any]:
    """Returns what the page's script reads."""
    plan = found.plan
    shown = _chosen(found.records, found.front, MOST)
    courses = {one.number for one in _chosen([r for r in shown if r.steps], found.front, CURVES)}
    reached = so_far(found.records, plan.objectives[0].mode)
    return {
        "objectives": [asdict(one) for one in plan.objectives],
        "repeats": plan.repeats,
        "axes": [
            {**asdict(axis(one)), "name": name, "condition": bool(one.when)}
            for name, one in zip(names(plan.space), plan.space.values(), strict=True)
        ],
        "trials": [
            {
                **_trial(one, plan.space),
                "best": reached.get(one.number),
                "steps": _steps(one) if one.number in courses else [],
                "seconds": _rounded(found.reader.costs(one).seconds),
                "epoch": found.reader.costs(one).best_epoch,
            }
            for one in shown
        ],
        "count": len(found.records),
        "front": [one.number for one in found.front],
        "importances": [_importances(one) for one in found.importances],
        "sampler": plan.sampler["name"],
        "surfaces": [_surface(one) for one in found.surfaces],
    }


def so_far(records: Sequence[Record], mode: str) -> dict[int, float]:
    """Returns the best value of the first objective up to each complete trial, by its number."""
    best: dict[int, float] = {}
    pick = max if mode == "max" else min
    last: float | None = None
    for one in records:
        if one.state == "complete" and one.objectives and math.isfinite(one.objectives[0]):
            last = one.objectives[0] if last is None else pick(last, one.objectives[0])
            best[one.number] = last
    return best


def _chosen(records: Sequence[Record], front: Sequence[Record], most: int) -> list[Record]:
    """All trials, or of too many the front and every so-manieth of the others."""
    if len(records) <= most:
        return list(records)
    every = -(-len(records) // most)
    best = {one.number for one in front[: most // 2]}
    return [one for place, one in enumerate(records) if place % every == 0 or one.number in best]


def _trial(one: Record, space: Mapping[str, Dimension]) -> dict[str, Any]:
    inside = one.state != "outside"
    return {
        "number": one.number,
        "state": one.state,
        "values": {key: _rounded(value) for key, value in one.values.items()},
        "at": {key: _rounded(position(space[key], value)) for key, value in one.values.items() if key in space}
        if inside
        else {},
        "objectives": [_rounded(value) for value in one.objectives] if one.objectives else None,
        "again": one.retry_of,
        "note": one.error.partition("\n")[0],
    }


def _steps(one: Record) -> list[list[float]]:
    return [[step, _rounded(value)] for step, value in sorted(one.steps.items()) if math.isfinite(value)]


def _importances(one: Importances | None) -> dict[str, Any] | None:
    if one is None:
        return None
    order = sorted(one.ped_anova, key=lambda key: -max(one.ped_anova[key], (one.fanova or {}).get(key, 0.0)))
    return {
        "rows": [
            {"key": key, "ped": _rounded(one.ped_anova[key]), "fanova": _rounded((one.fanova or {}).get(key))}
            for key in order
        ],
        "both": one.fanova is not None,
        "caution": one.caution,
    }


def _surface(one: Surface | None) -> dict[str, Any] | None:
    if one is None:
        return None
    means = [[_rounded(value) for value in row] for row in one.means.tolist()]
    trust = [[round(value, 2) for value in row] for row in one.trust.tolist()]
    return {"x": one.x, "y": one.y, "means": means, "trust": trust}


def _rounded(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
