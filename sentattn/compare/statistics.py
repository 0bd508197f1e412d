"""Is one setting better than another? Estimates whose errors come from test rows and from seeds.

A setting is trained with several seeds, and each run is evaluated on the same test rows. Another training would have
another seed, and other rows might have been in the test set, so an estimate has a variance from both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Verdict: TypeAlias = Literal[
    "better", "worse", "equivalent", "better within margin", "worse within margin", "undecided"
]

LEVEL = 0.05
"""Of each family of tests."""
POWER = 0.8


@dataclass(frozen=True)
class Term:
    """One source of an estimate's error.

    Attributes:
        variance: Of the estimate.
        df: Degrees of freedom of that variance.
    """

    variance: float
    df: float


@dataclass(frozen=True)
class Estimate:
    """A value with an error that follows Student's t.

    Attributes:
        value: The estimate.
        error: Its standard error.
        df: Degrees of freedom.
    """

    value: float
    error: float
    df: float

    @classmethod
    def of(cls, value: float, terms: Iterable[Term]) -> Estimate:
        """Adds the terms' variances, with degrees of freedom after Satterthwaite (1946) and Welch (1947)."""
        terms = [term for term in terms if term.variance > 0]
        variance = sum(term.variance for term in terms)
        if not variance:
            return cls(value, 0.0, math.inf)
        return cls(value, math.sqrt(variance), variance**2 / sum(term.variance**2 / term.df for term in terms))

    def half_width(self, confidence: float = 1 - LEVEL) -> float:
        """Returns half of the two-sided confidence interval."""
        return _quantile(self.df, (1 + confidence) / 2) * self.error

    def interval(self, confidence: float = 1 - LEVEL) -> tuple[float, float]:
        """Returns the two-sided confidence interval."""
        half = self.half_width(confidence)
        return self.value - half, self.value + half

    def p_difference(self) -> float:
        """Returns the two-sided p-value of a true value of 0."""
        return 2 * self._p_above(abs(self.value))

    def p_equivalence(self, margin: float) -> float:
        """Returns the p-value of a true value beyond +-margin: the larger of two one-sided tests (Schuirmann 1987)."""
        return self._p_above(margin - abs(self.value))

    def detectable(self) -> float:
        """Returns the true value that a test at 5% finds in 80% of repetitions: (t_.975 + t_.8) standard errors."""
        return (_quantile(self.df, 1 - LEVEL / 2) + _quantile(self.df, POWER)) * self.error

    def _p_above(self, distance: float) -> float:
        """Returns the probability that an error lies above a distance."""
        from scipy.special import stdtr

        if not self.error:
            return 0.5 if distance == 0 else float(distance < 0)
        return float(stdtr(self.df, -distance / self.error))


def _quantile(df: float, probability: float) -> float:
    from scipy.special import ndtri, stdtrit

    return float(ndtri(probability) if math.isinf(df) else stdtrit(df, probability))


def row_term(values_N: Floats, group_N: NDArray[np.int64] | None = None) -> Term:
    """Returns the error of a mean that comes from its rows.

    Args:
        values_N: A value for each row.
        group_N: Number of each row's group, such as its film, where rows of a group resemble each other; None where
            rows are independent. The variance is then G / (G - 1) times the sum over groups of (sum of deviations)^2,
            over N^2, with G - 1 degrees of freedom (Liang and Zeger 1986, for a mean).
    """
    count = len(values_N)
    deviations_N = values_N - values_N.mean()
    if group_N is not None:
        deviations_N = np.bincount(group_N, weights=deviations_N)
    groups = len(deviations_N)
    if groups < 2:
        return Term(0.0, 1.0)
    variance = groups / (groups - 1) * float(deviations_N @ deviations_N) / count**2
    return Term(variance, groups - 1)


def seed_term(means_S: Floats) -> Term:
    """Returns the error of the mean over two or more seeds that comes from the seeds.

    Args:
        means_S: The mean of each seed's run.
    """
    seeds = len(means_S)
    assert seeds > 1, "one seed says nothing about another"
    return Term(float(means_S.var(ddof=1)) / seeds, seeds - 1)


def difference(
    first_SN: Floats,
    second_SN: Floats,
    group_N: NDArray[np.int64] | None = None,
    *,
    deterministic: Sequence[bool] = (False, False),
) -> Estimate:
    """Returns how much better the first of two settings is, over new seeds and new rows.

    The variance is s_row^2 / N + s_A^2 / S_A + s_B^2 / S_B, where s_row is the deviation over rows of the difference of
    the seeds' means, and s_A and s_B are those over seeds of the runs' means. What is particular to a row and a seed
    is in both kinds of terms, so the test is a little conservative.

    Args:
        first_SN: A value for each seed and row, such as 1 where it is predicted correctly.
        second_SN: The same of the other setting, which may have another number of seeds.
        group_N: Number of each row's group; None where rows are independent.
        deterministic: For each setting, whether all its trainings are equal, so that there is no seed term.
    """
    differences_N = first_SN.mean(axis=0) - second_SN.mean(axis=0)
    terms = [row_term(differences_N, group_N)]
    for values_SN, fixed in zip((first_SN, second_SN), deterministic, strict=True):
        terms += [] if fixed else [seed_term(values_SN.mean(axis=1))]
    return Estimate.of(float(differences_N.mean()), terms)


def mcnemar(first_N: NDArray[np.bool_], second_N: NDArray[np.bool_], group_N: NDArray[np.int64] | None = None) -> float:
    """Returns the p-value that two trained models are correct equally often (McNemar 1947).

    It is about these two models and says nothing about other seeds. Exact where rows are independent; with groups it is
    the test of the mean difference by groups.

    Args:
        first_N: Whether each row is predicted correctly by the first.
        second_N: The same for the second.
        group_N: Number of each row's group; None where rows are independent.
    """
    if group_N is not None:
        difference_N = first_N.astype(np.float64) - second_N
        return Estimate.of(float(difference_N.mean()), [row_term(difference_N, group_N)]).p_difference()
    from scipy.special import bdtr

    first_only, second_only = int((first_N & ~second_N).sum()), int((second_N & ~first_N).sum())
    return min(1.0, 2 * float(bdtr(min(first_only, second_only), first_only + second_only, 0.5)))


def jackknife(value: float, without_K: Floats) -> Term:
    """Returns the error of a statistic that is no mean over rows, from its rows (Quenouille 1956; Tukey 1958).

    Args:
        value: The statistic over all rows.
        without_K: The statistic over all rows but those of each of K blocks, which are about equally large.
    """
    blocks = len(without_K)
    deviations_K = without_K - value
    return Term((blocks - 1) / blocks * float(deviations_K @ deviations_K), blocks - 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p-values adjusted for their number (Holm 1979), which bounds the familywise error."""
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def verdict(value: float, p_difference: float, p_equivalence: float) -> Verdict:
    """Returns what the two tests of a pair say together, from p-values that are adjusted for the family."""
    differs, equivalent = p_difference < LEVEL, p_equivalence < LEVEL
    if differs and equivalent:
        return "better within margin" if value > 0 else "worse within margin"
    if differs:
        return "better" if value > 0 else "worse"
    return "equivalent" if equivalent else "undecided"
