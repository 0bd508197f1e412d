"""A comparison: settings on the same rows, their leaderboard, and the tests of pairs of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sentattn.compare.pairs import (
    Pair,
    SettingPair,
    accuracies,
    best_against_reference,
    compare_models,
    declared_indices,
    evaluate_pairs,
    more_seeds,
)
from sentattn.compare.runs import EvaluatedRun, Rows, read_runs
from sentattn.compare.settings import Setting, group_by_setting
from sentattn.config.schema import SEEDS
from sentattn.console import plural
from sentattn.errors import Fault
from sentattn.metrics import majority_share

if TYPE_CHECKING:
    from sentattn.compare.insight import Insight
    from sentattn.data.corpus import Split
    from sentattn.data.datamodule import TextData

MOST_EXPLORED = 6
"""Number of settings up to which the best is tested against each other one by default."""


class PlannedPairs(NamedTuple):
    """A plan: its file with its hash, its content as YAML, and its pairs of settings, with the seeds of the plan."""

    title: str
    lines: Sequence[str]
    pairs: Sequence[SettingPair]


@dataclass(frozen=True)
class Comparison:
    """Settings that were evaluated on the same rows; each result is computed once, when it is first asked for.

    Attributes:
        runs: All runs on these rows, also those of a seed that was trained again.
        split: `test`, `val` or the name of an evaluation.
        margin: Points of accuracy within which two settings count as equivalent.
        explore: Whether all pairs are tested, those that are not declared as exploratory.
        plan: The plan whose pairs are tested; None for the pairs that are declared by how settings differ.
        insights: Diagnostics of the settings' attentions.
    """

    runs: Sequence[EvaluatedRun]
    split: str
    margin: float = 0.5
    explore: bool = False
    plan: PlannedPairs | None = None
    insights: Sequence[Insight] = ()

    @property
    def data(self) -> str:
        """Name of the data set."""
        return str(self.runs[0].result["data"])

    @property
    def rows(self) -> Rows:
        """The rows."""
        return self.runs[0].rows

    @property
    def ordered(self) -> bool:
        """Whether classes are steps of a scale; references have no model that says it."""
        return any(run.ordered for run in self.runs)

    @property
    def counts(self) -> str:
        """The numbers of rows and of groups, in words."""
        group_N = self.rows.group_N
        return f"{len(self.rows.labels_N):,} rows" + ("" if group_N is None else f" in {group_N.max() + 1:,} groups")

    @cached_property
    def majority(self) -> float:
        """Share of the rows of the largest class."""
        return majority_share(self.rows.labels_N)

    def read_texts(self) -> tuple[TextData, Split]:
        """Reads the data set again, as `EvaluatedRun.read_texts` does; returns it and the texts of the rows."""
        return self.settings[0].runs[0].read_texts(self.split)

    @cached_property
    def settings(self) -> list[Setting]:
        """The settings, in the order in which they were first trained."""
        return group_by_setting(self.runs, ordered=self.ordered)

    @cached_property
    def leaderboard(self) -> list[Setting]:
        """The settings, the most accurate first."""
        return sorted(self.settings, key=lambda setting: setting.metrics["accuracy"].value, reverse=True)

    @property
    def declared(self) -> list[SettingPair]:
        """The pairs that are declared before looking.

        They are the pairs of the plan, if any. Otherwise they are equal in all but one component (`CONTRASTS`), and on
        test rows the setting that is best on validation rows is paired with NB-SVM.
        """
        return self._declared[0]

    @cached_property
    def _declared(self) -> tuple[list[SettingPair], list[str]]:
        """The declared pairs, and remarks about pairs that are missing."""
        if self.plan is not None:
            return list(self.plan.pairs), []
        pairs, notes = best_against_reference(self.settings, self.split)
        trained_on = [setting.fingerprints for setting in self.settings]
        numbers = declared_indices([setting.settings for setting in self.settings], trained_on)
        return [*pairs, *((self.settings[first], self.settings[second]) for first, second in numbers)], notes

    @cached_property
    def exploratory(self) -> list[SettingPair]:
        """The pairs that were not declared: all, or of few settings the best with each other one."""
        known = {_keys(pair) for pair in self.declared}
        pairs = list(combinations(self.settings, 2))
        if not self.explore:
            best = max(self.settings, key=lambda setting: (setting.has_seeds, float(setting.correct.mean())))
            few = len(self.settings) <= MOST_EXPLORED
            pairs = [(best, setting) for setting in self.settings if setting is not best and few]
        return [pair for pair in pairs if _keys(pair) not in known]

    @cached_property
    def tests(self) -> list[Pair]:
        """The tests of the declared pairs, and those of the exploratory ones."""
        group_N, margin = self.rows.group_N, self.margin
        return [
            *evaluate_pairs(self.declared, group_N, margin, is_declared=True),
            *evaluate_pairs(self.exploratory, group_N, margin, is_declared=False),
        ]

    @cached_property
    def messages(self) -> list[tuple[str, list[str]]]:
        """The results of the tests in words: each heading with the messages below it."""
        family, others = ([pair for pair in self.tests if pair.declared is known] for known in (True, False))
        heading = f"{plural(len(family), 'declared pair')}, p-values and intervals adjusted after Holm:"
        heading = f"{self.plan.title}: {heading}" if self.plan else heading
        pairs = [*self.declared, *self.exploratory]
        untested = [pair for pair in pairs if not (pair[0].has_seeds and pair[1].has_seeds)]
        few = [setting for setting in self.settings if not setting.has_seeds]
        tested = [
            (heading, [pair.message(self.margin) for pair in family]),
            ("Exploratory, chosen after looking, not adjusted:", [pair.message(self.margin) for pair in others]),
        ]
        lacking = [
            ("Differences without interval and verdict:", list(map(accuracies, untested))),
            (
                f"Fewer than {SEEDS} seeds give no interval and no verdict. To train the others:",
                [f"{setting.name}: {more_seeds(setting)}" for setting in few],
            ),
        ]
        blocks = [block for block in tested if block[1]]
        blocks += [(note, []) for note in self._notes(family, others)]
        blocks += [block for block in lacking if block[1]]
        if [len(setting.runs) for setting in self.settings] == [1, 1]:
            blocks.append((compare_models(self.settings, self.rows.group_N), []))
        paired = {setting.key for pair in self.declared for setting in pair}
        unpaired = [setting.name for setting in self.settings if setting.key not in paired]
        if unpaired and not self.explore and len(self.settings) > MOST_EXPLORED:
            text = "pairs=all tests all pairs as exploratory; for some settings only, name the folders of their runs."
            blocks.append((f"In no declared pair: {'; '.join(unpaired)}. {text}", []))
        return blocks

    def _notes(self, family: Sequence[Pair], exploratory: Sequence[Pair]) -> list[str]:
        """Returns remarks about the pairs that are tested."""
        notes = list(self._declared[1])
        settings = [setting for pair in family for setting in (pair.first, pair.second)]
        if len(counts := {len(setting.runs) for setting in settings if not setting.deterministic}) > 1:
            notes.append(f"Numbers of seeds differ within the declared pairs: {', '.join(map(str, sorted(counts)))}.")
        if self.plan is None:
            return notes
        planned = {setting.key: setting for pair in self.plan.pairs for setting in pair}
        added = []
        for setting in self.settings:
            known = planned.get(setting.key)
            known_seeds = {run.seed for run in known.runs} if known else set()
            if seeds := ", ".join(str(run.seed) for run in setting.runs if run.seed not in known_seeds):
                text = f"seeds {seeds} of {setting.name}" if known else f"the setting {setting.name} (seeds {seeds})"
                added.append(text)
        if exploratory:
            added.append(plural(len(exploratory), "exploratory pair"))
        return notes + ([f"Not in the plan, and in none of its tests: {'; '.join(added)}."] if added else [])


def read_comparisons(
    paths: Sequence[Path], *, split: str, where: Sequence[str] = ()
) -> tuple[list[Comparison], list[Fault]]:
    """Reads runs and groups them by the rows that they were evaluated on, the most settings first.

    The arguments and errors are those of `read_runs`.

    Returns:
        The comparisons, and an error for each run that is left out.
    """
    runs, faults = read_runs(paths, split=split, where=where)
    by_rows: dict[tuple[object, object], list[EvaluatedRun]] = defaultdict(list)
    for run in runs:
        by_rows[run.result["data"], run.rows.key].append(run)
    comparisons = [Comparison(of_rows, split) for of_rows in by_rows.values()]
    return sorted(comparisons, key=lambda comparison: len(comparison.settings), reverse=True), faults


def _keys(pair: SettingPair) -> frozenset[str]:
    """Returns the hashes of two settings, which a plan may have with fewer of their seeds."""
    return frozenset(setting.key for setting in pair)
