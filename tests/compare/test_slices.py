"""Slices of rows, and the accuracy on them, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from run_folders import make_setting
from scipy import stats

from sentattn.compare.report.summaries import (
    CONTRAST,
    MIN_ROWS,
    NEGATION,
    Slice,
    accuracy,
    by_class,
    by_length,
    by_stars,
    by_words,
)
from sentattn.compare.settings import Setting


def found(slices: list[Slice]) -> dict[str, list[int]]:
    return {one.name: one.chosen_K.tolist() for one in slices}


def setting(correct_SN: np.ndarray, *, groups: np.ndarray | None = None, deterministic: bool = False) -> Setting:
    """A setting that is right where it is told, on rows of class 0."""
    probabilities = np.where(correct_SN[..., None] == 1, [0.9, 0.1], [0.2, 0.8])
    return make_setting(probabilities, np.zeros(correct_SN.shape[1], int), groups=groups, deterministic=deterministic)


def test_slices_of_length_are_about_equally_large() -> None:
    lengths = np.random.default_rng(0).permutation(np.arange(1, 201))
    slices = by_length(lengths)
    assert [one.name for one in slices] == ["1 to 40", "41 to 80", "81 to 120", "121 to 160", "161 to 200"]
    assert all(len(one.chosen_K) == 40 for one in slices)
    assert all(lengths[one.chosen_K].max() - lengths[one.chosen_K].min() == 39 for one in slices)


def test_rows_of_one_length_share_a_slice() -> None:
    lengths = np.array([5] * 150 + [9] * 25 + [600] * 25)
    assert found(by_length(lengths)) == {
        "5": list(range(150)),
        "9": list(range(150, 175)),
        "600": list(range(175, 200)),
    }
    assert by_length(np.full(100, 600)) == []


def test_small_slices_and_a_single_one_are_left_out() -> None:
    labels = np.repeat([0, 1, 2], [MIN_ROWS, MIN_ROWS, MIN_ROWS - 1])
    assert [one.name for one in by_class(labels, ["a", "b", "c"])] == ["a", "b"]
    assert by_class(labels[MIN_ROWS:], ["a", "b", "c"]) == []
    assert [one.name for one in by_stars(np.repeat([10, 1, 7], 20))] == ["1", "7", "10"]


@pytest.mark.parametrize(
    ("text", "negation", "contrast"),
    [
        ("It was not good.", True, False),
        ("I DON'T know", True, False),
        ("I didn\u2019t laugh, but she did", True, True),
        ("Notable knots, a nobleman", False, False),
        ("However, it works", False, True),
        ("Buttons and yeti", False, False),
        ("nothing works; even if it is late", True, True),
    ],
)
def test_words_of_negation_and_contrast(text: str, *, negation: bool, contrast: bool) -> None:
    assert bool(NEGATION.search(text)) == negation
    assert bool(CONTRAST.search(text)) == contrast


def test_texts_with_and_without_words() -> None:
    texts = ["fine", "not fine"] * 20
    assert found(by_words(texts, NEGATION)) == {"without": list(range(0, 40, 2)), "with": list(range(1, 40, 2))}


def test_an_interval_counts_rows_and_seeds_of_the_slice_alone() -> None:
    correct = np.random.default_rng(1).integers(2, size=(3, 100))
    chosen = np.arange(10, 60)
    part = correct[:, chosen]
    added = np.concatenate([part.mean(0), [1, 1, 0, 0]])  # Agresti and Coull
    rows, seeds, centre = added.var(ddof=1) / 54, part.mean(1).var(ddof=1) / 3, added.mean()
    of_rows, of_seeds = stats.t.ppf(0.975, 53) * rows**0.5, stats.t.ppf(0.975, 2) * seeds**0.5
    half = np.hypot(of_rows, of_seeds)
    value = accuracy(setting(correct), chosen)
    assert (value.value, *value.interval()) == pytest.approx((part.mean(), centre - half, centre + half), rel=1e-9)
    fixed = accuracy(setting(correct, deterministic=True), chosen)
    assert fixed.interval()[1] == pytest.approx(centre + of_rows)


def test_groups_without_a_row_in_the_slice_do_not_count() -> None:
    correct = np.array([[1, 1, 0, 0, 1, 0, 1, 1, 1, 1]])
    groups = np.array([0, 0, 3, 3, 7, 7, 9, 9, 9, 9])
    value = accuracy(setting(correct, groups=groups), np.arange(6))
    # Sums of deviations from 1/2 are 1, -1, 0, and the squares of those of four rows more 1/4 each.
    half = stats.t.ppf(0.975, 6) * (7 / 6 * 3 / 100) ** 0.5
    assert value.interval() == pytest.approx((max(0, 0.5 - half), min(1, 0.5 + half)))


def test_where_all_rows_are_right_the_interval_is_about_wilsons() -> None:
    value = accuracy(setting(np.ones((2, 30))), np.arange(30))
    z = stats.norm.ppf(0.975)
    assert (value.value, *value.interval()) == pytest.approx((1, 30 / (30 + z**2), 1), abs=0.05)
