"""Which settings are tested against each other, and what the tests say in words."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

from sentattn.compare.names import rest
from sentattn.compare.runs import Comparison, Setting
from sentattn.compare.statistics import LEVEL, Estimate, Verdict, difference, holm, mcnemar, verdict
from sentattn.config.schema import SEEDS
from sentattn.config.targets import slots

Settings = Mapping[str, Any]

HARDEST = "nbsvm"
"""The reference that the best setting is tested against."""
MOST_EXPLORED = 6
"""Settings of a comparison up to which the best is tested against each other one without being asked."""


class Contrast(NamedTuple):
    """A kind of pair that is declared before looking: two settings that are equal in all but one part.

    Attributes:
        apart: Keys in which the two differ, or their beginnings.
        is_first: Whether a setting has the part.
        is_second: Whether it is a control without it.
    """

    apart: tuple[str, ...]
    is_first: Callable[[Settings], bool]
    is_second: Callable[[Settings], bool]


def _is_baseline(settings: Settings) -> bool:
    return _attention(settings) == "uniform" or settings["model"]["attention"].get("score") == "none"


def _is_relation(settings: Settings) -> bool:
    return _attention(settings) == "relation"


def _attention(settings: Settings) -> str | None:
    return slots(settings).get("attention")


def _is_frozen(settings: Settings) -> bool:
    return bool(settings["model"].get("freeze_attention"))


def _wide(settings: Settings, key: str) -> Any:
    """Returns a setting of the wide part; None where there is none."""
    return (settings["model"].get("wide") or {}).get(key)


def _is_hybrid(settings: Settings) -> bool:
    """Whether a model has a wide part next to what it reads otherwise, and is no control of one that has."""
    is_control = _wide(settings, "attend") == "uniform" or _wide(settings, "share") == 1
    return _wide(settings, "orders") is not None and slots(settings).get("embedding") != "none" and not is_control


MECHANISM = ("model.name", "model.attention.", "model.pooling.", "loss.penalty")
"""Settings of an attention: with it come the pooling of its hops and the penalty on them."""
CONTRASTS = (
    Contrast(
        MECHANISM,
        lambda one: not _is_baseline(one) and not _is_relation(one),
        lambda one: _attention(one) == "uniform",
    ),
    Contrast(
        MECHANISM,
        lambda one: not _is_baseline(one) and _is_relation(one),
        lambda one: _is_baseline(one) and _is_relation(one),
    ),
    Contrast(("model.freeze_attention",), lambda one: not _is_frozen(one), _is_frozen),
    Contrast(
        ("model.wide.attend",),
        lambda one: _wide(one, "attend") is True,
        lambda one: _wide(one, "attend") == "uniform",
    ),
    Contrast(("model.wide",), _is_hybrid, lambda one: _wide(one, "orders") is None),
    Contrast(("model.wide.share",), _is_hybrid, lambda one: _wide(one, "share") == 1),
)
"""An attention and uniform weights over the same encoder; `relation` with and without scores; an attention and the same
one frozen as it was drawn; learned and uniform attention over n-grams; a model with a wide part and the same without
it; and the wide part of such a model alone, as trained in it: each part has a loss of its own, and the share only says
how their logits are added."""


@dataclass(frozen=True)
class Pair:
    """Two settings and the difference of their accuracies.

    Attributes:
        first: The attention, or any setting.
        second: Its baseline, or any other setting.
        declared: Whether the pair belongs to the family that is declared before looking.
        estimate: How much better the first is.
        p_difference: Of no difference; of declared pairs adjusted for their number.
        p_equivalence: Of a difference beyond the margin, likewise.
        levels: At which the two tests were made.
        verdict: What both say.
    """

    first: Setting
    second: Setting
    declared: bool
    estimate: Estimate
    p_difference: float
    p_equivalence: float
    levels: tuple[float, float]
    verdict: Verdict

    @property
    def intervals(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The intervals that belong to the tests of a difference and of equivalence, at 1 - a and 1 - 2a."""
        of_difference, of_equivalence = self.levels
        return self.estimate.interval(1 - of_difference), self.estimate.interval(1 - 2 * of_equivalence)

    def message(self, margin: float) -> str:
        """Returns the result in words; the margin is in points."""
        is_worse = self.verdict.startswith("worse")
        better, worse = (self.second, self.first) if is_worse else (self.first, self.second)
        points = 100 * self.estimate.value * (-1 if is_worse else 1)
        numbers = f"{len(better.runs)} seeds"
        if len(better.runs) != len(worse.runs):
            numbers = f"{len(better.runs)} and {len(worse.runs)} seeds"
        details, equivalent = (
            f"{100 * confidence:.3g}%: {low:.2f} to {high:.2f}, {_p(p)}"
            for confidence, (low, high), p in (
                (1 - self.levels[0], self._points(0, mirrored=is_worse), self.p_difference),
                (1 - 2 * self.levels[1], self._points(1, mirrored=is_worse), self.p_equivalence),
            )
        )
        beats = f"{better.name} beats {worse.name} by {points:.2f} points ({details}; {numbers})"
        names = f"{self.first.name} and {self.second.name}"
        match self.verdict:
            case "better" | "worse":
                return f"{beats}."
            case "better within margin" | "worse within margin":
                return f"{beats}, less than the margin of {margin:g} ({equivalent})."
            case "equivalent":
                text = f"{names} are equivalent: they differ by {points:+.2f} points ({equivalent}; {numbers})"
                return f"{text}, less than the margin of {margin:g}."
            case "undecided":
                least = 100 * self.estimate.detectable(self.levels[0])
                text = f"{names}: undecided, {points:+.2f} points ({details}; {numbers});"
                return f"{text} a true difference of {least:.1f} points would have been found in 8 of 10 repetitions."

    def _points(self, test: int, *, mirrored: bool) -> tuple[float, float]:
        low, high = (100 * end for end in self.intervals[test])
        return (-high, -low) if mirrored else (low, high)


