"""Simulates the rate of false alarms and the coverage of the intervals of `sentattn.compare`.

Two settings, without a true difference and with one of a point, are evaluated on the same rows, which belong to films.
Whether a row is predicted correctly depends on the row, on the film and the setting, on the seed, and on the row and
the seed. The first part is shared by both settings; the others are new in each repetition, as new films and new seeds
would be.

Coverage is the share of repetitions in which the 95% interval holds the true difference; without a difference, it is
one minus the rate of false alarms.

usage: python benchmarks/compare_error_rates.py [repetitions=400] [rows=25000] [films=400]
"""

from __future__ import annotations

import json
import sys

import numpy as np
from scipy.special import ndtri
from scipy.stats import t as student

from sentattn.compare.statistics import difference, mcnemar

ACCURACY, DIFFERENCE = 0.88, 0.01
FILM, SEED, NOISE = 0.15, 0.02, 0.5
"""Deviations on the scale of a probit: of a film and setting, of a seed, of a row and seed; that of a row is 1."""


def main(arguments: list[str]) -> None:
    """Prints a table and a line of JSON."""
    options = {"repetitions": 400, "rows": 25_000, "films": 400}
    options |= {word.partition("=")[0]: int(word.partition("=")[2]) for word in arguments}
    rows = [
        {"seeds": seeds, "films": has_films, **rates(seeds, has_films=has_films, **options)}
        for has_films in (False, True)
        for seeds in (2, 3, 5)
    ]
    columns = list(rows[0])
    print(" | ".join(columns))
    for row in rows:
        print(" | ".join(f"{row[name]:.3f}" if isinstance(row[name], float) else str(row[name]) for name in columns))
    print(json.dumps({**options, "rates": rows}))


def rates(seeds: int, *, has_films: bool, repetitions: int, rows: int, films: int) -> dict[str, float]:
    """Returns how often each test finds a difference that does not exist, at 5%, and how often it finds one of a point.

    Also how often the interval, by films where there are any, holds that point.
    """
    random = np.random.default_rng(seeds + 100 * has_films)
    found, covered, detected = np.zeros(4), 0, 0
    for _ in range(repetitions):
        film_N = random.integers(films, size=rows)
        _, film_N = np.unique(film_N, return_inverse=True)
        row_N = random.normal(size=rows)
        first, second = (_correct(random, row_N, film_N, seeds, has_films=has_films) for _ in range(2))
        by_rows = difference(first, second)
        by_films = difference(first, second, film_N)
        pooled = mcnemar(first[0] > 0, second[0] > 0)
        seeds_only = first.mean(1) - second.mean(1)
        paired = abs(seeds_only.mean()) > student.ppf(0.975, seeds - 1) * seeds_only.std(ddof=1) / seeds**0.5
        better = _correct(random, row_N, film_N, seeds, has_films=has_films, accuracy=ACCURACY + DIFFERENCE)
        estimate = difference(better, second, film_N if has_films else None)
        low, high = estimate.interval()
        covered, detected = covered + (low <= DIFFERENCE <= high), detected + (estimate.p_difference() < 0.05)
        found += [by_rows.p_difference() < 0.05, by_films.p_difference() < 0.05, pooled < 0.05, paired]
    names = ("by rows", "by films", "McNemar, one seed each", "t over seeds")
    rates = dict(zip(names, (found / repetitions).tolist(), strict=True))
    return rates | {"a point: covered": covered / repetitions, "a point: found": detected / repetitions}


def _correct(
    random: np.random.Generator,
    row_N: np.ndarray,
    film_N: np.ndarray,
    seeds: int,
    *,
    has_films: bool,
    accuracy: float = ACCURACY,
) -> np.ndarray:
    film_N = random.normal(size=film_N.max() + 1)[film_N] * (FILM if has_films else 0.0)
    seed_S1 = random.normal(size=(seeds, 1)) * SEED
    noise_SN = random.normal(size=(seeds, len(row_N))) * NOISE
    total = (1 + NOISE**2 + SEED**2 + (FILM**2 if has_films else 0)) ** 0.5
    return (row_N + film_N + seed_S1 + noise_SN < ndtri(accuracy) * total).astype(np.float64)


if __name__ == "__main__":
    main(sys.argv[1:])
