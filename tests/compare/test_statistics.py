"""Statistics of a comparison against SciPy and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sentattn.compare.statistics import (
    Estimate,
    difference,
    holm,
    jackknife,
    mcnemar,
    row_term,
    seed_term,
    verdict,
)

RANDOM = np.random.default_rng(0)


def test_two_deterministic_settings_are_a_paired_t_test() -> None:
    first, second = RANDOM.normal(0.1, 1, 50), RANDOM.normal(0, 1, 50)
    ours = difference(first[None], second[None], deterministic=(True, True))
    reference = stats.ttest_rel(first, second)
    low, high = reference.confidence_interval(0.95)
    assert ours.p_difference() == pytest.approx(reference.pvalue, rel=1e-9)
    assert ours.interval() == pytest.approx((low, high), rel=1e-9)


def test_seeds_alone_are_welchs_t_test() -> None:
    first_S, second_S = np.array([0.91, 0.93, 0.90]), np.array([0.88, 0.89, 0.85, 0.90])
    ours = difference(np.repeat(first_S[:, None], 7, 1), np.repeat(second_S[:, None], 7, 1))
    reference = stats.ttest_ind(first_S, second_S, equal_var=False)
    assert ours.p_difference() == pytest.approx(reference.pvalue, rel=1e-9)
    assert ours.df == pytest.approx(reference.df, rel=1e-9)


def test_terms_add_up_by_hand() -> None:
    first, second = RANDOM.random((3, 40)), RANDOM.random((2, 40))
    rows = np.var(first.mean(0) - second.mean(0), ddof=1) / 40
    a, b = np.var(first.mean(1), ddof=1) / 3, np.var(second.mean(1), ddof=1) / 2
    ours = difference(first, second)
    assert ours.error == pytest.approx(math.sqrt(rows + a + b), rel=1e-9)
    assert ours.df == pytest.approx((rows + a + b) ** 2 / (rows**2 / 39 + a**2 / 2 + b**2 / 1), rel=1e-9)


def test_groups_by_hand() -> None:
    values, groups = np.array([1.0, 1, 0, 0, 1, 0]), np.array([0, 0, 1, 1, 2, 2])
    term = row_term(values, groups)  # sums of deviations from 1/2 are 1, -1, 0
    assert term.variance == pytest.approx(3 / 2 * 2 / 36)
    assert term.df == 2


def test_groups_of_one_row_are_no_groups() -> None:
    values = RANDOM.random(30)
    assert row_term(values, np.arange(30)).variance == pytest.approx(row_term(values).variance, rel=1e-9)


@pytest.mark.parametrize("value", [0.002, -0.004])
def test_equivalence_is_two_one_sided_tests(value: float) -> None:
    sample = RANDOM.normal(0, 0.02, 60)
    sample += value - sample.mean()
    ours = Estimate.of(value, [row_term(sample)]).p_equivalence(0.01)
    above = stats.ttest_1samp(sample, -0.01, alternative="greater").pvalue
    below = stats.ttest_1samp(sample, 0.01, alternative="less").pvalue
    assert ours == pytest.approx(max(above, below), rel=1e-9)


def test_detectable_difference() -> None:
    expected = (stats.t.ppf(0.975, 5) + stats.t.ppf(0.8, 5)) * 0.3
    assert Estimate(0.0, 0.3, 5).detectable() == pytest.approx(expected, rel=1e-9)


def test_without_any_error() -> None:
    same, other = Estimate.of(0.0, []), Estimate.of(0.01, [])
    assert (same.p_difference(), other.p_difference()) == (1.0, 0.0)
    assert (other.p_equivalence(0.02), other.p_equivalence(0.005)) == (0.0, 1.0)
    assert other.interval() == (0.01, 0.01)


@pytest.mark.parametrize(("first_only", "second_only"), [(0, 0), (3, 9), (20, 20), (40, 10)])
def test_mcnemar_is_a_binomial_test(first_only: int, second_only: int) -> None:
    first = np.array([True] * first_only + [False] * second_only + [True] * 5)
    second = np.array([False] * first_only + [True] * second_only + [True] * 5)
    changed = first_only + second_only
    expected = stats.binomtest(first_only, changed).pvalue if changed else 1.0
    assert mcnemar(first, second) == pytest.approx(expected, rel=1e-9)


def test_mcnemar_by_groups_is_a_test_of_the_sums_of_groups() -> None:
    first, second = RANDOM.random(60) < 0.8, RANDOM.random(60) < 0.7
    groups = np.repeat(np.arange(20), 3)
    sums = (first.astype(float) - second).reshape(20, 3).sum(1)
    expected = stats.ttest_1samp(sums, 0).pvalue
    assert mcnemar(first, second, groups) == pytest.approx(expected, rel=1e-9)


def test_jackknife_of_a_mean_is_its_error() -> None:
    values = RANDOM.random(25)
    without = (values.sum() - values) / 24
    assert jackknife(values.mean(), without).variance == pytest.approx(row_term(values).variance, rel=1e-9)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_lowers_no_p_value_and_keeps_their_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= a <= 1 for p, a in zip(p_values, adjusted, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [adjusted[i] for i in order] == sorted(adjusted)


@given(st.integers(2, 5), st.integers(2, 5), st.integers(0, 1000))
def test_a_difference_has_a_sign_and_no_direction(first: int, second: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    a, b = random.random((first, 20)), random.random((second, 20))
    there, back = difference(a, b), difference(b, a)
    assert there.value == pytest.approx(-back.value)
    assert there.p_difference() == pytest.approx(back.p_difference())


@pytest.mark.parametrize(
    ("value", "p_difference", "p_equivalence", "expected"),
    [
        (0.02, 0.01, 0.9, "better"),
        (-0.02, 0.01, 0.9, "worse"),
        (0.001, 0.5, 0.01, "equivalent"),
        (0.001, 0.01, 0.01, "better within margin"),
        (-0.001, 0.01, 0.01, "worse within margin"),
        (0.01, 0.2, 0.2, "undecided"),
    ],
)
def test_verdicts(value: float, p_difference: float, p_equivalence: float, expected: str) -> None:
    assert verdict(value, p_difference, p_equivalence) == expected


def test_one_seed_has_no_seed_term() -> None:
    with pytest.raises(AssertionError):
        seed_term(np.array([0.5]))
