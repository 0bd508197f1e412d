"""A verdict over data sets: the mean difference of two settings over three data sets or more, and the differences.

The mean is not weighted. Its error comes from how the differences d_1, ..., d_K vary between the data sets, with
Student's t and K - 1 degrees of freedom, which holds for any errors of the single differences (Ibragimov and Mueller
2010).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

import numpy as np

from sentattn.compare.comparison import Comparison, Pair
from sentattn.compare.metric import Metric
from sentattn.compare.statistics import LEVEL, Estimate, Term, half_width
from sentattn.config.schema import SEEDS
from sentattn.errors import Fault, RunError, SettingError

FEWEST_DATA, FEWEST_PREDICTED = 3, 5
"""Data sets of a verdict, and of an interval for a further data set."""
HASH = re.compile("[0-9a-f]{16}")
"""The name of a row that is the hash of its text and label."""


@dataclass(frozen=True)
class Overall:
    """A pair of settings over data sets.

    Attributes:
        by_data: The test of the pair on each data set, all of one family.
        mean: The test of the mean difference.
        margin: In the unit of the metric.
    """

    by_data: Mapping[str, Pair]
    mean: Pair
    margin: float

    @property
    def metric(self) -> Metric:
        """What is compared."""
        return self.mean.first.metric

    @property
    def results(self) -> list[str]:
        """On each data set win, tie or loss of the first setting, by the interval of the family."""
        return [
            {"better": "win", "worse": "loss"}.get(pair.verdict.split()[0], "tie") for pair in self.by_data.values()
        ]

    @property
    def message(self) -> str:
        """The result in words."""
        wins, ties, losses = map(self.results.count, ("win", "tie", "loss"))
        values = [pair.estimate.value for pair in self.by_data.values()]
        spread, count = float(np.std(values, ddof=1)), len(values)
        text = f"{self.mean.message(self.margin)} {self.mean.first.name}: wins {wins}, ties {ties}, losses {losses}; "
        text += f"standard deviation between data sets {self.metric.difference(spread)}{self.metric.unit}."
        if count >= FEWEST_PREDICTED:
            half = half_width([Term(spread**2 * (1 + 1 / count), count - 1)], LEVEL / 2)
            low, high = (self.metric.difference(self.mean.estimate.value + end) for end in (-half, half))
            text += f" A further data set would lie between {low} and {high} (95%) if data sets were a random sample, "
            text += "which they are not."
        return text

    def rows(self) -> list[list[str]]:
        """Returns a heading, and a row for each data set and for the mean."""
        rows = [["data", "result", "difference", "interval"]]
        pairs, results = {**self.by_data, "mean": self.mean}, [*self.results, ""]
        for (name, pair), result in zip(pairs.items(), results, strict=True):
            low, high = map(self.metric.difference, pair.intervals[0])
            confidence = f"{100 * (1 - pair.level):.3g}%: {low} to {high}"
            rows.append([name, result, self.metric.difference(pair.estimate.value, "+"), confidence])
        return rows


def common_texts(comparisons: Sequence[Comparison]) -> Fault | None:
    """Returns an error if a data set holds texts of another, so that there is no verdict over both."""
    for first, second in combinations(comparisons, 2):
        ids = [set(each.rows.row_ids) if HASH.fullmatch(each.rows.row_ids[0]) else set() for each in (first, second)]
        if common := len(ids[0] & ids[1]):
            message = f"{first.title} and {second.title} have {common:,} texts in common: no verdict over data sets. "
            return Fault("runs", "conflict", f"{message}Leave one out, by where= or by folder.")
    return None


def nothing_shared(comparisons: Sequence[Comparison]) -> Fault | None:
    """Returns an error if data sets have declared pairs, but none is on enough of them for a verdict over them."""
    has_pairs = any(pair.declared for comparison in comparisons for pair in comparison.tests)
    if len(comparisons) < FEWEST_DATA or not has_pairs or _shared(comparisons):
        return None
    message = f"No declared pair has the same names on {FEWEST_DATA} data sets: no verdict over data sets. "
    return Fault("runs", "missing", f"{message}Choose the same settings on each, by where= or folders, or type plan=.")


def of_one_family(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Returns comparisons whose declared pairs are one family, where some are tested on three data sets or more."""
    if not _shared(comparisons):
        return list(comparisons)
    number = sum(pair.declared for comparison in comparisons for pair in comparison.tests)
    return [replace(comparison, family=number) for comparison in comparisons]


