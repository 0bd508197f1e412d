"""Is one setting better than another? Estimates whose errors come from test rows and from seeds.

A setting is trained with several seeds, and each run is evaluated on the same test rows. Another training would have
another seed, and other rows might have been in the test set, so an estimate has a variance from both.

Arguments: S seeds, N rows, C classes. `correct_SN` is 1 for each seed and row that is predicted correctly, else 0.
`group_N` has the number of each row's group, such as its film, and is None where rows are independent. `deterministic`
says that all trainings of a setting are equal, so that there is no error from seeds.

`benchmarks/compare_error_rates.py` simulates the error rates of all that is computed here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from sentattn.metrics import Floats, Ints

Verdict: TypeAlias = Literal[
    "better", "worse", "equivalent", "better within margin", "worse within margin", "undecided"
]

LEVEL = 0.05
"""Of each family of tests."""
POWER = 0.8
FEWEST_DF, FEW_DF = 2.0, 10.0
"""Degrees of freedom of the rows below which there is no verdict, and below which a remark says that groups are few."""
AGREEMENT = (1.0, 0.0, 0.0, -1.0)
"""A difference of correctness in the four cells: the first alone is correct, both, none, the second alone."""
TWO_EACH = (1.0,) * 4 + (0.0,) * 4
"""Two correct and two wrong rows as half rows."""
SMALLEST_P = 1e-12
BLOCKS = 200
"""Blocks of rows that the jackknife leaves out, one at a time."""


@dataclass(frozen=True)
class Term:
    """One source of an estimate's error.

    Attributes:
        variance: Of the estimate.
        df: Degrees of freedom of that variance.
    """

    variance: float
    df: float


UNKNOWN_TERM = Term(math.nan, 1.0)
"""The error of a value whose variance cannot be estimated."""


@dataclass(frozen=True)
class Estimate:
    """A value with errors from several sources, each of which has a variance that is estimated by itself.

    Half of the interval at the two-sided level a is sqrt(sum_i t_i^2 V_i), where V_i is a source's variance and t_i the
    quantile 1 - a/2 of Student's t with its degrees of freedom. The interval holds the true value with a probability of
    at least 1 - a, for any true variances (Banerjee 1960). With one t for the sum, whose degrees of freedom
    follow Satterthwaite (1946), it would not: three seeds may by chance be alike, and then both the error and its t are
    small.

    Attributes:
        value: The estimate.
        terms: The sources of its error.
        bounds: The least and the largest value that are possible.
        with_half_rows: The value with the half rows that were added for its interval and tests, if any were.
    """

    value: float
    terms: Sequence[Term]
    bounds: tuple[float, float] = (-math.inf, math.inf)
    with_half_rows: float | None = None

    @property
    def centre(self) -> float:
        """The centre of its interval and tests."""
        return self.value if self.with_half_rows is None else self.with_half_rows

    @property
    def error(self) -> float:
        """The standard error."""
        return math.sqrt(sum(term.variance for term in self.terms))

    @property
    def df(self) -> float:
        """The degrees of freedom of its first term, that of the rows."""
        return self.terms[0].df if self.terms else math.inf

    def half_width(self, confidence: float = 1 - LEVEL) -> float:
        """Returns half of the two-sided confidence interval."""
        return half_width(self.terms, (1 - confidence) / 2)

    def interval(self, confidence: float = 1 - LEVEL) -> tuple[float, float]:
        """Returns the two-sided confidence interval, within the bounds."""
        half, (least, largest) = self.half_width(confidence), self.bounds
        return max(least, self.centre - half), min(largest, self.centre + half)

    def p_difference(self) -> float:
        """Returns the two-sided p-value of a true value of 0."""
        return 2 * self._p_above(abs(self.centre))

    def p_equivalence(self, margin: float) -> float:
        """Returns the p-value of a true value beyond +-margin: the larger of two one-sided tests (Schuirmann 1987)."""
        return self._p_above(margin - abs(self.centre))

    def p_worse(self, margin: float) -> float:
        """Returns the one-sided p-value of a true value of -margin or less."""
        return self._p_above(margin + self.centre)

    def detectable(self, level: float = LEVEL) -> float:
        """Returns the true value that a two-sided test at a level finds in about 80% of repetitions."""
        return half_width(self.terms, level / 2) + half_width(self.terms, 1 - POWER)

    def _p_above(self, distance: float) -> float:
        """Returns the probability that an error lies above a distance: where the interval's end is."""
        from scipy.optimize import brentq
        from scipy.special import stdtr

        if distance < 0:
            return 1 - self._p_above(-distance)
        if not self.error:
            return 0.5 if distance == 0 else 0.0
        # It lies between the tails of Student's t with the most and with the fewest degrees of freedom.
        df = [term.df for term in self.terms if term.variance > 0]
        low, high = (float(stdtr(degrees, -distance / self.error)) for degrees in (max(df), min(df)))
        low = max(low, SMALLEST_P)
        if high <= low or half_width(self.terms, low) <= distance:
            return min(low, high)

        def excess(log_p: float) -> float:
            return half_width(self.terms, math.exp(log_p)) - distance

        return math.exp(brentq(excess, math.log(low) - 0.01, math.log(0.5)))  # a little lower, against rounding


