"""Simulates the error rates of the tests and intervals of `sentattn.compare`.

Two settings are trained with seeds and evaluated on the same 25,000 rows. Whether a run predicts a row correctly varies
by the row; by the row and the setting; by the film and the setting, where rows belong to films; by the seed; and by the
row and the seed. All but the first, which both settings share, are new in each repetition, as new films and new seeds
would be. The variances are those of accurate classifiers of two classes: two seeds of a setting disagree on 5% of the
rows, two settings on 7%. The seed noise, the deviation of a run's accuracy over seeds, is given as a multiple of the
row noise, the error of the difference of two runs that comes from the rows. A deterministic setting has one run, and no
seed noise.

Sums over films, or over blocks of 25 rows where rows are independent, are drawn from normal distributions: each is the
sum of what varies by row, by film and by seed. Films have 1 to 30 rows. `binary=true` draws every row of every run as
correct or wrong instead, by a probit.

The table has, at the level of 5% and at the first step of Holm for nine pairs:

  alarms       share of repetitions without a difference in which the test finds one
  coverage     share of repetitions in which the interval holds the true difference of one point
  equivalent   share of repetitions with a difference of the margin of half a point that count as equivalent
  power        share of repetitions with a difference of one point in which the test finds it
  of z         that share over the power of a z test that knows the variance

`worst=true` draws the means of runs and the variances themselves, for 8 ratios of the seeds' to the rows' part of the
variance and 7 shares of the first setting in the seeds' part, and prints the largest rate of false alarms of the test
and of those that were rejected for it.

usage: python benchmarks/compare_error_rates.py [repetitions=20000] [binary=false] [worst=false]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from sentattn.compare.statistics import AGREEMENT, LEVEL, Term, half_width, welch

Floats = NDArray[np.float64]

ROWS, BLOCK, LARGEST_FILM = 25_000, 25, 30
ACCURACY, MARGIN, POINT = 0.88, 0.005, 0.01
OF_ROW_AND_SETTING, OF_ROW_AND_SEED = 0.01, 0.025
OF_SINGLE = OF_ROW_AND_SETTING + OF_ROW_AND_SEED
"""Variances of correctness: two seeds of a setting disagree on 2 x 0.025 of the rows, two settings on 2 x 0.035."""
OF_FILM = 0.02
"""Deviation of a setting's accuracy over films."""
DESIGNS = {"3 v 3": (3, 3), "3 v 5": (3, 5), "3 v 1 deterministic": (3, 0), "5 v 5": (5, 5)}
TRUE = (0.0, MARGIN, POINT)
NOISES = (0.0, 0.5, 2.0)
LEVELS = (LEVEL, LEVEL / 9)
MOST = 5
"""Most seeds of a setting; its runs are followed by those of the other, and by that of a deterministic one."""
SETTING = np.repeat([0, 1, 1], [MOST, MOST, 1])
RUNS = len(SETTING)


@dataclass(frozen=True)
class Sums:
    """What an estimate is computed from, of each repetition; U runs.

    Attributes:
        means_RU: Accuracy of each run; where it is normal, less that of the second setting.
        squares_RUU: Sums over groups of the products of two runs' sums of deviations.
        groups: Number of groups of rows.
    """

    means_RU: Floats
    squares_RUU: Floats
    groups: int


def main(arguments: list[str]) -> None:
    """Prints a table and a line of JSON."""
    options = dict(word.split("=") for word in arguments)
    repetitions, binary = int(options.get("repetitions", 20_000)), options.get("binary") == "true"
    random = np.random.default_rng(0)
    if options.get("worst") == "true":
        print_worst(random, repetitions)
        return
    rows = []
    for has_films, noise in product((False, True), NOISES):
        draw = binary_sums if binary else normal_sums
        drawn = draw(random, repetitions, noise, has_films=has_films)
        for design, (first, second) in DESIGNS.items():
            rows.append({"design": design, "films": has_films, "seed noise": noise} | rates(drawn, first, second))
            print(" | ".join(f"{v:.4f}" if i > 2 else str(v) for i, v in enumerate(rows[-1].values())), flush=True)
    print(" | ".join(rows[0]))
    print(json.dumps({"repetitions": repetitions, "binary": binary, "rates": rows}))


def rates(sums: Mapping[float, Sums], first: int, second: int) -> dict[str, float]:
    """Returns the error rates of a design: so many seeds of the first and of the second setting, 0 if deterministic.

    Args:
        sums: By the true difference.
        first: Seeds of the first setting.
        second: Seeds of the second.
    """
    runs = [*range(first), *(range(MOST, MOST + second) if second else [2 * MOST])]
    same, margin, point = (terms(sums[true], runs, first) for true in TRUE)
    found: dict[str, float] = {}
    for level in LEVELS:
        shares = {
            "alarms": np.abs(same[0]) > half_width(same[1], level / 2),
            "coverage": np.abs(point[0] - POINT) <= half_width(point[1], level / 2),
            "equivalent": MARGIN - np.abs(margin[0]) > half_width(margin[1], level),
            "power": np.abs(point[0]) > half_width(point[1], level / 2),
        }
        found |= {f"{name} {100 * level:.2g}%": float(found_R.mean()) for name, found_R in shares.items()}
        z = float(ndtr(POINT / point[0].std() - ndtri(1 - level / 2)))
        found[f"of z {100 * level:.2g}%"] = found[f"power {100 * level:.2g}%"] / z
    return found


