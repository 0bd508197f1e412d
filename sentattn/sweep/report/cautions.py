"""What to be careful about in a study's result: edges of its space, noise, and how few trials it rests on."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from sentattn.config.request import read_request
from sentattn.config.types import as_typed
from sentattn.errors import SettingError, UserError
from sentattn.sweep.plan import Objective, metric_of
from sentattn.sweep.records import TRIALS, Record
from sentattn.sweep.report.artifacts import results
from sentattn.sweep.report.confirm import mean_interval
from sentattn.sweep.search_space import Dimension, is_one_of

if TYPE_CHECKING:
    from sentattn.sweep.plan import Plan

EDGE = 0.05
"""Share of a range, on its own scale, that counts as its edge; of integers the last one always does."""
MIN_COMPLETE, MIN_COMPLETE_PER_SETTING = 10, 2
MANY_FAILED = 0.2


def cautions(
    plan: Plan,
    folder: Path,
    records: Sequence[Record],
    best: Sequence[Record],
    confirmed: Mapping[str, Any] | None = None,
) -> list[str]:
    """Returns what to be careful about, a message each.

    Args:
        plan: The sweep.
        folder: The study's folder.
        records: Its trials.
        best: The best trial, or the Pareto front.
        confirmed: The result of `confirm=` for the best setting.
    """
    lines = [*_few_trials(plan, records), *_untried_choices(plan, records), *_pruned_and_failed(records)]
    if best:
        lines += edges(plan, best[0])
        lines += noise(plan, folder, records, best[0], confirmed)
    return lines


def _few_trials(plan: Plan, records: Sequence[Record]) -> list[str]:
    complete = sum(record.state == "complete" for record in records)
    enough = max(MIN_COMPLETE, MIN_COMPLETE_PER_SETTING * len(plan.space))
    if complete >= enough:
        return []
    trials = "1 trial is" if complete == 1 else f"{complete} trials are"
    settings = "1 setting" if len(plan.space) == 1 else f"{len(plan.space)} settings"
    return [f"Only {trials} complete, for {settings}: what looks important may be chance. Run at least {enough}."]


def _untried_choices(plan: Plan, records: Sequence[Record]) -> list[str]:
    """The choices that no complete trial has, of settings that complete trials have."""
    complete = [record for record in records if record.state == "complete"]
    lines = []
    for key, dimension in plan.space.items():
        tried = [record.values[key] for record in complete if key in record.values]
        untried = [value for value in dimension.ends() if not is_one_of(value, tried)]
        if tried and untried and isinstance(dimension.distribution, CategoricalDistribution):
            choices = " or ".join(as_typed(value) for value in untried)
            lines.append(f"No trial with {key}={choices} is complete: the study says nothing about it.")
    return lines


def _pruned_and_failed(records: Sequence[Record]) -> list[str]:
    counts = Counter(record.state for record in records)
    finished = counts["complete"] + counts["pruned"]
    lines = []
    if 2 * counts["pruned"] > finished:
        lines.append(
            f"{counts['pruned']} of {finished} finished trials were pruned: importances rest on the others, which are "
            "the good ones. pruner=none runs all trials to their end."
        )
    if counts["failed"] > MANY_FAILED * len(records):
        notes = Counter(record.error.partition("\n")[0] for record in records if record.state == "failed")
        lines.append(
            f"{counts['failed']} of {len(records)} trials failed, most often: {notes.most_common(1)[0][0]}. "
            "Where that depends on a setting, its range looks better than it is."
        )
    return lines


def edges(plan: Plan, winner: Record) -> list[str]:
    """Returns a message for each number of the best trial at an end of its range beyond which values are legal."""
    lines = []
    for key, value in winner.values.items():
        dimension = plan.space.get(key)
        if dimension is None or (end := edge(dimension, value)) is None:
            continue
        beyond = _beyond(dimension, end)
        if _is_legal(plan, {**winner.values, key: beyond}):
            lines.append(
                f"{key}={as_typed(value)} lies at the {end} end of {dimension.written}: the best may lie beyond it. "
                "Widen the range and type the same command again; finished trials are kept."
            )
    return lines


def edge(dimension: Dimension, value: object) -> str | None:
    """Returns at which end of its range a number lies, `lower` or `upper`; None where at neither."""
    if isinstance(dimension.distribution, CategoricalDistribution) or dimension.distribution.single():
        return None
    assert isinstance(value, int | float)
    if dimension.zero and value == 0:  # 0 is a point of its own, and no smaller value is legal
        return None
    share = _share(dimension, value)
    if share <= EDGE + 1e-9:
        return None if dimension.zero else "lower"  # the range continues at 0
    return "upper" if share >= 1 - EDGE - 1e-9 else None


def _share(dimension: Dimension, value: float) -> float:
    """How much of a range lies below a value, on the range's own scale and without the point 0."""
    low, high, log = _range(dimension)
    return math.log(value / low) / math.log(high / low) if log else (value - low) / (high - low)