def half_width(terms: Sequence[Term], tail: float) -> float:
    """Returns sqrt(sum_i t_i^2 V_i), beyond which an error lies on one side with a probability of at most `tail`."""
    from scipy.special import stdtrit

    return math.sqrt(sum(stdtrit(term.df, tail) ** 2 * term.variance for term in terms))


def welch(first: Term, second: Term) -> Term:
    """Returns the error of a difference that comes from the seeds of two settings.

    The degrees of freedom are 1 + (f - 1) V^2 / (V_A^2 + V_B^2), where f is the smaller of the two: those of Welch
    (1947) for equal numbers of seeds, less what makes his test liberal with three to five seeds.
    """
    variance = first.variance + second.variance
    ratio = variance**2 / max(first.variance**2 + second.variance**2, sys.float_info.min)
    return Term(variance, 1 + (min(first.df, second.df) - 1) * min(max(ratio, 1.0), 2.0))


def row_term(values_N: Floats, group_N: Ints | None = None, half_rows: Sequence[float] = ()) -> Term:
    """Returns the error of a mean that comes from its rows.

    With groups of n_g rows it is that of Bell and McCaffrey (2002, CR2) for a mean: the sum over groups of e_g^2 /
    (1 - n_g / N), over N^2, where e_g is the sum of a group's deviations, with the degrees of freedom of `group_df`.
    Groups alone count for them, not half rows.

    Args:
        values_N: A value for each row.
        group_N: Number of each row's group.
        half_rows: Values that are added with half a row each, independent of all others. They keep rows that are all
            alike from having no variance.
    """
    count, mean = len(values_N) + len(half_rows) / 2, _mean(values_N, half_rows)
    deviations_N = values_N - mean
    of_half_rows = sum((value - mean) ** 2 for value in half_rows) / 2
    if group_N is None:
        squares = float(deviations_N @ deviations_N) + of_half_rows
        return Term(count / (count - 1) * squares / count**2, count - 1) if count >= 2 else Term(0.0, 1.0)
    sizes_G = np.bincount(group_N).astype(np.float64)
    sums_G = np.bincount(group_N, weights=deviations_N).astype(np.float64)
    sizes_G, sums_G = sizes_G[sizes_G > 0], sums_G[sizes_G > 0]  # of the slice of rows, where it is one
    if len(sizes_G) < 2:
        return Term(0.0, 1.0)
    squares = float((np.square(sums_G) / (1 - sizes_G / sizes_G.sum())).sum()) + of_half_rows
    return Term(squares / count**2, group_df(sizes_G, _correlation(deviations_N, sums_G, sizes_G)))