def declared(settings: Sequence[Settings], trained_on: Sequence[object]) -> list[tuple[int, int]]:
    """Returns the numbers of the pairs that are declared before looking: equal in all but one part (`CONTRASTS`).

    Args:
        settings: Resolved settings; references, which have no attention, are in no pair.
        trained_on: What the training rows of each are known by; a pair has the same.
    """
    trained = [number for number, one in enumerate(settings) if "attention" in one["model"]]
    return [
        (first, second)
        for apart, is_first, is_second in CONTRASTS
        for second in trained
        if is_second(settings[second])
        for first in trained
        if is_first(settings[first])
        and trained_on[first] == trained_on[second]
        and rest(settings[first], apart) == rest(settings[second], apart)
    ]


def declared_pairs(comparison: Comparison) -> tuple[list[tuple[Setting, Setting]], list[str]]:
    """Returns the pairs that are declared before looking, and notes about pairs that are not.

    They are those of `declared`, or of the plan where there is one. Without a plan the setting that is best on
    validation rows joins them, against NB-SVM where that was fitted on the same training rows: of the settings with
    enough seeds, and on test rows only.
    """
    if comparison.plan is not None:
        return list(comparison.plan.pairs), []
    found = comparison.settings
    rows = [frozenset(str(run.result.get("data_fingerprint")) for run in one.runs) for one in found]
    pairs = [(found[first], found[second]) for first, second in declared([one.settings for one in found], rows)]
    notes = []
    for number, reference in enumerate(found):
        if reference.settings["model"].get("name") != HARDEST:
            continue
        if comparison.split == "val":
            notes.append(
                f"No test of the best setting against {reference.name}: it would be chosen by the rows it is tested "
                "on. Type split=test."
            )
            continue
        candidates = [
            one
            for one, trained_on in zip(found, rows, strict=True)
            if "attention" in one.settings["model"]
            and one.has_seeds
            and trained_on == rows[number]
            and math.isfinite(one.mean("val/accuracy"))
        ]
        if candidates:
            pairs.insert(0, (max(candidates, key=lambda one: one.mean("val/accuracy")), reference))
        else:
            notes.append(f"No setting has {SEEDS} seeds and the training rows of {reference.name}: nothing to test.")
    return pairs, notes


def pairs(comparison: Comparison, *, margin: float, explore: bool = False) -> list[Pair]:
    """Tests pairs of settings for a difference and for equivalence of their accuracy.

    Pairs with too few seeds are left out. The declared ones are one family per kind of test, adjusted after Holm
    (1979). All others are exploratory, and theirs are not adjusted; where there are few settings, the best of those
    with enough seeds is tested against each other one.

    Args:
        comparison: The settings.
        margin: Points of accuracy within which two settings count as equivalent.
        explore: Whether to test all other pairs too.
    """
    family = _testable(declared_pairs(comparison)[0])
    others = _testable(_others(comparison, explore=explore))
    return _tested(family, comparison, margin, is_declared=True) + _tested(
        others, comparison, margin, is_declared=False
    )


def _others(comparison: Comparison, *, explore: bool) -> list[tuple[Setting, Setting]]:
    """Returns the exploratory pairs."""
    known = {_hashes(pair) for pair in declared_pairs(comparison)[0]}
    found = list(combinations(comparison.settings, 2))
    if not explore:
        best = max(comparison.settings, key=lambda one: (one.has_seeds, float(one.correct.mean())))
        few = len(comparison.settings) <= MOST_EXPLORED
        found = [(best, one) for one in comparison.settings if one is not best and few]
    return [pair for pair in found if _hashes(pair) not in known]


def _hashes(pair: tuple[Setting, Setting]) -> frozenset[str]:
    """Returns the hashes of two settings, which a plan may have with fewer of their seeds."""
    return frozenset(one.runs[0].setting for one in pair)


def _testable(found: Sequence[tuple[Setting, Setting]]) -> list[tuple[Setting, Setting]]:
    return [(first, second) for first, second in found if first.has_seeds and second.has_seeds]


