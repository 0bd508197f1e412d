"""`report.html`: a study as one page that needs no network: best setting, cautions, importances, Optuna's figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import plotly.graph_objects as go
from optuna import Study
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial
from optuna.visualization import plot_intermediate_values, plot_optimization_history, plot_pareto_front, plot_slice

from sentattn.compare.statistics import LEVEL, half_width, seed_term
from sentattn.config.request import read_request
from sentattn.config.search_space import Dimension, Value
from sentattn.config.types import as_typed, short_names
from sentattn.console import plural
from sentattn.errors import SettingError, UserError, first_line
from sentattn.jobs.progress import format_objective
from sentattn.rendering.html import draw, layout, plotly_script, render
from sentattn.run import REPORT_FILE, write_atomically
from sentattn.sweep.artifacts import (
    BEST_FILE,
    find_confirmed,
    train_arguments,
    train_command,
    trial_table,
    write_table,
)
from sentattn.sweep.plan import Plan, quiet
from sentattn.sweep.records import front, reached_by, started, state_of, values_of

D = TypeVar("D")
T = TypeVar("T")
Chart: TypeAlias = tuple[str, go.Figure]
"""A figure with its title, plain text that may be empty."""
MAX_TRIALS = 500
"""Trials in the table, the best ones and the last others; of more trials there are no learning curves."""
MIN_TRIALS = 4
EDGE = 0.05
"""Share of a range, on its own scale, that counts as its edge; of integers the last one always does."""
MIN_COMPLETE, MIN_COMPLETE_PER_SETTING = 10, 2


class Findings:
    """The analysis of a study.

    Attributes:
        trials: All trials in the order in which they started.
        complete: The complete trials.
        front: The best trial; with several objectives the Pareto front, most balanced first.
        best: What the first of them tried, by key; empty without a complete trial.
        importances: The share of each setting.
        confirmed: The content of `confirm.json`; None where the best setting is not confirmed.
        cautions: Messages about limits of the results.
        failures: Error messages of sections of the report that failed, by name.
    """

    def __init__(self, plan: Plan, folder: Path, study: Study) -> None:
        quiet()
        self.plan, self.folder, self.study = plan, folder, study
        self.trials, self.front = started(study), front(study)
        self.complete = [trial for trial in self.trials if reached_by(trial)]
        self.best = values_of(self.front[0], plan.space) if self.front else {}
        self.failures: dict[str, str] = {}
        self.importances = self.attempt("Importance", partial(importances, study), {})
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


def importances(study: Study) -> dict[str, float]:
    """Measures how much each setting matters by PED-ANOVA (Watanabe et al. 2023); of several objectives for the front.

    Returns:
        Shares of 1, of which the largest comes first; empty with too few or equal trials.
    """
    complete = [trial for trial in started(study) if reached_by(trial) and trial.params]
    if len(complete) < MIN_TRIALS or len({tuple(trial.values) for trial in complete}) == 1:
        return {}
    return dict(get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()))


def _few_trials(findings: Findings) -> Iterator[str]:
    complete, settings = len(findings.complete), len(findings.plan.space)
    enough = max(MIN_COMPLETE, MIN_COMPLETE_PER_SETTING * settings)
    if complete < enough:
        counts = f"{plural(complete, 'complete trial')} for {plural(settings, 'setting')}"
        yield f"Only {counts}: importances may be due to chance. Run at least {enough}."


def _edges(findings: Findings) -> Iterator[str]:
    """The numbers of the best trial at an end of their range beyond which values are legal."""
    plan = findings.plan
    for key, value in findings.best.items():
        if end := edge(plan.space[key], value):
            try:
                read_request(plan.arguments({**findings.best, key: end[1]}))
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
    [objective], [winner] = plan.objectives, findings.front
    reached = findings.confirmed.metrics.get(objective.metric)
    values = reached.values if reached else []
    if len(values) > 1:
        # Of a mean of so many runs; two single runs differ by the root of 2 times a run's spread.
        spread = float(half_width([seed_term(np.array(values))], LEVEL / 2)) * math.sqrt(2 * len(values))
        others = (trial for trial in findings.complete if trial.number != winner.number)
        if close := sum(abs(winner.values[0] - trial.values[0]) <= spread for trial in others):
            better = f"Trial {winner.number} is not significantly better than {plural(close, 'other trial')}"
            differ = f"two runs may differ by {spread:.4f} in {objective.metric} through seeds alone"
            yield f"{better}: by {len(values)} seeds of its setting, {differ}."


class Charts:
    """The figures of a study. The point 0 of a log range is a small number in them."""

    def __init__(self, plan: Plan, study: Study) -> None:
        self._study, self._space, self._repeats = study, plan.space, plan.repeats
        self._metrics = [objective.metric for objective in plan.objectives]
        self._axes = [f"{objective.metric} ({objective.mode})" for objective in plan.objectives]
        self._trials = started(study)
        self._complete = [trial for trial in self._trials if reached_by(trial)]

    def history(self) -> list[Chart]:
        """The value of each trial for each objective, and of a single objective the best so far."""
        charts = []
        for index, metric in enumerate(self._metrics if self._complete else ()):
            figure = plot_optimization_history(self._study, target=self._target(index), target_name=metric)
            charts.append((self._title(index), _styled(figure, 340)))
        return charts

    def pareto(self) -> list[Chart]:
        """Each pair of objectives, with the trials on the Pareto front."""
        pairs = combinations(range(len(self._metrics)), 2) if self._complete else ()
        return [("", _styled(self._pareto(*pair), 380)) for pair in pairs]

    def importances(self, shares: Mapping[str, float]) -> list[Chart]:
        """The importance of each setting."""
        if not shares:
            return []
        bars = go.Figure(go.Bar(x=[*shares.values()], y=[*shares], orientation="h"))
        bars.update_yaxes(autorange="reversed")  # the first is at the top
        return [("", _styled(bars, 110 + 30 * len(shares)))]

    def slices(self) -> list[Chart]:
        """Each objective over each setting that two trials have; a single point shows nothing."""
        charts = []
        for (index, metric), key in product(enumerate(self._metrics), self._space):
            if (count := sum(key in trial.params for trial in self._complete)) > 1:
                figure = plot_slice(self._study, [key], target=self._target(index), target_name=metric)
                missing, total = len(self._complete) - count, len(self._complete)
                unset = f", not set in {missing} of {total} trials" if missing else ""
                charts.append((f"{self._title(index, ': ')}{key}{unset}", _styled(figure, 240)))
        return charts

    def curves(self) -> list[Chart]:
        """The objective of each trial after each epoch or repeat; none where no trial has two values."""
        steps = [len(trial.intermediate_values) for trial in self._trials]
        if len(self._metrics) > 1 or max(steps, default=0) < 2 or len(steps) > MAX_TRIALS:
            return []
        step = "repeat" if self._repeats > 1 else "epoch"
        figure = _styled(plot_intermediate_values(self._study), 360)
        return [("", figure.update_layout(xaxis_title=step, yaxis_title=self._metrics[0]))]

    def _pareto(self, first: int, second: int) -> go.Figure:
        def both(trial: FrozenTrial) -> list[float]:
            return [trial.values[first], trial.values[second]]

        names = [self._axes[first], self._axes[second]]
        return plot_pareto_front(self._study, targets=both, target_names=names)

    def _target(self, index: int) -> Callable[[FrozenTrial], float] | None:
        """What Optuna draws of a trial; None for a single objective, which it draws with the best so far."""
        return (lambda trial: float(trial.values[index])) if len(self._metrics) > 1 else None

    def _title(self, index: int, end: str = "") -> str:
        return f"{self._metrics[index]}{end}" if len(self._metrics) > 1 else ""


def _styled(figure: go.Figure, height: int) -> go.Figure:
    # More numbers overlap on a narrow screen.
    return figure.update_layout(layout(height)).update_xaxes(nticks=3, selector={"type": "log"})


def write_report(plan: Plan, folder: Path, study: Study) -> list[str]:
    """Writes `trials.parquet` and `report.html` of a study; returns a line for each part that cannot be drawn.

    Raises:
        OSError: If they cannot be written.
    """
    write_table(plan, folder, started(study))
    try:
        findings = Findings(plan, folder, study)
        text = page(findings)
    except Exception as error:  # no page keeps a sweep from its end
        return [f"{folder / REPORT_FILE} is not up to date: {first_line(error)}."]
    write_atomically(folder / REPORT_FILE, text)
    return [f"{folder / REPORT_FILE}: {name} is missing: {message}." for name, message in findings.failures.items()]


def page(findings: Findings) -> str:
    """Returns `report.html`, a study in one file, with plotly's script in it once."""
    plan, charts = findings.plan, Charts(findings.plan, findings.study)
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
    best, last = {trial.number for trial in findings.front}, len(findings.trials) - MAX_TRIALS
    listed = [trial for n, trial in enumerate(findings.trials) if trial.number in best or n >= last]
    table = {name: [*map(as_text, cells)] for name, cells in trial_table(plan, findings.folder, listed).items()}
    table = {name: cells for name, cells in table.items() if name != "directory" and any(cells)}
    return render(
        "sentattn.sweep",
        "report.html",
        findings=findings,
        plan=plan,
        states=Counter(map(state_of, findings.trials)),
        command=train_command(findings.folder / BEST_FILE, plan.overrides),
        arguments=" ".join(train_arguments(plan, findings.best)) if findings.front else "",
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