def group_df(sizes_G: Floats, correlation: float) -> float:
    """Returns the degrees of freedom of the variance of a mean over groups of rows.

    They are those of Satterthwaite for the quadratic form T' B T in the sums T of the groups (Bell and McCaffrey 2002),
    whose variances are n_g (1 + (n_g - 1) r) for a correlation r within groups (Imbens and Kolesar 2016):
    tr(B O)^2 / tr(B O B O). Equal groups have G - 1; one that is large has few, however many others there are.

    Args:
        sizes_G: Rows of each group, two groups or more.
        correlation: The correlation r of the rows of a group, between 0 and 1.
    """
    shares_G = sizes_G / sizes_G.sum()
    variances_G = sizes_G * (1 + (sizes_G - 1) * correlation)
    # B = (I - p 1')' D (I - p 1') with D = diag(1 / (1 - p)), so B_gh = D_g [g = h] - q_g - q_h + c.
    weights_G = 1 / (1 - shares_G)
    q_G = weights_G * shares_G
    c = float(q_G @ shares_G)
    total, once, twice = (float((variances_G * q_G**power).sum()) for power in (0, 1, 2))
    others = c**2 * total**2 + 2 * twice * total - 4 * c * once * total + 2 * once**2
    diagonal = np.square(weights_G - 2 * q_G + c) - np.square(c - 2 * q_G)
    trace = float((variances_G * (weights_G - 2 * q_G + c)).sum())
    df = trace**2 / (others + float((np.square(variances_G) * diagonal).sum()))
    return round(df, 4)  # three equal groups have two, for any last digits


def _correlation(deviations_N: Floats, sums_G: Floats, sizes_G: Floats) -> float:
    """Returns the correlation of the rows of a group, by moments: the mean product of two rows over the mean square."""
    pairs = float((sizes_G * (sizes_G - 1)).sum())
    squares = float(deviations_N @ deviations_N)
    if not pairs or not squares:
        return 0.0
    products = float(sums_G @ sums_G) - squares
    return min(1.0, max(0.0, products / pairs / (squares / len(deviations_N))))


def _mean(values_N: Floats, half_rows: Sequence[float]) -> float:
    return float((values_N.sum() + sum(half_rows) / 2) / (len(values_N) + len(half_rows) / 2))


def seed_term(means_S: Floats) -> Term:
    """Returns the error of the mean over two or more seeds that comes from the seeds, from the mean of each run."""
    seeds = len(means_S)
    assert seeds > 1, "one seed says nothing about another"
    return Term(float(means_S.var(ddof=1)) / seeds, seeds - 1)


def average(
    values_SN: Floats,
    group_N: Ints | None = None,
    *,
    fold_SN: Ints | None = None,
    deterministic: bool = False,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    half_rows: Sequence[float] = (),
) -> Estimate:
    """Returns the mean over seeds and rows of a value of each, with its error over new seeds and new rows.

    With one seed of a setting that is not deterministic the error is that of the rows alone.

    Args:
        values_SN: A value for each seed and row, such as 1 where it is correct, or a difference.
        group_N: Number of each row's group.
        fold_SN: The number of the fold in which the row was tested, from 0, all rows of a group in one; None without
            folds. The error is that of folds (`_fold_term`), and no less than that of rows: few rows are alike by
            chance.
        deterministic: Whether all trainings are equal.
        bounds: The least and the largest mean that are possible.
        half_rows: Values that are added with half a row each: of correctness, two correct and two wrong rows (Agresti
            and Coull 1998).
    """
    values_N = values_SN.mean(axis=0)
    terms = [row_term(values_N, group_N, half_rows)]
    if fold_SN is not None:
        of_folds = _fold_term(values_SN, fold_SN)
        terms = [Term(max(of_folds.variance, terms[0].variance), of_folds.df)]
    elif len(values_SN) > 1 and not deterministic:
        terms.append(seed_term(values_SN.mean(axis=1)))
    return Estimate(float(values_N.mean()), terms, bounds, _mean(values_N, half_rows) if half_rows else None)


