"""A comparison: settings on the same rows, their leaderboard, the pairs that are tested, and the results in words."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sentattn.compare.folds import join_folds
from sentattn.compare.metric import ACCURACY, FEWEST_ROWS, MARGIN, Metric, find_metric
from sentattn.compare.pairs import Plan, SettingPair, best_against_reference, declared_indices
from sentattn.compare.runs import EvaluatedRun, Rows, Setting, group_by_setting, read_runs, rest, text_runs
from sentattn.compare.statistics import (
    AGREEMENT,
    FEW_DF,
    FEWEST_DF,
    LEVEL,
    Estimate,
    Verdict,
    adjusted,
    average,
    difference,
    verdict,
)
from sentattn.config.schema import FOLD, SEEDS
from sentattn.config.targets import needed_trust
from sentattn.console import plural
from sentattn.errors import Fault, RunError, SettingError, suggestion
from sentattn.metrics import majority_share
from sentattn.run import EVALUATED_SPLITS

if TYPE_CHECKING:
    from sentattn.compare.insight import Insight
    from sentattn.data.corpus import Split
    from sentattn.data.datamodule import TextData

TRAIN_SEED = "data.train_seed"
SEEDS_OF_POWER = 5
"""Fewer seeds say too little of their spread for a number of repetitions that would have found a difference."""
MOST_EXPLORED = 6
"""Number of settings up to which the best is tested against each other one by default."""


@dataclass(frozen=True)
class Pair:
    """Two settings, such as an attention and its baseline, and the tests of how much better the first is.

    The p-values are those of no difference and of a difference beyond the margin. Those of declared pairs are adjusted
    for their number, and `level` is that of the family over its number of pairs. `basis` is what the estimate comes
    from, where it is not the seeds of both settings.
    """

    first: Setting
    second: Setting
    declared: bool
    estimate: Estimate
    p_difference: float
    p_equivalence: float
    level: float
    verdict: Verdict
    basis: str = ""

    @classmethod
    def of(
        cls, settings: SettingPair, estimate: Estimate, margin: float, number: int, *, declared: bool, basis: str
    ) -> Pair:
        """Returns the tests of how much better the first setting is, as one of a number of pairs (Bonferroni)."""
        p, q = adjusted([estimate.p_difference(), estimate.p_equivalence(margin)], number)
        return cls(*settings, declared, estimate, p, q, LEVEL / number, verdict(estimate.centre, p, q), basis)

    @property
    def intervals(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The intervals that belong to the tests of a difference and of equivalence, at 1 - a and 1 - 2a."""
        return self.estimate.interval(1 - self.level), self.estimate.interval(1 - 2 * self.level)

    def message(self, margin: float) -> str:
        """Returns the result in words; a pair that was chosen after looking has no verdict.

        The margin has the unit of the metric: points, or the metric itself.
        """
        is_worse, metric = self.estimate.value < 0, self.first.metric
        better, worse = (self.second, self.first) if is_worse else (self.first, self.second)
        points = f"{metric.difference(abs(self.estimate.value))}{metric.unit}"
        of_difference, of_equivalence = (
            f"{100 * confidence:.3g}%: {metric.difference(low)} to {metric.difference(high)}"
            for confidence, ends in zip((1 - self.level, 1 - 2 * self.level), self.intervals, strict=True)
            for low, high in [(-ends[1], -ends[0]) if is_worse else ends]
        )
        counts = [len(setting.runs) for setting in (better, worse)]
        *others, last = dict.fromkeys(counts)
        seeds = self.basis or " and ".join([*map(str, others), plural(last, "seed")])
        if not self.declared:
            return f"{better.name} is above {worse.name} by {points} ({of_difference}; {seeds})."
        details = f"{of_difference}, {_p(self.p_difference)}; {seeds}"
        equivalent = f"{of_equivalence}, {_p(self.p_equivalence)}"
        beats = f"{better.name} beats {worse.name} by {points} ({details})"
        names = f"{self.first.name} and {self.second.name}"
        match self.verdict:
            case "better" | "worse":
                return f"{beats}."
            case "better within margin" | "worse within margin":
                return f"{beats}, less than the margin of {margin:g} ({equivalent})."
            case "equivalent":
                text = f"{names} are equivalent: they differ by {points} ({equivalent}; {seeds})"
                return f"{text}, less than the margin of {margin:g}."
            case "undecided":
                text = f"{better.name} and {worse.name}: undecided, {points} ({details})"
                if min(counts) < SEEDS_OF_POWER or self.basis:
                    return f"{text}."
                least = f"{metric.difference(self.estimate.detectable(self.level))}{metric.unit}"
                return f"{text}; about 8 of 10 repetitions would have found a true difference of {least}."