def print_worst(random: np.random.Generator, repetitions: int) -> None:
    """Prints the largest rates of false alarms over all ratios and shares, and where they are."""
    for design, (first, second) in DESIGNS.items():
        largest: dict[str, tuple[float, float, float]] = {}
        for ratio, share in product((0.0, 0.25, 0.5, 1.0, 2.0, 8.0, 32.0, 1e6), (0.0, 0.02, 0.1, 0.5, 0.9, 0.98, 1.0)):
            of_seeds = [ratio * share, ratio * (1 - share)] if second else [ratio]
            value_R = random.normal(size=repetitions) * (1 + sum(of_seeds)) ** 0.5
            dfs = [1000, first - 1, second - 1]
            rows, *seeds = (
                Term(variance * random.chisquare(df, repetitions) / df, df)  # type: ignore[arg-type]
                for variance, df in zip([1.0, *of_seeds], dfs, strict=False)
            )
            both = seeds if len(seeds) == 1 else [welch(*seeds)]
            tests = {
                "test": [rows, *both],
                "one t after Satterthwaite": [satterthwaite([rows, *seeds])],
                "seeds after Welch": [rows, satterthwaite(seeds)],
                "a t of each setting": [rows, *seeds],
            }
            for (name, used), level in product(tests.items(), LEVELS):
                rate = float(np.mean(np.abs(value_R) > half_width(used, level / 2)))
                key = f"{name} {100 * level:.2g}%"
                largest[key] = max(largest.get(key, (0.0, 0.0, 0.0)), (rate, ratio, share))
        for key, (rate, ratio, share) in largest.items():
            print(f"{design} | {key} | {rate:.4f} | ratio {ratio:g}, share {share:g}", flush=True)


def satterthwaite(terms: list[Term]) -> Term:
    """Returns the sum of terms as one, with the degrees of freedom of Satterthwaite (1946)."""
    variance = sum(term.variance for term in terms)
    squares = sum(np.square(term.variance) / term.df for term in terms)
    return Term(variance, np.maximum(np.square(variance) / np.maximum(squares, np.finfo(float).tiny), 1))


def terms(sums: Sums, runs: list[int], first: int) -> tuple[Floats, list[Term]]:
    """Returns the centres of `difference` and its terms for rows and for seeds, of each repetition."""
    means_RU, squares_RUU, groups = sums.means_RU[:, runs], sums.squares_RUU[:, runs][:, :, runs], sums.groups
    counts = (first, len(runs) - first)
    weights_U = np.repeat([1 / counts[0], -1 / counts[1]], counts)
    value_R = means_RU @ weights_U
    squares_R = np.einsum("ruv,u,v->r", squares_RUU, weights_U, weights_U)
    # The half rows' deviations of AGREEMENT, as in `row_term`.
    size, units = ROWS + len(AGREEMENT) / 2, groups + len(AGREEMENT) / 2
    rows_R = units / (units - 1) * (squares_R + sum(value**2 for value in AGREEMENT) / 2) / size**2
    seeds = []
    for start, count in ((0, counts[0]), (counts[0], counts[1])):
        if count == 1:
            continue
        own_RSS = squares_RUU[:, start : start + count, start : start + count]
        residual_R = np.trace(own_RSS, axis1=1, axis2=2) - own_RSS.sum(axis=(1, 2)) / count
        particular_R = groups / (groups - 1) * residual_R / ROWS**2 / (count * (count - 1))
        of_seeds_R = means_RU[:, start : start + count].var(axis=1, ddof=1) / count
        seeds.append(Term(np.maximum(of_seeds_R, particular_R), count - 1))
        rows_R = rows_R - particular_R
    rows = Term(np.maximum(rows_R, 0.0), units - 1)
    return value_R * ROWS / size, [rows, welch(*seeds) if len(seeds) > 1 else seeds[0]]


