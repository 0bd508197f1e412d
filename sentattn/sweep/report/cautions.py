"""What to mind about a study's result: edges of its space, noise, and how little it rests on."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optuna.distributions import CategoricalDistribution, IntDistribution

from sentattn.config.request import read_request
from sentattn.config.types import given
from sentattn.errors import SettingError, UserError
from sentattn.sweep.objective import Objective
from sentattn.sweep.records import Record
from sentattn.sweep.report.axes import share
from sentattn.sweep.report.figures import figure_of
from sentattn.sweep.report.trials import TRIALS, results
from sentattn.sweep.search_space import Dimension, is_one_of

if TYPE_CHECKING:
    from sentattn.sweep.config import Plan

NEAR = 0.05
"""Share of a range, on its own scale, that counts as its edge; of whole numbers the last one always does."""
FEWEST, A_SETTING = 10, 2
"""Complete trials that a study should have, at all and for each setting."""
MANY_FAILED = 0.2


def cautions(
    plan: Plan,
    folder: Path,
    found: Sequence[Record],
    there: Sequence[Record],
    confirmed: Mapping[str, Any] | None = None,
) -> list[str]:
    """Returns what to mind, a sentence each.

    Args:
        plan: The sweep.
        folder: The study's folder.
        found: Its trials.
        there: The best trial, or the front.
        confirmed: What `confirm=` has found for the best setting.
    """
    lines = [*_count(plan, found), *_untried(plan, found), *_ended(found)]
    if there:
        lines += edges(plan, there[0])
        lines += noise(plan, folder, found, there[0], confirmed)
    return lines


def _count(plan: Plan, found: Sequence[Record]) -> list[str]:
    complete = sum(one.state == "complete" for one in found)
    enough = max(FEWEST, A_SETTING * len(plan.space))
    if complete >= enough:
        return []
    trials = "1 trial is" if complete == 1 else f"{complete} trials are"
    settings = "1 setting" if len(plan.space) == 1 else f"{len(plan.space)} settings"
    return [f"Only {trials} complete, for {settings}: what looks important may be chance. {enough} say more."]


def _untried(plan: Plan, found: Sequence[Record]) -> list[str]:
    """Says which choices no trial has taken to its end, where some have been taken."""
    complete = [one for one in found if one.state == "complete"]
    lines = []
    for key, dimension in plan.space.items():
        taken = [one.values[key] for one in complete if key in one.values]
        left = [value for value in dimension.ends() if not is_one_of(value, taken)]
        if taken and left and isinstance(dimension.distribution, CategoricalDistribution):
            named = " or ".join(given(value) for value in left)
            lines.append(f"No trial with {key}={named} is complete: the study says nothing of it.")
    return lines


def _ended(found: Sequence[Record]) -> list[str]:
    counts = Counter(one.state for one in found)
    finished = counts["complete"] + counts["pruned"]
    lines = []
    if 2 * counts["pruned"] > finished:
        lines.append(
            f"{counts['pruned']} of {finished} finished trials were pruned: importances rest on the others, which are "
            "the good ones. pruner=none lets all run to their end."
        )
    if counts["failed"] > MANY_FAILED * len(found):
        notes = Counter(one.error.partition("\n")[0] for one in found if one.state == "failed")
        lines.append(
            f"{counts['failed']} of {len(found)} trials failed, most often: {notes.most_common(1)[0][0]}. "
            "Where that depends on a setting, its range looks better than it is."
        )
    return lines


def edges(plan: Plan, winner: Record) -> list[str]:
    """Returns a sentence for each number of the best trial that lies at an end of its range, where more is legal."""
    lines = []
    for key, value in winner.values.items():
        dimension = plan.space.get(key)
        if dimension is None or (end := edge(dimension, value)) is None:
            continue
        beyond = _beyond(dimension, end)
        if _is_legal(plan, {**winner.values, key: beyond}):
            lines.append(
                f"{key}={given(value)} lies at the {end} end of {dimension.written}: the best may lie beyond it. "
                "Widen the range and type the same command again; trials that are done are kept."
            )
    return lines


def edge(dimension: Dimension, value: object) -> str | None:
    """Returns which end of its range a number lies at, `lower` or `upper`; None where at none."""
    if isinstance(dimension.distribution, CategoricalDistribution) or dimension.size() == 1:
        return None
    assert isinstance(value, int | float)
    if dimension.zero and value == 0:  # less than nothing is no setting, and 0 is a point of its own
        return None
    at = share(dimension, value)
    if at <= NEAR + 1e-9:
        return None if dimension.zero else "lower"  # between 0 and the scale's beginning nothing is left out
    return "upper" if at >= 1 - NEAR - 1e-9 else None


def _beyond(dimension: Dimension, end: str) -> float | int:
    """A value a little beyond an end of a range."""
    distribution = dimension.distribution
    assert not isinstance(distribution, CategoricalDistribution)
    low, high, step = distribution.low, distribution.high, distribution.step  # type: ignore[attr-defined]
    if isinstance(distribution, IntDistribution):
        return int(low - step if end == "lower" else high + step)
    if step is not None:
        return float(low - step if end == "lower" else high + step)
    if distribution.log:  # type: ignore[attr-defined]
        factor = (high / (dimension.floor or low)) ** NEAR
        return float(low / factor if end == "lower" else high * factor)
    width = NEAR * (high - low)
    return float(low - width if end == "lower" else high + width)


def _is_legal(plan: Plan, values: Mapping[str, object]) -> bool:
    try:
        read_request(plan.arguments(values))  # type: ignore[arg-type]
    except SettingError:
        return False
    except UserError:
        return True
    return True


def noise(
    plan: Plan, folder: Path, found: Sequence[Record], winner: Record, confirmed: Mapping[str, Any] | None = None
) -> list[str]:
    """Returns a sentence where the best trial cannot be told from the second, as far as seeds can say.

    Args:
        plan: The sweep.
        folder: The study's folder.
        found: Its trials.
        winner: The best one.
        confirmed: What `confirm=` has found for its setting; None where it has not.
    """
    if len(plan.objectives) > 1:
        return []
    [objective] = plan.objectives
    sign = 1.0 if objective.mode == "max" else -1.0
    scored = {
        one.number: sign * one.objectives[0]
        for one in found
        if one.state == "complete" and one.objectives and one.number != winner.number
    }
    if not scored or not winner.objectives:
        return []
    second = max(scored, key=scored.__getitem__)
    if plan.repeats > 1:
        own, its = (_by_seed(folder / TRIALS / str(number), objective) for number in (winner.number, second))
        return _paired(winner.number, second, [sign * (own[seed] - its[seed]) for seed in sorted(own.keys() & its)])
    values = (confirmed or {}).get("metrics", {}).get(objective.metric, {}).get("values", [])
    ahead = [sign * winner.objectives[0] - score for score in scored.values()]
    return _spread(winner.number, objective.metric, values, ahead)


def _paired(winner: int, second: int, ahead: Sequence[float]) -> list[str]:
    """Says whether one trial is ahead of another over the same seeds."""
    from sentattn.training.seeds import half_width  # brings torch

    if len(ahead) < 2 or statistics.fmean(ahead) > half_width(ahead):
        return []
    mean, half = statistics.fmean(ahead), half_width(ahead)
    return [
        f"Trial {winner} cannot be told from trial {second}: over {len(ahead)} seeds it is ahead by {mean:.4f}, "
        f"with a 95% interval from {mean - half:.4f} to {mean + half:.4f}."
    ]


def _spread(winner: int, metric: str, values: Sequence[float], ahead: Sequence[float]) -> list[str]:
    """Says how many trials lie so near to the best one that its seeds alone would make the difference."""
    from sentattn.training.seeds import half_width

    if len(values) < 2:
        return []
    # Two single runs, each with a run's spread; half_width is that of a mean of so many.
    apart = half_width(values) * math.sqrt(2 * len(values))
    if not (near := sum(one <= apart for one in ahead)):
        return []
    trials = "1 other trial" if near == 1 else f"{near} other trials"
    return [
        f"Trial {winner} cannot be told from {trials}: by {len(values)} seeds of its setting, two runs may differ by "
        f"{apart:.4f} in {metric} through their seeds alone."
    ]


def _by_seed(directory: Path, objective: Objective) -> dict[int, float]:
    """An objective of each run of a trial, by its seed."""
    return {one["seed"]: value for one in results(directory) if (value := figure_of(one, objective.metric)) is not None}