@dataclass(frozen=True)
class Comparison:
    """Settings that were evaluated on the same rows; each result is computed once, when it is first asked for.

    Attributes:
        runs: All runs on these rows, also those of a seed that was trained again.
        split: `test`, `val` or the name of an evaluation.
        metric: What settings are compared by.
        margin: The difference within which two settings count as equivalent, in points, hundredths of the metric; of
            a metric that may lie beyond -1 and 1 in its own unit.
        explore: Whether all pairs are tested, those that are not declared as exploratory.
        family: Number of declared pairs of all data sets, where there is a verdict over them; None for those of this.
        baseline: The setting that each other one is tested against; None for the pairs that settings declare.
        plan: The plan whose pairs are tested; None for the pairs that are declared by how settings differ.
        insights: Diagnostics of the settings' attentions.
        version: What distinguishes it from another comparison of the same data and split; else empty.
    """

    runs: Sequence[EvaluatedRun]
    split: str
    metric: Metric = ACCURACY
    margin: float = MARGIN
    explore: bool = False
    family: int | None = None
    baseline: str | None = None
    plan: Plan | None = None
    insights: Sequence[Insight] = ()
    version: str = ""

    @property
    def data(self) -> str:
        """Name of the data set."""
        return str(self.runs[0].result["data"])

    @property
    def title(self) -> str:
        """Name of the data with the split, or with the data set that the models were trained on."""
        if self.runs[0].is_of_table:
            return self.data
        evaluated = f"{self.split}, by models of {self.data}"
        title = f"{self.data}, split {self.split}" if self.split in EVALUATED_SPLITS else evaluated
        return f"{title}, {self.version}" if self.version else title

    @property
    def rows(self) -> Rows:
        """The rows."""
        return self.runs[0].rows

    @property
    def ordered(self) -> bool:
        """Whether classes are steps of a scale; references have no model that says it."""
        return any(run.ordered for run in self.runs)

    @cached_property
    def labels(self) -> Sequence[str]:
        """The names of the classes; their numbers where no run says them."""
        classes = self.runs[0].probabilities_NC.shape[1]
        named = (run.labels for run in self.runs if len(run.labels) == classes)
        return next(named, None) or [str(number) for number in range(classes)]

    @property
    def counts(self) -> str:
        """The numbers of rows and of groups, in words."""
        group_N = self.rows.group_N
        return f"{len(self.rows.labels_N):,} rows" + ("" if group_N is None else f" in {group_N.max() + 1:,} groups")

    @cached_property
    def majority(self) -> float:
        """Share of the rows of the largest class."""
        return majority_share(self.rows.labels_N)

    @property
    def folds(self) -> int:
        """In how many folds the rows were tested; 0 where they are the test rows of each training."""
        return len(self.runs[0].folds)

    def read_texts(self) -> tuple[TextData, Split]:
        """Reads the data set again, as `EvaluatedRun.read_data` does; returns it and the texts of the rows."""
        run = text_runs(self.settings)[0]
        if run.is_of_table:
            raise RunError(Fault("table", "missing", f"{self.title}: a table of predictions has no texts."))
        data = run.read_data(self.split)
        texts = data.split(self.split)
        if tuple(texts.row_id) != self.rows.row_ids:
            message = f"data={self.data} has other rows in split {self.split} than the runs."
            raise RunError(Fault("data.path", "conflict", message))
        return data, texts

    @cached_property
    def settings(self) -> list[Setting]:
        """The settings, in the order in which they were first trained."""
        return group_by_setting(self.runs, ordered=self.ordered, metric=self.metric)

    @cached_property
    def leaderboard(self) -> list[Setting]:
        """The settings, the best by the metric first."""
        return sorted(self.settings, key=lambda setting: float(setting.gains.mean()), reverse=True)

    @property
    def share_of_margin(self) -> float:
        """The margin as a difference of the metric."""
        return self.margin / self.metric.scale

    @property
    def declared(self) -> list[SettingPair]:
        """The pairs of the plan, or those that are equal in all but one component (`CONTRASTS`), and that of NB-SVM."""
        return self._declared[0]

    @cached_property
    def _declared(self) -> tuple[list[SettingPair], list[str]]:
        """The declared pairs, and remarks about pairs that are missing."""
        if self.plan is not None:
            return list(self.plan.pairs), []
        if self.baseline is not None:
            control = self.find(self.baseline, "baseline")
            return [(setting, control) for setting in self.settings if setting is not control], []
        if len(self.settings) == 2 and self.settings[-1].runs[0].is_of_table:
            return [(self.settings[0], self.settings[1])], []
        pairs, notes = best_against_reference(self.settings, self.split)
        trained_on = [setting.fingerprints for setting in self.settings]
        numbers = declared_indices([setting.settings for setting in self.settings], trained_on)
        return [*pairs, *((self.settings[first], self.settings[second]) for first, second in numbers)], notes

    def by(self, name: str, margin: float | None) -> Comparison:
        """Returns the comparison by another metric; a `SettingError` if there is none of this name."""
        metric = find_metric(
            name,
            self.labels,
            ordered=self.ordered or all(label.isdecimal() for label in self.labels),
            has_probabilities=all(run.has_probabilities for run in self.runs),
            has_score=all(run.score_N is not None for run in self.runs),
        )
        return replace(self, metric=metric, margin=metric.default_margin if margin is None else margin)

    def find(self, name: str, key: str) -> Setting:
        """Returns the setting of a name; a `SettingError` about an option if there is none."""
        names = [setting.name for setting in self.settings]
        if name not in names:
            message = f"{key}={name} is no setting of {self.title}: {'; '.join(names)}.{suggestion(name, names)}"
            raise SettingError(Fault(key, "unknown", message))
        return self.settings[names.index(name)]

    @cached_property
    def exploratory(self) -> list[SettingPair]:
        """The pairs that were not declared: all, or of few settings the best with each other one."""
        known = {_keys(pair) for pair in self.declared}
        pairs = list(combinations(self.settings, 2))
        if not self.explore:
            best = max(self.settings, key=lambda setting: (setting.has_seeds, float(setting.gains.mean())))
            few = len(self.settings) <= MOST_EXPLORED
            pairs = [(best, setting) for setting in self.settings if setting is not best and few]
        return [pair for pair in pairs if _keys(pair) not in known]

    @cached_property
    def tests(self) -> list[Pair]:
        """The tests of the declared pairs, and those of the exploratory ones."""
        return [*self._test(self.declared, is_declared=True), *self._test(self.exploratory, is_declared=False)]

    def difference(self, first: Setting, second: Setting) -> Estimate | None:
        """Returns how much better the first of two settings is; None with too few seeds, groups or rows of a class."""
        has_seeds = first.has_seeds and second.has_seeds and has_same_folds(first, second)
        if not has_seeds or self._rare_classes:
            return None
        gains, group_N = (first.gains, second.gains), self.rows.group_N
        if first.folds is not None:
            of_pair = partial(average, gains[0] - gains[1], group_N, fold_SN=first.folds)
        else:
            of_pair = partial(difference, *gains, group_N, deterministic=(first.deterministic, second.deterministic))
        width = self.metric.bounds[1] - self.metric.bounds[0]
        estimate = of_pair(bounds=(-width, width), half_rows=AGREEMENT if self.metric == ACCURACY else ())
        return estimate if estimate.df >= FEWEST_DF else None

    def _test(self, pairs: Sequence[SettingPair], *, is_declared: bool) -> list[Pair]:
        """Tests the pairs with enough seeds for a difference and for equivalence of their metric.

        The declared ones are one family: their intervals hold together in 95% of repetitions (Bonferroni). Groups of
        rows with too few degrees of freedom give no verdict, nor does a class with too few rows.
        """
        tested = [(pair, self.difference(*pair)) for pair in pairs]
        found = [(pair, estimate) for pair, estimate in tested if estimate is not None]
        number = (self.family or len(found)) if is_declared else 1
        return [
            Pair.of(pair, estimate, self.share_of_margin, number, declared=is_declared, basis=pair[0].basis)
            for pair, estimate in found
        ]

    @cached_property
    def messages(self) -> list[tuple[str, list[str]]]:
        """The results of the tests in words: each heading with the messages below it."""
        family, others = ([pair for pair in self.tests if pair.declared is known] for known in (True, False))
        of_family = f"the {self.family} of all data sets" if self.family else "their number"
        heading = f"{plural(len(family), 'declared pair')}, p-values and intervals adjusted for {of_family}:"
        if self.metric != ACCURACY:
            heading = f"By {self.metric.name}, {heading}"
        known = {_keys((pair.first, pair.second)) for pair in self.tests}
        untested = [pair for pair in (*self.declared, *self.exploratory) if _keys(pair) not in known]
        tested = [
            (f"{self.plan.title}: {heading}" if self.plan else heading, [pair.message(self.margin) for pair in family]),
            ("Exploratory, chosen after looking, not adjusted:", [pair.message(self.margin) for pair in others]),
        ]
        lacking = [
            ("Differences without interval and verdict:", list(map(_values, untested))),
            (
                f"Fewer than {FEWEST_ROWS} rows of a class give no verdict by {self.metric.name}:",
                [self.labels[number] for number in self._rare_classes],
            ),
            (
                f"The groups of {self.counts} are too few, or too uneven, for an interval and a verdict.",
                [
                    f"{first.name} and {second.name}"
                    for first, second in untested
                    if first.has_seeds and second.has_seeds and has_same_folds(first, second) and not self._rare_classes
                ],
            ),
            (
                f"Fewer than {SEEDS} seeds give no interval and no verdict. To train the others:",
                [f"{setting.name}: {_more_seeds(setting)}" for setting in self._lacking_seeds],
            ),
        ]
        notes = [(note, list[str]()) for note in self._notes()]
        blocks = [block for block in tested if block[1]] + notes + [block for block in lacking if block[1]]
        if [len(setting.runs) for setting in self.settings] == [1, 1] and not self.tests:
            blocks += [(text, list[str]()) for text in self._two_models()]
        paired = {setting.key for pair in self.declared for setting in pair}
        unpaired = [setting.name for setting in self.settings if setting.key not in paired]
        if unpaired and not self.explore and (self.plan or len(self.settings) > MOST_EXPLORED):
            text = "pairs=all tests all pairs as exploratory, baseline=NAME each setting against one"
            blocks.append((f"In no declared pair{'' if self.plan else f' ({text})'}:", unpaired))
        return blocks

    def _two_models(self) -> Iterator[str]:
        """Yields the test of two single runs, if there is one: about these models, not about their settings."""
        first, second = (replace(setting, deterministic=True) for setting in self.settings)
        if (estimate := self.difference(first, second)) is not None:
            p, metric = estimate.p_difference(), self.metric
            result = "differ" if p < LEVEL else "do not differ detectably"
            text = f"These two trained models, {first.name} and {second.name}, {result}:"
            yield f"{text} {metric.difference(estimate.value, '+')}{metric.unit}, {_p(p)}."

    @property
    def _rare_classes(self) -> list[int]:
        return self.metric.rare_classes(self.rows.labels_N)

    @property
    def _lacking_seeds(self) -> list[Setting]:
        """The settings with too few seeds, without those of which other draws of their training rows were trained."""
        keys = [repr(sorted(rest(setting.settings, (TRAIN_SEED,)).items())) for setting in self.settings]
        draws = Counter(keys)
        return [
            setting
            for setting, key in zip(self.settings, keys, strict=True)
            if not setting.has_seeds and draws[key] == 1
        ]

    def _notes(self) -> list[str]:
        """Returns remarks about the pairs that are tested."""
        notes = [*self._declared[1], *([self.plan.remark] if self.plan and self.plan.remark else [])]
        if not all(has_same_folds(self.settings[0], setting) for setting in self.settings):
            found = [f"{setting.name} {', '.join(str(run.seed) for run in setting.runs)}" for setting in self.settings]
            text = "Both settings of a pair need the same folds, and so the same seeds; there are"
            notes.append(f"{text} {'; '.join(found)}.")
        if (df := min((pair.estimate.df for pair in self.tests), default=FEW_DF)) < FEW_DF:
            notes.append(f"The {self.counts} have {df:.1f} degrees of freedom: intervals are wide.")
        return notes