def messages(comparison: Comparison, *, margin: float, explore: bool = False) -> list[tuple[str, list[str]]]:
    """Returns what the tests of `pairs` say: each heading with the messages below it."""
    tested = pairs(comparison, margin=margin, explore=explore)
    family = [pair for pair in tested if pair.declared]
    exploratory = [pair for pair in tested if not pair.declared]
    declared_ones, notes = declared_pairs(comparison)
    count = f"{len(family)} declared pair{'s' * (len(family) != 1)}, p-values and intervals adjusted after Holm"
    heading = f"{comparison.plan.title}: {count}:" if comparison.plan else f"{count}:"
    blocks: list[tuple[str, list[str]]] = []
    for title, some in ((heading, family), ("Exploratory, chosen after looking, not adjusted:", exploratory)):
        if some:
            blocks.append((title, [pair.message(margin) for pair in some]))
    if len(counts := {len(one.runs) for pair in family for one in (pair.first, pair.second) if _varies(one)}) > 1:
        notes.append(f"Numbers of seeds differ within the declared pairs: {', '.join(map(str, sorted(counts)))}.")
    if comparison.plan is not None:
        notes += comparison.plan.added(comparison, exploratory=len(exploratory))
    blocks += [(note, []) for note in notes]
    everything = declared_ones + _others(comparison, explore=explore)
    if without := [pair for pair in everything if not (pair[0].has_seeds and pair[1].has_seeds)]:
        blocks.append(("Differences without interval and verdict:", [_values(*pair) for pair in without]))
    if few := [one for one in comparison.settings if not one.has_seeds]:
        title = f"Fewer than {SEEDS} seeds give no interval and no verdict. To train the others:"
        blocks.append((title, [f"{one.name}: {more_seeds(one)}" for one in few]))
    if [len(one.runs) for one in comparison.settings] == [1, 1]:
        first, second = comparison.settings
        blocks.append((of_two_models(first, second, comparison), []))
    in_pair = {id(one) for pair in declared_ones for one in pair}
    alone = [one.name for one in comparison.settings if id(one) not in in_pair]
    if alone and not explore and len(comparison.settings) > MOST_EXPLORED:
        text = "pairs=all tests all pairs as exploratory; for some settings only, name the folders of their runs."
        blocks.append((f"In no declared pair: {'; '.join(alone)}. {text}", []))
    return blocks


def _varies(setting: Setting) -> bool:
    return not setting.deterministic


def _values(first: Setting, second: Setting) -> str:
    """Returns the accuracies of two settings and their difference."""
    values = [100 * float(one.correct.mean()) for one in (first, second)]
    seeds = [
        f"{one.name} {value:.2f}% ({len(one.runs)} seed{'s' * (len(one.runs) != 1)})"
        for one, value in zip((first, second), values, strict=True)
    ]
    return f"{', '.join(seeds)}: {values[0] - values[1]:+.2f} points."


def more_seeds(setting: Setting) -> str:
    """Returns the command that trains the seeds that a setting lacks for an interval."""
    last = setting.runs[-1]
    missing = SEEDS - len(setting.runs)
    return f"python -m sentattn.train from={shlex.quote(str(last.run.path))} seed={last.seed + 1} seeds={missing}"


def _tested(
    family: Sequence[tuple[Setting, Setting]], comparison: Comparison, margin: float, *, is_declared: bool
) -> list[Pair]:
    estimates = [_difference(first, second, comparison) for first, second in family]
    p_difference = [one.p_difference() for one in estimates]
    p_equivalence = [one.p_equivalence(margin / 100) for one in estimates]
    levels = [(LEVEL, LEVEL)] * len(estimates)
    if is_declared:
        (p_difference, first_levels), (p_equivalence, second_levels) = holm(p_difference), holm(p_equivalence)
        levels = list(zip(first_levels, second_levels, strict=True))
    return [
        Pair(*pair, is_declared, one, p, q, level, verdict(one.centre, p, q))
        for pair, one, p, q, level in zip(family, estimates, p_difference, p_equivalence, levels, strict=True)
    ]


def _difference(first: Setting, second: Setting, comparison: Comparison) -> Estimate:
    deterministic = (first.deterministic, second.deterministic)
    return difference(first.correct, second.correct, comparison.rows.group_N, deterministic=deterministic)


def of_two_models(first: Setting, second: Setting, comparison: Comparison) -> str:
    """Returns what McNemar's test says of two single runs: about these two models, not about their mechanisms."""
    [first_N], [second_N] = first.correct > 0, second.correct > 0
    p = mcnemar(first_N, second_N, comparison.rows.group_N)
    points = 100 * float(first_N.mean() - second_N.mean())
    result = "differ" if p < LEVEL else "do not differ detectably"
    return f"These two trained models, {first.name} and {second.name}, {result}: {points:+.1f} points, {_p(p)}."


def _p(value: float) -> str:
    return "p < 0.0001" if value < 0.0001 else f"p = {value:.2g}"
