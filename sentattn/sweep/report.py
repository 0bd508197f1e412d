"""`report.html`: a study as one page that needs no network: best setting, cautions, importances, Optuna's figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import optuna
import plotly.graph_objects as go
from optuna import Study
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import TrialState, create_trial
from optuna.visualization import plot_intermediate_values, plot_optimization_history, plot_pareto_front, plot_slice

from sentattn.compare.statistics import LEVEL, half_width, seed_term
from sentattn.config.request import read_request
from sentattn.config.search_space import Dimension, Value
from sentattn.config.types import as_typed, short_names
from sentattn.console import plural
from sentattn.errors import SettingError, UserError, first_line
from sentattn.jobs.progress import format_objective
from sentattn.rendering.html import draw, layout, plotly_script, render, safe
from sentattn.run import REPORT_FILE, write_atomically
from sentattn.sweep.artifacts import (
    BEST_FILE,
    find_confirmed,
    train_arguments,
    train_command,
    trial_table,
    write_table,
)
from sentattn.sweep.plan import Objective, Plan, quiet
from sentattn.sweep.records import DIRECTIONS, STATE_NAMES, Record, front

D = TypeVar("D")
T = TypeVar("T")
Chart: TypeAlias = tuple[str, go.Figure]
"""A figure with its title, plain text that may be empty."""
MAX_TRIALS = 500
"""Trials in the table, the best ones and the last others, and in figures, the best ones and every n-th other one."""
MIN_TRIALS = 4
EDGE = 0.05
"""Share of a range, on its own scale, that counts as its edge; of integers the last one always does."""
MIN_COMPLETE, MIN_COMPLETE_PER_SETTING = 10, 2


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
        self.confirmed = find_confirmed(folder, self.front[0].number) if self.front else None
        self.cautions: list[str] = []
        for check in (_few_trials, _edges, _noise):
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
    directions = [DIRECTIONS[objective.mode] for objective in objectives[taken]]
    study = optuna.create_study(storage=optuna.storages.InMemoryStorage(), directions=directions)
    states = {name: state for state, name in STATE_NAMES.items()}
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
                f"beyond it. Search a wider range with study=NEW."
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
    """Other trials that are as good as the best one by the spread of its confirmed seeds."""
    plan = findings.plan
    if not findings.confirmed or plan.repeats > 1:
        return
    [objective], winner = plan.objectives, findings.front[0].number
    reached = findings.confirmed.metrics.get(objective.metric)
    values = reached.values if reached else []
    scores = {record.number: record.objectives[0] for record in findings.complete if record.objectives}
    best = scores.pop(winner)
    if len(values) > 1:
        # Of a mean of so many runs; two single runs differ by the root of 2 times a run's spread.
        spread = float(half_width([seed_term(np.array(values))], LEVEL / 2)) * math.sqrt(2 * len(values))
        if close := sum(abs(best - score) <= spread for score in scores.values()):
            yield (
                f"Trial {winner} is not significantly better than {plural(close, 'other trial')}: by {len(values)} "
                f"seeds of its setting, two runs may differ by {spread:.4f} in {objective.metric} through seeds alone."
            )


class Charts:
    """The figures of a study, whose n-th record has number n. The point 0 of a log range is a small number in them."""

    def __init__(self, plan: Plan, records: Sequence[Record], front: Sequence[Record]) -> None:
        self._objectives, self._repeats = plan.objectives, plan.repeats
        self._metrics = [safe(objective.metric) for objective in plan.objectives]
        self._best = {record.number for record in front}
        self._space = {key: _with_texts(dimension) for key, dimension in plan.space.items()}
        choices = {key for key, dimension in plan.space.items() if dimension.is_categorical}
        # Of too many trials the others keep their place, and are not drawn.
        drawn = self._best | {record.number for record in records[:: max(1, -(-len(records) // MAX_TRIALS))]}
        self._records = [
            replace(
                record,
                values={k: safe(as_typed(v)) if k in choices else v for k, v in record.values.items()},
                state=record.state if record.number in drawn else "interrupted",
                steps=record.steps if record.number in drawn else {},
            )
            for record in records
        ]
        self._complete = [record for record in self._records if record.state == "complete"]

    def history(self) -> list[Chart]:
        """The value of each trial and the best so far, for each objective."""
        return [
            (self._title(index), _styled(plot_optimization_history(self._study(index), target_name=metric), 340))
            for index, metric in enumerate(self._metrics if self._complete else ())
        ]

    def pareto(self) -> list[Chart]:
        """Each pair of objectives, with the trials on the Pareto front."""
        charts = []
        for pair in combinations(range(len(self._objectives)), 2) if self._best else ():
            objectives = [self._objectives[index] for index in pair]
            reached = [record.objectives and tuple(record.objectives[n] for n in pair) for record in self._records]
            records = [replace(record, objectives=o) for record, o in zip(self._records, reached, strict=True)]
            names = [f"{safe(objective.metric)} ({objective.mode})" for objective in objectives]
            study = as_study(records, self._space, objectives)
            charts.append(("", _styled(plot_pareto_front(study, target_names=names), 380)))
        return charts

    def importances(self, measured: Sequence[Mapping[str, float]]) -> list[Chart]:
        """Importances for each objective."""
        charts = []
        for index, shares in enumerate(measured):
            if shares:
                bars = go.Figure(go.Bar(x=[*shares.values()], y=[*shares], orientation="h"))
                bars.update_yaxes(autorange="reversed")  # the first is at the top
                charts.append((self._title(index), _styled(bars, 110 + 30 * len(shares))))
        return charts

    def slices(self) -> list[Chart]:
        """Each objective over each setting that two trials have; a single point shows nothing."""
        charts = []
        for (index, metric), key in product(enumerate(self._metrics), self._space):
            if (count := sum(key in record.values for record in self._complete)) > 1:
                figure = _styled(plot_slice(self._study(index), [key], target_name=metric), 240)
                missing, total = len(self._complete) - count, len(self._complete)
                unset = f", not set in {missing} of {total} trials" if missing else ""
                charts.append((f"{self._title(index, ': ')}{key}{unset}", figure))
        return charts

    def curves(self) -> list[Chart]:
        """The objective of each trial after each epoch or repeat; none where no trial has two values."""
        if len(self._objectives) > 1 or all(len(record.steps) < 2 for record in self._records):
            return []
        step = "repeat" if self._repeats > 1 else "epoch"
        figure = _styled(plot_intermediate_values(self._study(0)), 360)
        return [("", figure.update_layout(xaxis_title=step, yaxis_title=self._metrics[0]))]

    def _study(self, index: int) -> Study:
        """The trials as a study with one of the objectives."""
        return as_study(self._records, self._space, self._objectives, index)

    def _title(self, index: int, end: str = "") -> str:
        return f"{self._objectives[index].metric}{end}" if len(self._objectives) > 1 else ""


def _with_texts(dimension: Dimension) -> Dimension:
    """A dimension whose choices are texts that plotly shows as they are."""
    if not isinstance(dimension.distribution, CategoricalDistribution):
        return dimension
    texts = [safe(as_typed(choice)) for choice in dimension.distribution.choices]
    return replace(dimension, distribution=CategoricalDistribution(texts))


def _styled(figure: go.Figure, height: int) -> go.Figure:
    # More numbers overlap on a narrow screen.
    return figure.update_layout(layout(height)).update_xaxes(nticks=3, selector={"type": "log"})


def write_report(plan: Plan, folder: Path, records: Sequence[Record]) -> list[str]:
    """Writes `trials.parquet` and `report.html` of a study; returns a line for each part that cannot be drawn.

    Raises:
        OSError: If they cannot be written.
    """
    write_table(folder, records, plan)
    try:
        findings = Findings(plan, folder, records)
        text = page(findings)
    except Exception as error:  # no page keeps a sweep from its end
        return [f"{folder / REPORT_FILE} is not up to date: {first_line(error)}."]
    write_atomically(folder / REPORT_FILE, text)
    return [f"{folder / REPORT_FILE}: {name} is missing: {message}." for name, message in findings.failures.items()]


def page(findings: Findings) -> str:
    """Returns `report.html`, a study in one file, with plotly's script in it once."""
    plan, charts = findings.plan, Charts(findings.plan, findings.records, findings.front)
    figures = {
        "History": charts.history,
        "Pareto front": charts.pareto,
        "Importance": lambda: charts.importances(findings.importances),
        "Slices": charts.slices,
        "Learning curves": charts.curves,
    }

    def drawn(heading: str) -> list[tuple[str, str]]:
        name = heading.lower().replace(" ", "-")
        return [(title, draw(figure, f"{name}-{n}")) for n, (title, figure) in enumerate(figures[heading]())]

    names = short_names(plan.space)
    best, last = {record.number for record in findings.front}, len(findings.records) - MAX_TRIALS
    listed = [record for n, record in enumerate(findings.records) if record.number in best or n >= last]
    table = {name: [*map(as_text, cells)] for name, cells in trial_table(plan, findings.folder, listed).items()}
    table = {name: cells for name, cells in table.items() if name != "directory" and any(cells)}
    return render(
        "sentattn.sweep",
        "report.html",
        findings=findings,
        plan=plan,
        states=Counter(record.state for record in findings.records),
        command=train_command(findings.folder / BEST_FILE, plan.overrides),
        arguments=" ".join(train_arguments(plan, findings.front[0].values)) if findings.front else "",
        charts={heading: findings.attempt(heading, partial(drawn, heading), []) for heading in figures},
        heading=[names.get(name, name) for name in table],
        rows=[*zip(*table.values(), strict=True)],
        as_text=as_text,
        format_objective=format_objective,
        as_typed=as_typed,
        plotly=plotly_script(),
    )


def as_text(value: object) -> str:
    """Returns a cell of the table: floats with six digits, of several lines the first, nothing for None."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value == int(value) and abs(value) >= 1000 else f"{value:.6g}"
    text = value if isinstance(value, str) else as_typed(value)
    return "" if value is None else text.partition("\n")[0]