def read_comparisons(
    paths: Sequence[Path], *, split: str, where: Sequence[str] = (), trust: bool = False
) -> tuple[list[Comparison], list[Fault]]:
    """Reads runs and groups them by the rows that they were evaluated on, the most settings first.

    The arguments and errors are those of `read_runs`; returns the comparisons, and an error for each run left out.
    """
    runs, faults = read_runs(paths, split=split, where=where, trust=trust)
    try:
        runs, of_folds = join_folds(runs, split)
    except RunError as error:
        raise RunError(*faults, *error.faults) from error
    faults += of_folds
    by_rows: dict[tuple[object, object], list[EvaluatedRun]] = defaultdict(list)
    for run in runs:
        by_rows[run.result["data"], run.rows.digest].append(run)
    comparisons = [Comparison(of_rows, split) for of_rows in by_rows.values()]
    titles = Counter(comparison.title for comparison in comparisons)
    comparisons = [
        replace(comparison, version=f"data_fingerprint {fingerprint}")
        if fingerprint and titles[comparison.title] > 1
        else comparison
        for comparison in comparisons
        for fingerprint in [comparison.runs[0].fingerprint]
    ]
    return sorted(comparisons, key=lambda comparison: len(comparison.settings), reverse=True), faults


def require_same_rows(key: str, value: object, comparisons: Sequence[Comparison]) -> None:
    """Refuses an option that is about a single comparison with a `RunError` where there are several."""
    if len(comparisons) > 1:
        found = "; ".join(f"{comparison.data}, {comparison.counts}" for comparison in comparisons)
        message = f"{key}={value} is of runs with the same rows, not of {found}: choose by folder or where=."
        raise RunError(Fault(key, "conflict", message))


