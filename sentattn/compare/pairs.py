"""Which settings are tested against each other, and what the tests say in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from sentattn.compare.names import rest
from sentattn.compare.runs import Comparison, Setting
from sentattn.compare.statistics import LEVEL, Estimate, Verdict, difference, holm, mcnemar, verdict
from sentattn.config.targets import slots

MECHANISM = ("model.name", "model.attention.", "model.pooling.", "loss.penalty")
"""Settings in which an attention and its baseline may differ: the rest has to be the same."""
FROZEN = ("model.freeze_attention",)
"""What sets an attention's control apart."""
READING = (
    *MECHANISM,
    *FROZEN,
    "model.embedding.",
    "model.encoder.",
    "model.head.",
    "model.init_std",
    "model.wide.attend",
    "model.wide.share",
    "data.vectors",
    "optimizer.lr",
    "loss.label_smoothing",
)
"""Settings in which a model may differ from its wide part alone: that part has a rate and a loss of its own."""
HARDEST = "nbsvm"
"""The reference that the best setting is tested against."""


@dataclass(frozen=True)
class Pair:
    """Two settings and the difference of their accuracies.

    Attributes:
        first: The attention, or any setting.
        second: Its baseline, or any other setting.
        declared: Whether the pair belongs to the family that is declared before looking.
        estimate: How much better the first is; None where a setting with random seeds has one seed only.
        p_difference: Of no difference; of declared pairs adjusted for their number.
        p_equivalence: Of a difference beyond the margin, likewise.
        verdict: What both say.
    """

    first: Setting
    second: Setting
    declared: bool
    estimate: Estimate | None
    p_difference: float
    p_equivalence: float
    verdict: Verdict

    def message(self, margin: float) -> str:
        """Returns the result in words; the margin is in points."""
        names = f"{self.first.name} and {self.second.name}"
        if self.estimate is None:
            return f"{names}: one seed is too few to compare mechanisms; train more with seeds=3."
        low, high = (100 * end for end in self.estimate.interval())
        points = 100 * self.estimate.value
        better, worse = self.first, self.second
        if self.verdict.startswith("worse"):
            better, worse, low, high, points = worse, better, -high, -low, -points
        seeds = len(better.runs), len(worse.runs)
        shown_seeds = f"{seeds[0]} seeds" if seeds[0] == seeds[1] else f"{seeds[0]} and {seeds[1]} seeds"
        interval = f"(95%: {low:.1f} to {high:.1f}, {shown_seeds})"
        match self.verdict:
            case "better" | "worse":
                return f"{better.name} beats {worse.name} by {points:.1f} points {interval}."
            case "better within margin" | "worse within margin":
                text = f"{better.name} beats {worse.name} by {points:.1f} points {interval},"
                return f"{text} less than the margin of {margin:g}."
            case "equivalent":
                return f"{names} are equivalent: they differ by less than {margin:g} points {interval}."
            case "undecided":
                least = 100 * self.estimate.detectable()
                text = f"{names}: undecided, {points:+.1f} points {interval};"
                return f"{text} a true difference of {least:.1f} points would have been found in 8 of 10 repetitions."


def declared(comparison: Comparison) -> list[tuple[Setting, Setting]]:
    """Returns the pairs that are declared before looking: each attention and its baseline with all else the same.

    The baseline of an attention is `uniform` over the same encoder; that of `relation` is `relation` without scores.
    Its control is the same attention, frozen as it was drawn. A model with a wide part is tested against that part
    alone, and the setting that is best on validation rows against NB-SVM, where that was fitted.
    """
    trained = [one for one in comparison.settings if "attention" in one.settings["model"]]
    baselines = [one for one in trained if _is_baseline(one)]
    hardest = [one for one in comparison.settings if one.settings["model"].get("name") == HARDEST]
    best = max(trained, key=lambda one: one.mean("val/accuracy"), default=None)
    return (
        [*((best, reference) for reference in hardest if best is not None)]
        + [
            (one, baseline)
            for one in trained
            if not _is_baseline(one)
            for baseline in baselines
            if _is_relation(one) == _is_relation(baseline)
            and rest(one.settings, MECHANISM) == rest(baseline.settings, MECHANISM)
        ]
        + [
            (one, control)
            for control in trained
            if control.settings["model"].get("freeze_attention")
            for one in trained
            if one is not control and rest(one.settings, FROZEN) == rest(control.settings, FROZEN)
        ]
        + [
            (one, alone)
            for alone in trained
            if _is_wide_alone(alone)
            for one in trained
            if not _is_wide_alone(one) and rest(one.settings, READING) == rest(alone.settings, READING)
        ]
    )