def _range(dimension: Dimension) -> tuple[float, float, bool]:
    distribution = dimension.distribution
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    return dimension.floor if dimension.zero else distribution.low, distribution.high, distribution.log


def _beyond(dimension: Dimension, end: str) -> float | int:
    """A value slightly beyond an end of a range."""
    distribution = dimension.distribution
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high, log = _range(dimension)
    if distribution.step is not None:
        beyond = low - distribution.step if end == "lower" else high + distribution.step
        return int(beyond) if isinstance(distribution, IntDistribution) else float(beyond)
    if log:
        factor: float = (high / low) ** EDGE
        return low / factor if end == "lower" else high * factor
    return low - EDGE * (high - low) if end == "lower" else high + EDGE * (high - low)


def _is_legal(plan: Plan, values: Mapping[str, object]) -> bool:
    try:
        read_request(plan.arguments(values))  # type: ignore[arg-type]
    except SettingError:
        return False
    except UserError:
        return True
    return True


def noise(
    plan: Plan, folder: Path, records: Sequence[Record], winner: Record, confirmed: Mapping[str, Any] | None = None
) -> list[str]:
    """Returns a message where the best trial is within the noise of others, as far as seeds show it.

    With `repeats` the best and the second are compared over their seeds; with `confirm` the spread of the confirmed
    seeds is what two single runs may differ by.

    Args:
        plan: The sweep.
        folder: The study's folder.
        records: Its trials.
        winner: The best one.
        confirmed: The result of `confirm=` for its setting.
    """
    if len(plan.objectives) > 1:
        return []
    [objective] = plan.objectives
    sign = 1.0 if objective.mode == "max" else -1.0
    scores = {
        record.number: sign * record.objectives[0]
        for record in records
        if record.state == "complete" and record.objectives and record.number != winner.number
    }
    if not scores or not winner.objectives:
        return []
    second = max(scores, key=scores.__getitem__)
    if plan.repeats > 1:
        best, other = (_by_seed(folder / TRIALS / str(number), objective) for number in (winner.number, second))
        return _paired(
            winner.number, second, [sign * (best[seed] - other[seed]) for seed in best.keys() & other.keys()]
        )
    values = (confirmed or {}).get("metrics", {}).get(objective.metric, {}).get("values", [])
    leads = [sign * winner.objectives[0] - score for score in scores.values()]
    return _spread(winner.number, objective.metric, values, leads)


def _paired(winner: int, second: int, leads: Sequence[float]) -> list[str]:
    """Whether one trial is better than another over the same seeds."""
    if len(leads) < 2:
        return []
    low, high = mean_interval(leads)
    if low > 0:
        return []
    return [
        f"Trial {winner} is not significantly better than trial {second}: over {len(leads)} seeds it leads by "
        f"{statistics.fmean(leads):.4f}, with a 95% interval from {low:.4f} to {high:.4f}."
    ]


def _spread(winner: int, metric: str, values: Sequence[float], leads: Sequence[float]) -> list[str]:
    """How many trials are so close to the best one that the seed alone could make the difference."""
    if len(values) < 2:
        return []
    low, high = mean_interval(values)
    # The interval is that of a mean of so many runs; two single runs differ by the root of 2 times a run's spread.
    spread = (high - low) / 2 * math.sqrt(2 * len(values))
    if not (close := sum(lead <= spread for lead in leads)):
        return []
    trials = "1 other trial" if close == 1 else f"{close} other trials"
    return [
        f"Trial {winner} is not significantly better than {trials}: by {len(values)} seeds of its setting, two runs "
        f"may differ by {spread:.4f} in {metric} through their seeds alone."
    ]


def _by_seed(directory: Path, objective: Objective) -> dict[int, float]:
    """An objective of each run of a trial, by its seed."""
    values = {result["seed"]: metric_of(result, objective.metric) for result in results(directory)}
    return {seed: value for seed, value in values.items() if value is not None}
