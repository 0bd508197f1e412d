"""Pairs of settings that are declared before looking, their tests, and the results in words."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from sentattn.compare.settings import Setting, rest
from sentattn.compare.statistics import LEVEL, Estimate, Verdict, difference, holm, mcnemar, verdict
from sentattn.config.schema import SEEDS
from sentattn.config.targets import slots
from sentattn.config.types import Node
from sentattn.console import plural
from sentattn.metrics import Ints

SettingPair: TypeAlias = tuple[Setting, Setting]

HARDEST = "nbsvm"
"""The reference that the best setting is tested against."""


class Contrast(NamedTuple):
    """A kind of pair that is declared before looking: a setting and a control that are equal in all but one component.

    `differs` are prefixes of the keys in which the two differ.
    """

    differs: tuple[str, ...]
    has_component: Callable[[Node], bool]
    is_control: Callable[[Node], bool]


def _is_baseline(settings: Node) -> bool:
    return _attention(settings) == "uniform" or settings["model"]["attention"].get("score") == "none"


def _attention(settings: Node) -> str | None:
    return slots(settings).get("attention")


def _is_frozen(settings: Node) -> bool:
    return bool(settings["model"].get("freeze_attention"))


def _wide(settings: Node, key: str) -> Any:
    """Returns a setting of the wide part; None without such a part."""
    return (settings["model"].get("wide") or {}).get(key)


def _is_hybrid(settings: Node) -> bool:
    """Whether a model has a wide and a deep part, and is not a control of such a model."""
    is_control = _wide(settings, "attend") == "uniform" or _wide(settings, "share") == 1
    return _wide(settings, "orders") is not None and slots(settings).get("embedding") != "none" and not is_control


MECHANISM = ("model.name", "model.attention.", "model.pooling.", "loss.penalty")
"""Settings of an attention, with the pooling of its hops and the penalty on them."""
CONTRASTS = (
    Contrast(
        MECHANISM,
        lambda settings: not _is_baseline(settings) and _attention(settings) != "relation",
        lambda settings: _attention(settings) == "uniform",
    ),
    Contrast(
        MECHANISM,
        lambda settings: not _is_baseline(settings) and _attention(settings) == "relation",
        lambda settings: _is_baseline(settings) and _attention(settings) == "relation",
    ),
    Contrast(("model.freeze_attention",), lambda settings: not _is_frozen(settings), _is_frozen),
    Contrast(
        ("model.wide.attend",),
        lambda settings: _wide(settings, "attend") is True,
        lambda settings: _wide(settings, "attend") == "uniform",
    ),
    Contrast(("model.wide",), _is_hybrid, lambda settings: _wide(settings, "orders") is None),
    Contrast(("model.wide.share",), _is_hybrid, lambda settings: _wide(settings, "share") == 1),
)
"""In this order: an attention and uniform weights over the same encoder; `relation` with and without scores; a trained
attention and the same attention frozen at its initial values; learned and uniform attention over n-grams; a model with
and without a wide part; such a model and its wide part alone. Each part has its own loss, and the share only weights
the sum of their logits, so the wide part alone is the one that was trained in the model."""


@dataclass(frozen=True)
class Pair:
    """Two settings and the difference of their accuracies.

    Attributes:
        first: The attention, or any setting.
        second: Its baseline, or any other setting.
        declared: Whether the pair belongs to the family that is declared before looking.
        estimate: How much better the first is.
        p_difference: p-value of no difference; of declared pairs adjusted for their number.
        p_equivalence: p-value of a difference beyond the margin, likewise.
        levels: Levels of the two tests.
        verdict: The result of both.
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
        numbers = " and ".join(dict.fromkeys(str(len(setting.runs)) for setting in (better, worse))) + " seeds"
        details, equivalent = (
            f"{100 * confidence:.3g}%: {100 * low:.2f} to {100 * high:.2f}, {_p(p)}"
            for confidence, p, (low, high) in (
                (1 - self.levels[0], self.p_difference, self.intervals[0]),
                (1 - 2 * self.levels[1], self.p_equivalence, self.intervals[1]),
            )
            for low, high in [(-high, -low) if is_worse else (low, high)]
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


def declared_indices(settings: Sequence[Node], trained_on: Sequence[object]) -> list[tuple[int, int]]:
    """Returns the indices of the pairs that are declared before looking (`CONTRASTS`).

    Both settings of a pair were trained on the same rows. References, which have no attention, are in no pair.
    """
    trained = [index for index, of_model in enumerate(settings) if "attention" in of_model["model"]]
    return [
        (first, second)
        for differs, has_component, is_control in CONTRASTS
        for second in trained
        if is_control(settings[second])
        for first in trained
        if has_component(settings[first])
        and trained_on[first] == trained_on[second]
        and rest(settings[first], differs) == rest(settings[second], differs)
    ]


def best_against_reference(settings: Sequence[Setting], split: str) -> tuple[list[SettingPair], list[str]]:
    """Returns the pairs of NB-SVM with the setting that is best on validation rows, and remarks on missing ones.

    The setting has enough seeds and the same training rows as the reference. On validation rows there is no such pair.
    """
    pairs: list[SettingPair] = []
    notes = []
    for reference in settings:
        if reference.settings["model"].get("name") != HARDEST:
            continue
        if split == "val":
            reason = "it would be chosen by the rows it is tested on. Type split=test."
            notes.append(f"No test of the best setting against {reference.name}: {reason}")
            continue
        candidates = [
            setting
            for setting in settings
            if "attention" in setting.settings["model"]
            and setting.has_seeds
            and setting.fingerprints == reference.fingerprints
            and math.isfinite(setting.stored("val/accuracy"))
        ]
        if candidates:
            pairs.insert(0, (max(candidates, key=lambda setting: setting.stored("val/accuracy")), reference))
        else:
            notes.append(f"No setting has {SEEDS} seeds and the training rows of {reference.name}: nothing to test.")
    return pairs, notes


def evaluate_pairs(
    pairs: Sequence[SettingPair], group_N: Ints | None, margin: float, *, is_declared: bool
) -> list[Pair]:
    """Tests pairs of settings for a difference and for equivalence of their accuracy, within a margin in points.

    Pairs with too few seeds are left out. The declared ones are one family per kind of test, adjusted after Holm
    (1979); exploratory ones are not adjusted.
    """
    testable = [pair for pair in pairs if pair[0].has_seeds and pair[1].has_seeds]
    estimates = [
        difference(first.correct, second.correct, group_N, deterministic=(first.deterministic, second.deterministic))
        for first, second in testable
    ]
    p_difference = [estimate.p_difference() for estimate in estimates]
    p_equivalence = [estimate.p_equivalence(margin / 100) for estimate in estimates]
    levels = [(LEVEL, LEVEL)] * len(estimates)
    if is_declared:
        (p_difference, first_levels), (p_equivalence, second_levels) = holm(p_difference), holm(p_equivalence)
        levels = list(zip(first_levels, second_levels, strict=True))
    return [
        Pair(*pair, is_declared, estimate, p, q, level, verdict(estimate.centre, p, q))
        for pair, estimate, p, q, level in zip(testable, estimates, p_difference, p_equivalence, levels, strict=True)
    ]


def accuracies(pair: SettingPair) -> str:
    """Returns the accuracies of two settings and their difference."""
    values = [100 * float(setting.correct.mean()) for setting in pair]
    texts = [
        f"{setting.name} {value:.2f}% ({plural(len(setting.runs), 'seed')})"
        for setting, value in zip(pair, values, strict=True)
    ]
    return f"{', '.join(texts)}: {values[0] - values[1]:+.2f} points."


def more_seeds(setting: Setting) -> str:
    """Returns the command that trains the seeds that a setting lacks for an interval."""
    last = setting.runs[-1]
    missing = SEEDS - len(setting.runs)
    return f"python -m sentattn.train from={shlex.quote(str(last.run.path))} seed={last.seed + 1} seeds={missing}"


def compare_models(settings: Sequence[Setting], group_N: Ints | None) -> str:
    """Returns the result of McNemar's test of two single runs: about these two models, not about their mechanisms."""
    first, second = settings
    [first_N], [second_N] = first.correct > 0, second.correct > 0
    p = mcnemar(first_N, second_N, group_N)
    points = 100 * float(first_N.mean() - second_N.mean())
    result = "differ" if p < LEVEL else "do not differ detectably"
    return f"These two trained models, {first.name} and {second.name}, {result}: {points:+.1f} points, {_p(p)}."


def _p(value: float) -> str:
    return "p < 0.0001" if value < 0.0001 else f"p = {value:.2g}"