def has_same_folds(first: Setting, second: Setting) -> bool:
    """Whether each seed of two settings has tested each row in the same fold; of settings without folds always."""
    if first.folds is None or second.folds is None:
        return first.folds is second.folds
    return np.array_equal(first.folds, second.folds)


def _keys(pair: SettingPair) -> frozenset[str]:
    """Returns the hashes of two settings, which a plan may have with fewer of their seeds."""
    return frozenset(setting.key for setting in pair)


def _values(pair: SettingPair) -> str:
    """Returns the metric of two settings and how much better the first is."""
    values = [(setting.name, setting.metrics[setting.metric.name].value, len(setting.runs)) for setting in pair]
    texts = [f"{name} {value:.4f} ({plural(seeds, 'seed')})" for name, value, seeds in values]
    gain, metric = float(pair[0].gains.mean() - pair[1].gains.mean()), pair[0].metric
    return f"{', '.join(texts)}: {metric.difference(gain, '+')}{metric.unit}."


def _more_seeds(setting: Setting) -> str:
    """Returns the command that trains the seeds that a setting lacks for an interval."""
    last = setting.runs[-1]
    if last.is_of_table:
        return f"predictions of {plural(SEEDS - len(setting.runs), 'more seed')}, in the table"
    typed = f"from={shlex.quote(str(last.run.path))} seed={last.seed + 1} seeds={SEEDS - len(setting.runs)}"
    typed += f" {FOLD}=null" if last.folds else ""
    return f"python -m sentattn.train {typed}{needed_trust(last.settings)}"


def _p(value: float) -> str:
    return "p < 0.0001" if value < 0.0001 else f"p = {value:.2g}"