def sizes(random: np.random.Generator, *, has_films: bool) -> Floats:
    """Returns the number of rows of each group: films have 1 to 30, many of them 1 and many 30."""
    if not has_films:
        return np.full(ROWS // BLOCK, float(BLOCK))
    sizes_G = np.minimum(1 + random.exponential(7, size=ROWS).astype(int), LARGEST_FILM)
    kept: Floats = sizes_G[: np.searchsorted(np.cumsum(sizes_G), ROWS)].astype(float)
    return kept


def seeds_deviations(noise: float, *, has_films: bool) -> Floats:
    """Returns the deviation of each run's accuracy over seeds, from the seed noise as a multiple of the row noise."""
    sizes_G = sizes(np.random.default_rng(1), has_films=has_films)
    film = has_films * OF_FILM**2 * float(np.square(sizes_G).sum()) / sizes_G.sum()
    deviation: float = noise * (2 * (OF_SINGLE + film) / ROWS) ** 0.5
    return np.repeat([deviation, 0.0], [2 * MOST, 1])


def normal_sums(
    random: np.random.Generator, repetitions: int, noise: float, *, has_films: bool
) -> Mapping[float, Sums]:
    """Draws sums over films or blocks from normal distributions, by the true difference."""
    sizes_G = sizes(np.random.default_rng(1), has_films=has_films)
    means_RU, squares_RUU = np.empty((repetitions, RUNS)), np.empty((repetitions, RUNS, RUNS))
    of_setting_G = (OF_ROW_AND_SETTING * sizes_G + has_films * OF_FILM**2 * np.square(sizes_G)) ** 0.5
    for r in range(repetitions):  # what both settings share has no part in their difference
        sums_GU = random.normal(size=(len(sizes_G), 2))[:, SETTING] * of_setting_G[:, None]
        sums_GU += random.normal(size=(len(sizes_G), RUNS)) * (OF_ROW_AND_SEED * sizes_G[:, None]) ** 0.5
        means_RU[r], squares_RUU[r] = moments(sums_GU, sizes_G)
    means_RU += random.normal(size=(repetitions, RUNS)) * seeds_deviations(noise, has_films=has_films)
    return {true: Sums(means_RU + true * (SETTING == 0), squares_RUU, len(sizes_G)) for true in TRUE}


def binary_sums(
    random: np.random.Generator, repetitions: int, noise: float, *, has_films: bool
) -> Mapping[float, Sums]:
    """Draws every row of every run as correct or wrong, by a probit, by the true difference."""
    sizes_G = sizes(np.random.default_rng(1), has_films=has_films) if has_films else np.ones(ROWS)
    starts_G = np.concatenate([[0], np.cumsum(sizes_G)[:-1]]).astype(int)
    count, density = int(sizes_G.sum()), float(np.exp(-(ndtri(ACCURACY) ** 2) / 2) / (2 * np.pi) ** 0.5)
    of_seeds, of_settings = (correlation(2 * variance) for variance in (OF_ROW_AND_SEED, OF_SINGLE))
    deviation_U, film = seeds_deviations(noise, has_films=has_films) / density, has_films * OF_FILM / density
    found = {}
    for true in TRUE:
        limit_U = np.where(SETTING == 0, ndtri(ACCURACY + true), ndtri(ACCURACY))
        limit_U = limit_U * (1 + film**2 + np.square(deviation_U)) ** 0.5
        means_RU, squares_RUU = np.empty((repetitions, RUNS)), np.empty((repetitions, RUNS, RUNS))
        for r in range(repetitions):
            of_row_TN = random.standard_normal((2, count), np.float32) * np.float32((of_seeds - of_settings) ** 0.5)
            of_row_TN += random.standard_normal(count, np.float32) * np.float32(of_settings**0.5)
            of_film_TG = random.standard_normal((2, len(sizes_G)), np.float32) * np.float32(film)
            of_row_TN += np.repeat(of_film_TG, sizes_G.astype(int), axis=1)
            limits_UN = (limit_U - random.normal(size=RUNS) * deviation_U)[:, None] - of_row_TN[SETTING]
            noise_UN = random.standard_normal((RUNS, count), np.float32) * np.float32((1 - of_seeds) ** 0.5)
            correct_UN = (noise_UN < limits_UN).astype(np.float32)
            sums_UG = np.add.reduceat(correct_UN, starts_G, axis=1) if has_films else correct_UN
            means_RU[r], squares_RUU[r] = moments(sums_UG.T, sizes_G)
        found[true] = Sums(means_RU, squares_RUU, len(sizes_G))
    return found


def moments(sums_GU: Floats, sizes_G: Floats) -> tuple[Floats, Floats]:
    """Returns the means of the runs, and the sums over groups of the products of two runs' sums of deviations."""
    mean_U = sums_GU.sum(axis=0, dtype=np.float64) / sizes_G.sum()
    deviations_GU = sums_GU - np.outer(sizes_G, mean_U).astype(sums_GU.dtype)
    return mean_U, deviations_GU.T @ deviations_GU


def correlation(share: float) -> float:
    """Returns the correlation of two normal variables of which one alone lies below a limit in a share of cases.

    Either lies below it with the probability `ACCURACY`.
    """
    from scipy.optimize import brentq
    from scipy.stats import multivariate_normal

    limit = float(ndtri(ACCURACY))

    def excess(correlation: float) -> float:
        both = multivariate_normal.cdf([limit, limit], cov=[[1, correlation], [correlation, 1]])
        return 2 * (ACCURACY - float(both)) - share

    return float(brentq(excess, 0, 0.999))


if __name__ == "__main__":
    main(sys.argv[1:])
