"""Analysis of the trials of a study: the best setting, importance of each setting, and cautions."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from sentattn.config.request import read_request
from sentattn.config.schema import SEEDS
from sentattn.config.search_space import Dimension, Value, is_one_of
from sentattn.config.types import as_typed
from sentattn.console import plural
from sentattn.errors import SettingError, UserError, first_line
from sentattn.sweep.report import artifacts
from sentattn.sweep.spec.components import quiet
from sentattn.sweep.spec.plan import Objective, metric_of
from sentattn.sweep.study import records as trials
from sentattn.sweep.study.records import Record, front

if TYPE_CHECKING:
    from sentattn.sweep.spec.plan import Plan

D = TypeVar("D")
T = TypeVar("T")
MIN_TRIALS = 4
EDGE = 0.05
"""Share of a range, on its own scale, that counts as its edge; of integers the last one always does."""
MIN_COMPLETE, MIN_COMPLETE_PER_SETTING = 10, 2
MANY_FAILED = 0.2


class Findings:
    """The analysis of a study.

    Attributes:
        complete: The complete trials.
        front: The best trial; with several objectives the Pareto front, most balanced first.
        importances: For each objective the share of each setting.
        confirmed: The content of `confirm.json`; None where the best setting is not confirmed.
        cautions: Messages about limits of the results.
        failures: Error messages of sections of the report that failed, by name.
    """

    def __init__(self, plan: Plan, folder: Path, records: Sequence[Record]) -> None:
        self.plan, self.folder, self.records = plan, folder, records
        self.complete = [record for record in records if record.state == "complete"]
        self.front = front(records, plan.modes)
        self.failures: dict[str, str] = {}
        self.importances = [
            self.attempt("Importance", partial(importances, records, plan, index), {})
            for index in range(len(plan.objectives))
        ]
        self.confirmed = artifacts.find_confirmed(folder, self.front[0].number) if self.front else None
        self.cautions: list[str] = []
        for check in CHECKS:
            self.cautions += self.attempt("Be careful", partial(list, check(self)), [])

    def attempt(self, name: str, make: Callable[[], T], default: D) -> T | D:
        """Returns the result of `make`; an error of any kind is recorded, and the default returned."""
        try:
            return make()
        except Exception as error:  # no part of a report may end a sweep
            self.failures[name] = first_line(error)
            return default


def as_study(
    records: Sequence[Record], space: Mapping[str, Dimension], objectives: Sequence[Objective], index: int | None = None
) -> optuna.Study:
    """Returns trials as an Optuna study in memory, with one of the objectives or all; the n-th record is trial n.

    Interrupted trials are failed trials there, as they take part in no comparison.
    Parameters outside of `space` are left out; they have the values that the sampler drew: the point 0 of a log range
    is a small number.
    """
    quiet()
    taken = slice(None) if index is None else slice(index, index + 1)
    directions = [trials.DIRECTIONS[objective.mode] for objective in objectives[taken]]
    study = optuna.create_study(storage=optuna.storages.InMemoryStorage(), directions=directions)
    states = {name: state for state, name in trials.STATES.items()}
    for record in records:
        is_complete = record.state == "complete"
        values = {key: value for key, value in record.values.items() if is_complete and key in space}
        trial = create_trial(
            state=states.get(record.state, TrialState.FAIL),
            values=list((record.objectives or ())[taken]) if is_complete else None,
            params={key: space[key].drawn(value) for key, value in values.items()},
            distributions={key: space[key].distribution for key in values},
            intermediate_values={step: value for step, value in record.steps.items() if math.isfinite(value)},
        )
        study.add_trial(trial)
    return study


def importances(records: Sequence[Record], plan: Plan, index: int) -> dict[str, float]:
    """Measures how much each setting matters for the objective with this index, by PED-ANOVA (Watanabe et al. 2023).

    Returns:
        Shares of 1, of which the largest comes first; empty with too few or equal trials.
    """
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    complete = [record for record in records if record.state == "complete" and record.objectives and record.values]
    if len(complete) < MIN_TRIALS or len({record.objectives[index] for record in complete if record.objectives}) == 1:
        return {}
    study = as_study(complete, plan.space, plan.objectives, index)
    return dict(get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()))


def _few_trials(findings: Findings) -> Iterator[str]:
    complete, settings = len(findings.complete), len(findings.plan.space)
    enough = max(MIN_COMPLETE, MIN_COMPLETE_PER_SETTING * settings)
    if complete < enough:
        counts = f"{plural(complete, 'complete trial')} for {plural(settings, 'setting')}"
        yield f"Only {counts}: importances may be due to chance. Run at least {enough}."


def _untried_choices(findings: Findings) -> Iterator[str]:
    for key, dimension in findings.plan.space.items():
        tried = [record.values[key] for record in findings.complete if key in record.values]
        untried = [value for value in dimension.ends() if not is_one_of(value, tried)]
        if tried and untried and dimension.is_categorical:
            choices = " or ".join(as_typed(value) for value in untried)
            yield f"No trial with {key}={choices} is complete: the study does not measure it."


def _pruned_and_failed(findings: Findings) -> Iterator[str]:
    counts = Counter(record.state for record in findings.records)
    finished = counts["complete"] + counts["pruned"]
    if 2 * counts["pruned"] > finished:
        yield (
            f"{counts['pruned']} of {finished} finished trials were pruned: importances rest on the others, which are "
            "the good ones. pruner=none runs all trials to their end."
        )
    errors = Counter(record.error.partition("\n")[0] for record in findings.records if record.error)
    if errors.total() > MANY_FAILED * len(findings.records):
        yield (
            f"{errors.total()} of {len(findings.records)} trials failed or diverged, most often: "
            f"{errors.most_common(1)[0][0]}. Where that depends on a setting, its range looks better than it is."
        )


def _edges(findings: Findings) -> Iterator[str]:
    """The numbers of the best trial at an end of their range beyond which values are legal."""
    plan, values = findings.plan, findings.front[0].values if findings.front else {}
    for key, value in values.items():
        if key in plan.space and (end := edge(plan.space[key], value)):
            try:
                read_request(plan.arguments({**values, key: end[1]}))
            except SettingError:
                continue
            except UserError:
                pass  # of something else
            yield (
                f"{key}={as_typed(value)} lies at the {end[0]} end of {plan.space[key].written}: the best may lie "
                f"beyond it. Search a wider range with study=NEW warm_start={plan.study}, which adds these trials."
            )


def edge(dimension: Dimension, value: Value) -> tuple[str, float | int] | None:
    """Returns the end of its range at which a number lies, `lower` or `upper`, and a value slightly beyond it."""
    distribution = dimension.distribution
    if isinstance(distribution, CategoricalDistribution) or distribution.single() or (dimension.zero and value == 0):
        return None  # 0 is a point of its own, and no smaller value is legal
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    assert isinstance(value, int | float)
    low, high, step = dimension.floor if dimension.zero else distribution.low, distribution.high, distribution.step
    scale, inverse = (math.log, math.exp) if distribution.log else (float, float)
    bottom, length = scale(low), scale(high) - scale(low)
    share = (scale(value) - bottom) / length
    if share >= 1 - EDGE - 1e-9:
        return "upper", high + step if step else inverse(bottom + (1 + EDGE) * length)
    if share <= EDGE + 1e-9 and not dimension.zero:  # there the range continues at 0
        return "lower", low - step if step else inverse(bottom - EDGE * length)
    return None


def _noise(findings: Findings) -> Iterator[str]:
    """With `repeats` the best and the second are compared over their seeds; else trials by the spread of `confirm`."""
    plan = findings.plan
    if len(plan.objectives) > 1 or len(findings.complete) < 2:
        return
    [objective], winner = plan.objectives, findings.front[0].number
    sign = 1.0 if objective.mode == "max" else -1.0
    scores = {record.number: sign * record.objectives[0] for record in findings.complete if record.objectives}
    best = scores.pop(winner)
    if plan.repeats > 1:
        second = max(scores, key=scores.__getitem__)
        runs = [artifacts.results(artifacts.directory(findings.folder, number)) for number in (winner, second)]
        first, other = ({result["seed"]: metric_of(result, objective.metric) for result in results} for results in runs)
        pairs = [(first[seed], other[seed]) for seed in first.keys() & other.keys()]
        leads = [sign * (mine - its) for mine, its in pairs if mine is not None and its is not None]
        if len(leads) >= SEEDS and (interval := artifacts.mean_interval(leads))[0] <= 0:
            yield (
                f"Trial {winner} is not significantly better than trial {second}: over {len(leads)} seeds it leads by "
                f"{statistics.fmean(leads):.4f}, with a 95% interval from {interval[0]:.4f} to {interval[1]:.4f}."
            )
    values = (findings.confirmed or {}).get("metrics", {}).get(objective.metric, {}).get("values", [])
    if plan.repeats == 1 and len(values) > 1:
        low, high = artifacts.mean_interval(values)
        # The interval is that of a mean of so many runs; two single runs differ by the root of 2 times a run's spread.
        spread = (high - low) / 2 * math.sqrt(2 * len(values))
        if close := sum(best - score <= spread for score in scores.values()):
            yield (
                f"Trial {winner} is not significantly better than {plural(close, 'other trial')}: by {len(values)} "
                f"seeds of its setting, two runs may differ by {spread:.4f} in {objective.metric} through seeds alone."
            )


CHECKS = (_few_trials, _untried_choices, _pruned_and_failed, _edges, _noise)