def pairs(comparison: Comparison, *, margin: float, explore: bool = False) -> list[Pair]:
    """Tests pairs of settings for a difference and for equivalence of their accuracy.

    Declared pairs are one family per kind of test, adjusted after Holm (1979); all others are exploratory, and theirs
    are not adjusted.

    Args:
        comparison: The settings.
        margin: Points of accuracy within which two settings count as equivalent.
        explore: Whether to test all other pairs too.
    """
    family = declared(comparison)
    known = {frozenset(map(id, pair)) for pair in family}
    others = [pair for pair in combinations(comparison.settings, 2) if frozenset(map(id, pair)) not in known]
    tested = _tested(family, comparison, margin, is_declared=True)
    return tested + (_tested(others, comparison, margin, is_declared=False) if explore else [])


def messages(comparison: Comparison, *, margin: float, explore: bool = False) -> list[tuple[str, list[str]]]:
    """Returns what the tests of `pairs` say: each heading with the messages below it."""
    tested = pairs(comparison, margin=margin, explore=explore)
    family = [pair for pair in tested if pair.declared]
    exploratory = [pair for pair in tested if not pair.declared]
    heading = f"{len(family)} declared pair{'s' if len(family) != 1 else ''}, p-values adjusted after Holm:"
    blocks: list[tuple[str, list[str]]] = []
    if single := [one.name for one in comparison.settings if not one.has_seeds]:
        text = f"No interval and no verdict with one seed: {'; '.join(single)}. Train more with seeds=3."
        blocks.append((text, []))
    if [len(one.runs) for one in comparison.settings] == [1, 1]:
        first, second = comparison.settings
        blocks.append((of_two_models(first, second, comparison), []))
    for title, some in ((heading, family), ("Exploratory, not adjusted:", exploratory)):
        if results := [pair.message(margin) for pair in some if pair.estimate is not None]:
            blocks.append((title, results))
    return blocks


def _tested(
    family: Sequence[tuple[Setting, Setting]], comparison: Comparison, margin: float, *, is_declared: bool
) -> list[Pair]:
    estimates = [_difference(first, second, comparison) for first, second in family]
    p_difference = [1.0 if one is None else one.p_difference() for one in estimates]
    p_equivalence = [1.0 if one is None else one.p_equivalence(margin / 100) for one in estimates]
    if is_declared:
        p_difference, p_equivalence = holm(p_difference), holm(p_equivalence)
    return [
        Pair(*pair, is_declared, one, p, q, "undecided" if one is None else verdict(one.value, p, q))
        for pair, one, p, q in zip(family, estimates, p_difference, p_equivalence, strict=True)
    ]


def _difference(first: Setting, second: Setting, comparison: Comparison) -> Estimate | None:
    """How much better the first is; None where the seeds of a setting are too few."""
    if not (first.has_seeds and second.has_seeds):
        return None
    deterministic = (first.deterministic, second.deterministic)
    return difference(first.correct, second.correct, comparison.rows.group_N, deterministic=deterministic)


def of_two_models(first: Setting, second: Setting, comparison: Comparison) -> str:
    """Returns what McNemar's test says of two single runs: about these two models, not about their mechanisms."""
    [first_N], [second_N] = first.correct > 0, second.correct > 0
    p = mcnemar(first_N, second_N, comparison.rows.group_N)
    points = 100 * float(first_N.mean() - second_N.mean())
    result = "differ" if p < LEVEL else "do not differ detectably"
    return f"These two trained models, {first.name} and {second.name}, {result}: {points:+.1f} points, p = {p:.2g}."


def _is_baseline(setting: Setting) -> bool:
    attention = setting.settings["model"].get("attention", {})
    return slots(setting.settings).get("attention") == "uniform" or attention.get("score") == "none"


def _is_wide_alone(setting: Setting) -> bool:
    return slots(setting.settings).get("embedding") == "none"


def _is_relation(setting: Setting) -> bool:
    return slots(setting.settings).get("attention") == "relation"
