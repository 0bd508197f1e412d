"""Estimates, tests and metrics of stored predictions, against independent computations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_folders import make_setting
from scipy import stats
from sklearn import metrics as reference

from sentattn.compare.metric import ACCURACY
from sentattn.compare.runs import CALIBRATED
from sentattn.compare.statistics import (
    AGREEMENT,
    BLOCKS,
    Estimate,
    Term,
    adjusted,
    average,
    blocks,
    difference,
    group_df,
    jackknife,
    row_term,
    verdict,
    welch,
)
from sentattn.metrics import Floats, calibrated_error, classifier_metrics

RANDOM = np.random.default_rng(0)


def binary(*shape: int, share: float = 0.8) -> np.ndarray:
    return (RANDOM.random(shape) < share).astype(float)


def test_two_deterministic_settings_are_a_paired_t_test_with_half_a_row_in_each_cell() -> None:
    first, second = binary(50), binary(50, share=0.6)
    ours = difference(first[None], second[None], deterministic=(True, True))
    both = np.concatenate([np.repeat(first - second, 2), [1, 0, 0, -1]])  # half rows
    n, mean = len(both) / 2, both.mean()
    error = math.sqrt(np.square(both - mean).sum() / 2 / (n - 1) / n)
    assert ours.value == pytest.approx((first - second).mean())
    assert ours.p_difference() == pytest.approx(2 * stats.t.sf(abs(mean) / error, n - 1), rel=1e-9)
    half = stats.t.ppf(0.975, n - 1) * error
    assert ours.interval() == pytest.approx((mean - half, mean + half), rel=1e-9)


def test_half_rows_are_those_of_agresti_and_min() -> None:
    first_only, second_only, n = 7, 3, 40
    values = np.repeat([1.0, -1.0, 0.0], [first_only, second_only, n - first_only - second_only])
    ours = difference(values[None] > 0, values[None] < 0, deterministic=(True, True))
    b, c, m = first_only + 0.5, second_only + 0.5, n + 2  # cells of the table of both, and its total
    assert ours.centre == pytest.approx((b - c) / m)
    assert ours.terms[0].variance == pytest.approx(((b + c) - (b - c) ** 2 / m) / m / (m - 1))


def test_errors_of_several_sources_add_up_as_squares_of_half_widths() -> None:
    ours = Estimate(0.1, [Term(0.04, 2), Term(0.09, 30)])
    half = math.hypot(stats.t.ppf(0.975, 2) * 0.2, stats.t.ppf(0.975, 30) * 0.3)
    assert ours.error == pytest.approx(math.sqrt(0.13))
    assert ours.interval() == pytest.approx((0.1 - half, 0.1 + half), rel=1e-9)


@given(st.floats(0.001, 2), st.floats(1, 40), st.floats(1, 400), st.floats(0, 1))
def test_p_values_are_the_levels_at_which_intervals_end(value: float, df: float, other: float, share: float) -> None:
    ours = Estimate(value, [Term(share, df), Term(1 - share, other)])
    p = ours.p_difference()
    assert ours.interval(1 - p)[0] == pytest.approx(0, abs=1e-6)
    assert ours.p_equivalence(2 * value) == pytest.approx(p / 2)
    assert ours.p_equivalence(value / 2) > 0.5


def test_degrees_of_freedom_of_the_seeds_lie_between_those_of_one_setting_and_welchs() -> None:
    equal, one = welch(Term(0.5, 4), Term(0.5, 4)), welch(Term(0.5, 4), Term(0.0, 2))
    assert (equal.variance, equal.df) == (1.0, 7.0)  # Welch has 8
    assert (one.variance, one.df) == (0.5, 2.0)
    assert welch(Term(0.5, 2), Term(0.5, 4)).df == pytest.approx(3.0)


def test_seeds_and_rows_by_hand() -> None:
    first, second = binary(3, 40), binary(4, 40)
    ours = difference(first, second)
    [rows, seeds] = ours.terms
    variance, of_seeds = row_term(first.mean(0) - second.mean(0), None, AGREEMENT).variance, []
    for values in (first, second):
        count = len(values)
        # Two-way analysis of variance, one observation a cell: the mean square of seed by row.
        residuals = values - values.mean(0) - values.mean(1)[:, None] + values.mean()
        particular = np.square(residuals).sum() / (count - 1) / (40 - 1) / 40 / count
        of_seeds.append(max(values.mean(1).var(ddof=1) / count, particular))
        variance -= particular
    assert rows.variance == pytest.approx(max(variance, 0), rel=1e-9)
    assert seeds.variance == pytest.approx(sum(of_seeds), rel=1e-9)


@pytest.mark.parametrize("seeds", [1, 3])
def test_rows_that_are_all_predicted_correctly_are_no_certainty(seeds: int) -> None:
    perfect = np.ones((seeds, 20))
    ours = difference(perfect, perfect, deterministic=(seeds == 1, seeds == 1))
    assert ours.p_equivalence(0.005) > 0.4
    assert ours.p_equivalence(0.1) > 0.01
    low, high = ACCURACY.average(perfect, None, deterministic=seeds == 1).interval()
    assert high == 1
    # The exact interval (Clopper and Pearson 1934) begins at 0.832.
    assert 0.7 < low < 0.9


@given(st.integers(1, 60), st.data())
def test_intervals_of_an_accuracy_lie_between_0_and_1(rows: int, data: st.DataObject) -> None:
    correct = np.array(data.draw(st.lists(st.lists(st.booleans(), min_size=rows, max_size=rows), min_size=1)), float)
    low, high = ACCURACY.average(correct, None).interval()
    assert 0 <= low < high <= 1


def test_runs_of_equal_accuracy_that_err_on_other_rows_are_no_certainty() -> None:
    values = np.ones((3, 30))
    values[[0, 1, 2], [0, 1, 2]] = 0
    ours = difference(values, values[::-1])
    assert ours.error > math.sqrt(2 * (1 / 30 - 1 / 900) / 30 / 3) * 0.9


def test_three_seeds_against_a_deterministic_setting_find_no_difference_too_often() -> None:
    """In the worst case, where seeds and rows matter: at 5% as at the level of nine pairs."""
    random, repetitions, rows = np.random.default_rng(0), 4000, 100
    p = []
    for _ in range(repetitions):
        noise = random.normal(size=rows)
        seeds = random.normal(size=(3, 1)) * math.sqrt(3 * 8 / rows)
        p.append(difference(noise + seeds, np.zeros((1, rows)), deterministic=(False, True)).p_difference())
    for level, most in ((0.05, 0.055), (0.05 / 9, 0.008)):
        assert np.mean(np.array(p) < level) < most + 2 * math.sqrt(level / repetitions)


def test_groups_by_hand() -> None:
    values, groups = np.array([1.0, 1, 0, 0, 1, 0]), np.array([0, 0, 1, 1, 2, 2])
    term = row_term(values, groups)  # sums of deviations from 1/2 are 1, -1, 0
    assert term.variance == pytest.approx(3 / 2 * 2 / 36)
    assert term.df == pytest.approx(2)


def test_uneven_groups_by_matrices() -> None:
    """The variance and its degrees of freedom as Bell and McCaffrey (2002) have them for a regression on a constant."""
    sizes = np.array([1, 3, 4, 12])
    groups, values = np.repeat(np.arange(4), sizes), RANDOM.random(20)
    deviations, x = values - values.mean(), np.ones((20, 1))
    middle, forms = 0.0, []
    for group in range(4):
        rows = groups == group
        hat = np.eye(20) - x @ x.T / 20
        spectrum, vectors = np.linalg.eigh(hat[np.ix_(rows, rows)])
        adjustment = vectors @ np.diag(spectrum**-0.5) @ vectors.T
        middle += float(np.ones(rows.sum()) @ adjustment @ deviations[rows]) ** 2
        forms.append(hat[:, rows] @ adjustment @ np.ones(rows.sum()) / 20)
    term = row_term(values, groups)
    assert term.variance == pytest.approx(middle / 20**2, rel=1e-9)
    same, squares = groups[:, None] == groups, np.outer(deviations, deviations)
    pairs = same & ~np.eye(20, dtype=bool)
    correlation = max(0.0, squares[pairs].mean() / np.square(deviations).mean())
    covariance = np.where(pairs, correlation, 0.0) + np.eye(20)
    products = np.array(forms) @ covariance @ np.array(forms).T
    assert term.df == pytest.approx(np.trace(products) ** 2 / (products**2).sum(), abs=1e-4)


@given(st.integers(2, 40), st.integers(1, 30), st.floats(0, 1))
def test_equal_groups_have_one_degree_of_freedom_less(groups: int, size: int, correlation: float) -> None:
    assert group_df(np.full(groups, float(size)), correlation) == groups - 1


@given(st.lists(st.integers(1, 500), min_size=2, max_size=30), st.floats(0, 1))
def test_uneven_groups_have_between_one_and_that(sizes: list[int], correlation: float) -> None:
    assert 1 - 1e-4 <= group_df(np.array(sizes, float), correlation) <= len(sizes) - 1 + 1e-4


@pytest.mark.parametrize("sizes", [[150] * 4, [30] * 20, [180] + [42] * 10, [180, *[6] * 70]])
def test_groups_give_no_false_alarms_too_often(sizes: list[int]) -> None:
    """Settings of equal accuracy that differ by group, as over films; one group may have 30% of the rows."""
    random, repetitions = np.random.default_rng(0), 1000
    groups, found = np.repeat(np.arange(len(sizes)), sizes), 0
    for _ in range(repetitions):
        shares = 0.8 + random.normal(0, 0.03, (2, 1, len(sizes)))[..., groups]
        first, second = (random.random((3, len(groups))) < np.clip(share, 0, 1) for share in shares)
        found += difference(first.astype(float), second.astype(float), groups).p_difference() < 0.05
    assert found / repetitions < 0.055 + 2 * math.sqrt(0.05 / repetitions)


def test_groups_of_one_row_are_no_groups() -> None:
    values = RANDOM.random(30)
    assert row_term(values, np.arange(30)).variance == pytest.approx(row_term(values).variance, rel=1e-9)


@pytest.mark.parametrize("value", [0.002, -0.004])
def test_equivalence_is_two_one_sided_tests(value: float) -> None:
    sample = RANDOM.normal(0, 0.02, 60)
    sample += value - sample.mean()
    ours = Estimate(value, [row_term(sample)]).p_equivalence(0.01)
    above = stats.ttest_1samp(sample, -0.01, alternative="greater").pvalue
    below = stats.ttest_1samp(sample, 0.01, alternative="less").pvalue
    assert ours == pytest.approx(max(above, below), rel=1e-9)


@pytest.mark.parametrize("level", [0.05, 0.05 / 9])
def test_the_detectable_difference_is_that_of_the_level(level: float) -> None:
    expected = (stats.t.ppf(1 - level / 2, 5) + stats.t.ppf(0.8, 5)) * 0.3
    assert Estimate(0.0, [Term(0.09, 5)]).detectable(level) == pytest.approx(expected, rel=1e-9)


def test_without_any_error() -> None:
    same, other = Estimate(0.0, []), Estimate(0.01, [])
    assert (same.p_difference(), other.p_difference()) == (1.0, 0.0)
    assert (other.p_equivalence(0.02), other.p_equivalence(0.005)) == (0.0, 1.0)
    assert other.interval() == (0.01, 0.01)


def test_jackknife_of_a_mean_is_its_error() -> None:
    values = RANDOM.random(25)
    without = (values.sum() - values) / 24
    assert jackknife(values.mean(), without).variance == pytest.approx(row_term(values).variance, rel=1e-9)


def test_p_values_of_a_family_are_multiplied_by_their_number() -> None:
    assert adjusted([0.01, 0.04, 0.3]) == pytest.approx([0.03, 0.12, 0.9])
    assert adjusted([0.5, 0.6]) == [1.0, 1.0]
    assert adjusted([]) == []


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0.01, 1)), min_size=1, max_size=8))
def test_an_interval_of_the_family_without_0_is_its_verdict(values: list[tuple[float, float]]) -> None:
    found = [Estimate(value, [Term(variance, 7)]) for value, variance in values]
    for estimate, p in zip(found, adjusted([estimate.p_difference() for estimate in found]), strict=True):
        low, high = estimate.interval(1 - 0.05 / len(found))
        assert (p < 0.05) == (low > 0 or high < 0) or abs(p - 0.05) < 1e-6


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


def predictions(seeds: int, rows: int, classes: int) -> tuple[Floats, np.ndarray]:
    probabilities = RANDOM.dirichlet(np.ones(classes), (seeds, rows))
    return probabilities, RANDOM.integers(classes, size=rows)


def test_values_are_the_means_over_seeds_of_the_metrics_of_each() -> None:
    probabilities, labels = predictions(3, 300, 4)
    found = replace(make_setting(probabilities, labels), ordered=True).metrics
    of_seeds = [classifier_metrics(one, labels, ordered=True) for one in probabilities]
    expected = {name: float(np.mean([one[name] for one in of_seeds])) for name in of_seeds[0]}
    assert {name: found[name].value for name in expected} == pytest.approx(expected, rel=1e-12)
    assert set(found) - set(expected) == {CALIBRATED}


def test_a_calibration_error_has_no_interval_and_that_of_a_calibrated_model_beside_it() -> None:
    probabilities, _ = predictions(2, 3000, 3)
    draws = RANDOM.random((3000, 1)) > probabilities[0].cumsum(axis=1)
    found = make_setting(probabilities[:1], draws.sum(axis=1)).metrics  # labels drawn from the probabilities
    error, calibrated = found["calibration_error"], found[CALIBRATED]
    assert np.isnan([error.error, calibrated.error]).all()
    assert calibrated.value == pytest.approx(calibrated_error(probabilities[0].max(axis=1)))
    assert 0.5 < error.value / calibrated.value < 2


def test_errors_have_terms_of_rows_and_seeds() -> None:
    probabilities, labels = predictions(3, 400, 2)
    correct = probabilities.argmax(2) == labels
    added = np.concatenate([correct.mean(0), [1, 1, 0, 0]])  # Agresti and Coull
    rows, seeds = added.var(ddof=1) / 404, correct.mean(1).var(ddof=1) / 3
    found = make_setting(probabilities, labels).metrics["accuracy"]
    assert found.error == pytest.approx((rows + seeds) ** 0.5, rel=1e-9)
    alone = make_setting(probabilities, labels, deterministic=True).metrics["accuracy"]
    assert alone.error == pytest.approx(rows**0.5, rel=1e-9)


def test_f1_has_an_error_near_a_bootstrap() -> None:
    probabilities, labels = predictions(1, 2000, 3)
    found = make_setting(probabilities, labels).metrics
    predicted = probabilities[0].argmax(1)
    draws = [RANDOM.integers(2000, size=2000) for _ in range(300)]
    f1 = [reference.f1_score(labels[rows], predicted[rows], average="macro") for rows in draws]
    assert found["f1_macro"].error == pytest.approx(np.std(f1), rel=0.2)


def test_blocks_keep_groups_together_and_are_even() -> None:
    groups = RANDOM.integers(450, size=5000)
    block = blocks(5000, groups)
    assert all(len(set(block[groups == group])) == 1 for group in set(groups))
    units = [len(set(groups[block == number])) for number in range(BLOCKS)]
    assert max(units) - min(units) <= 1
    assert len(set(blocks(7, None))) == 7


def test_the_average_over_folds_is_the_corrected_repeated_t_test_of_nadeau_and_bengio() -> None:
    values_SN = RANDOM.normal(0.3, 1, (3, 100))
    fold_SN = np.array([RANDOM.permutation(np.arange(100) % 5) for _ in range(3)])
    means = [values_SN[s, fold_SN[s] == fold].mean() for s in range(3) for fold in range(5)]
    error = np.std(means, ddof=1) * math.sqrt(1 / 15 + 20 / 80)
    ours = average(values_SN, fold_SN=fold_SN)
    assert ours.value == pytest.approx(values_SN.mean())
    assert ours.p_difference() == pytest.approx(2 * stats.t.sf(abs(values_SN.mean()) / error, 14))
    half = stats.t.ppf(0.975, 14) * error
    assert ours.interval() == pytest.approx((values_SN.mean() - half, values_SN.mean() + half))


@pytest.mark.parametrize("groups", [False, True])
def test_folds_that_are_alike_have_the_error_of_their_rows(groups: bool) -> None:
    values_N = np.tile([1.0, 0.0, 0.0, 0.0, -1.0], 20)
    group_N = np.arange(100) // 10 if groups else None
    ours = average(values_N[None], group_N, fold_SN=np.arange(100)[None] // 20, half_rows=AGREEMENT)
    assert ours.terms[0] == Term(row_term(values_N, group_N, AGREEMENT).variance, 4)
    assert ours.error > 0