def difference(
    first_SN: Floats,
    second_SN: Floats,
    group_N: Ints | None = None,
    *,
    deterministic: Sequence[bool] = (False, False),
    bounds: tuple[float, float] = (-1.0, 1.0),
    half_rows: Sequence[float] = AGREEMENT,
) -> Estimate:
    """Returns how much larger the values of the first of two settings are on average, over new seeds and new rows.

    The variance is that of rows, of seeds, and of what is particular to a row and a seed, as for readers that belong to
    one of two modalities and read the same cases (Obuchowski and Rockette 1995; Hillis 2007). The means of the runs
    vary by seed, and by row and seed: s_A^2 / S_A + s_B^2 / S_B, with the degrees of freedom of `welch`. The means over
    seeds of the rows vary by row, and by row and seed: s_row^2 / N, less the part of row and seed, which the first term
    has already.

    The settings may have different numbers of seeds.

    Args:
        first_SN: A value for each seed and row, such as 1 where it is correct.
        second_SN: Those of the second setting.
        group_N: Number of each row's group.
        deterministic: Whether all trainings of a setting are equal, of both.
        bounds: The least and the largest difference that are possible.
        half_rows: Differences that are added with half a row each: of correctness, one in each of the four cells of
            agreement (Agresti and Min 2005); of other metrics none.
    """
    differences_N = first_SN.mean(axis=0) - second_SN.mean(axis=0)
    rows, seeds = row_term(differences_N, group_N, half_rows), []
    variance = rows.variance
    for values_SN, fixed in zip((first_SN, second_SN), deterministic, strict=True):
        if not fixed:
            term, particular = seed_term(values_SN.mean(axis=1)), _row_and_seed(values_SN, group_N)
            # Runs with equal accuracies by chance still err on other rows.
            seeds.append(Term(max(term.variance, particular), term.df))
            variance -= particular
    terms = [Term(max(variance, 0.0), rows.df), *([welch(*seeds)] if len(seeds) > 1 else seeds)]
    centre = _mean(differences_N, half_rows) if half_rows else None
    return Estimate(float(differences_N.mean()), terms, bounds, centre)


def _row_and_seed(values_SN: Floats, group_N: Ints | None) -> float:
    """Returns the variance of the mean over rows and seeds that comes from what is particular to a row and a seed."""
    seeds = len(values_SN)
    residuals_SN = values_SN - values_SN.mean(axis=0)
    return sum(row_term(residuals_N, group_N).variance for residuals_N in residuals_SN) / (seeds * (seeds - 1))


def _fold_term(values_SN: Floats, fold_SN: Ints) -> Term:
    """Returns the error of a mean over rows that are learned and tested in folds, approximately.

    Each of r seeds divides the rows into k folds, and tests each fold by a training on the others. These trainings
    share rows, so the variance of the mean over k r folds is s^2 (1 / (k r) + 1 / (k - 1)), where s^2 is the variance
    of the folds and 1 / (k - 1) the ratio of test rows to others (Nadeau and Bengio 2003), with k r - 1 degrees of
    freedom (Bouckaert and Frank 2004).
    """
    sums_SK, rows_SK = (
        np.array([np.bincount(fold_N, weights) for fold_N, weights in zip(fold_SN, given, strict=True)])
        for given in (values_SN, np.ones_like(values_SN))
    )
    means_SK = sums_SK / rows_SK
    variance = float(means_SK.var(ddof=1)) * (1 / means_SK.size + 1 / (means_SK.shape[1] - 1))
    return Term(variance, means_SK.size - 1)


def jackknife(value: float, without_K: Floats) -> Term:
    """Returns the error of a statistic that is no mean over rows, from its rows (Quenouille 1956; Tukey 1958).

    Args:
        value: The statistic over all rows.
        without_K: The statistic over all rows but those of each of K blocks, which are about equally large.
    """
    blocks = len(without_K)
    deviations_K = without_K - value
    return Term((blocks - 1) / blocks * float(deviations_K @ deviations_K), blocks - 1)


def adjusted(p_values: Sequence[float], number: int | None = None) -> list[float]:
    """Returns p-values times the number of the family (Bonferroni), by default theirs: each bounds the family's error.

    One is below 5% where an interval at 1 - 5% / m does not hold 0; all m of these intervals hold together in 95%.
    """
    return [min(1.0, (number or len(p_values)) * p) for p in p_values]


def verdict(value: float, p_difference: float, p_equivalence: float) -> Verdict:
    """Returns what the two tests of a pair say together, from p-values that are adjusted for the family."""
    differs, equivalent = p_difference < LEVEL, p_equivalence < LEVEL
    if differs and equivalent:
        return "better within margin" if value > 0 else "worse within margin"
    if differs:
        return "better" if value > 0 else "worse"
    return "equivalent" if equivalent else "undecided"


def blocks(rows: int, group_N: Ints | None) -> Ints:
    """Returns the number of each row's block; the rows of a group are in one block, drawn with a fixed seed."""
    units_N = np.arange(rows) if group_N is None else group_N
    count = int(units_N.max()) + 1
    block_of_unit = np.random.default_rng(0).permutation(np.arange(count) % min(BLOCKS, count))
    block_N: Ints = block_of_unit[units_N]
    return block_N