def over_data_sets(comparisons: Sequence[Comparison]) -> list[Overall]:
    """Returns the verdict over data sets of each declared pair that is tested on three of them or more.

    The means are one family, and the differences on all data sets another (`of_one_family`).
    """
    shared = _shared([comparison for comparison in comparisons if comparison.family])
    found = []
    for by_data in shared:
        # A name has more words where a data set has more settings.
        first = min(by_data.values(), key=lambda pair: len(pair.first.name + pair.second.name))
        margin, basis = comparisons[0].share_of_margin, f"{len(by_data)} data sets"
        mean = mean_of([pair.estimate for pair in by_data.values()])
        tested = Pair.of((first.first, first.second), mean, margin, len(shared), declared=True, basis=basis)
        found.append(Overall(by_data, tested, comparisons[0].margin))
    return found


def mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """Returns the mean of a difference over data sets."""
    values = np.array([estimate.value for estimate in estimates])
    term = Term(float(values.var(ddof=1)) / len(values), len(values) - 1)
    return Estimate(float(values.mean()), [term], estimates[0].bounds)


def _shared(comparisons: Sequence[Comparison]) -> list[dict[str, Pair]]:
    """Returns the tests of each declared pair that is tested on enough data sets, by the name of the data."""
    tests: dict[object, dict[str, Pair]] = {}
    for comparison in comparisons if len(comparisons) >= FEWEST_DATA else ():
        for pair in comparison.tests:
            if pair.declared:
                tests.setdefault(_place(comparison, pair), {})[comparison.data] = pair
    return [by_data for by_data in tests.values() if len(by_data) >= FEWEST_DATA]


def _place(comparison: Comparison, pair: Pair) -> object:
    """Returns what a pair is on any data set: its place in the plan, since names may differ; else those names."""
    if comparison.plan is None:
        return pair.first.name, pair.second.name
    return [first is pair.first and second is pair.second for first, second in comparison.plan.pairs].index(True)


def gate(comparisons: Sequence[Comparison], typed: str) -> tuple[bool, str]:
    """Tests whether a setting is not worse than another by more than the margin, one-sided at 5%.

    Of several data sets the mean is tested.

    Args:
        comparisons: One, or three or more.
        typed: The names of the new and the old setting, with a comma between.

    Returns whether it is not worse, and the result in words.

    Raises:
        SettingError: If there are no such settings, they have too few seeds or rows, or there are two data sets.
        RunError: If a data set holds texts of another.
    """
    estimates = [_of_gate(comparison, typed) for comparison in comparisons]
    if len(estimates) == 2:
        raise SettingError(Fault("gate", "conflict", f"gate takes one data set, or {FEWEST_DATA} or more, not 2."))
    if fault := common_texts(comparisons):
        raise RunError(fault)
    estimate = estimates[0] if len(estimates) == 1 else mean_of(estimates)
    first, metric = comparisons[0], comparisons[0].metric
    passes = estimate.p_worse(first.share_of_margin) < LEVEL
    where = f" on average over {len(estimates)} data sets" if len(estimates) > 1 else ""
    result = "passed: not worse by more than" if passes else "failed: not shown to be within"
    text = f"Gate {result} {first.margin:g}{metric.unit}{where}. {typed}: {metric.difference(estimate.value, '+')}"
    least = f"at least {metric.difference(estimate.interval(1 - 2 * LEVEL)[0], '+')}"
    basis = "; approximately" if any(comparison.folds for comparison in comparisons) else ""
    return passes, f"{text}, {least} (95%, one-sided; a family of one{basis})."


def _of_gate(comparison: Comparison, typed: str) -> Estimate:
    """Returns the difference of two settings that are named in one text, since names may have commas."""
    pairs = {
        f"{new.name},{old.name}".replace(", ", ","): (new, old) for new, old in permutations(comparison.settings, 2)
    }
    pair = pairs.get(typed.replace(", ", ","))
    if pair is None:
        names = "; ".join(setting.name for setting in comparison.settings)
        message = f"gate={typed}: type gate=NEW,OLD with two settings of {comparison.title}: {names}."
        raise SettingError(Fault("gate", "unknown", message))
    estimate = comparison.difference(*pair)
    if estimate is None:
        message = f"gate={typed}: {comparison.title} has too few seeds or rows of a class for a test: {SEEDS} seeds of "
        message += "each setting, or none in a table of single models."
        raise SettingError(Fault("gate", "missing", message))
    return estimate
