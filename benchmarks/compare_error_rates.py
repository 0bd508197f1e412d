"""Simulates the error rates of the tests and intervals of `sentattn.compare`, whose own functions compute each of them.

Settings are trained with seeds and evaluated on the same rows. A row has a difficulty u, uniform between 0 and 1, which
all settings share; a setting sees another one in 8% of the rows, and a seed in 13%. A run is correct where u is below
its accuracy, which varies by seed (`noise`, as a multiple of the error of a difference that comes from the rows) and,
where rows lie in groups such as films, by the group and the setting (a deviation of 0.03). All of these are drawn anew
in each repetition, as new rows, films and seeds would be.

  alarms       share of repetitions without a difference in which the test at 5% finds one
  coverage     share of repetitions in which the 95% interval holds the true difference of one point
  equivalent   share of repetitions with a difference of the margin of half a point that count as equivalent
  power        share of repetitions with a difference of one point in which the test finds it, and the same over the
               power of a z test that knows the variance
  no verdict   share of repetitions in which the groups have fewer than two degrees of freedom
  joint        of a family: share of repetitions in which all intervals hold together

The macro F1 is that of two classes; a row is predicted by a score with the same shared parts, cut where half, or the
share of the second class, lies above. The true difference is that of the mean over all repetitions. Over data sets the
true differences are of one point on average and vary by `spread`; the errors of the single differences are equal, or
between 1 and 8.

Folds are those of a learner on rows of two classes with normal features. Both settings read two features that are the
same, and two each of their own, which tell them apart equally well, so that there is no difference; for a difference
the second reads its own two with less signal. A training leaves out a fifth of its rows at random, as seeds differ. The
true values are those on as many new rows, over all repetitions.

  accuracy     share of repetitions in which the 95% interval of one setting's accuracy holds the true one
  t test       share of repetitions without a difference in which a t test over folds, as if independent, finds one

usage: python benchmarks/compare_error_rates.py [repetitions=2000] [only=WORD]
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from measure import read_options
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import ttest_1samp

from sentattn.compare.across import mean_of
from sentattn.compare.metric import METRICS
from sentattn.compare.statistics import (
    AGREEMENT,
    FEWEST_DF,
    LEVEL,
    TWO_EACH,
    Estimate,
    Term,
    average,
    difference,
)
from sentattn.data.splits import draw_folds

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

OF_SETTING, OF_SEED, OF_GROUP = 0.08, 0.13, 0.03
MARGIN, POINT = 0.005, 0.01


@dataclass(frozen=True)
class Design:
    """What is compared.

    Attributes:
        name: For the table.
        sizes: Rows of each group; one of 1 each where rows are independent.
        seeds: Seeds of both settings; 0 is a deterministic one.
        accuracy: Of both.
        noise: Deviation over seeds, as a multiple of the row noise.
    """

    name: str
    sizes: Sequence[int]
    seeds: tuple[int, int] = (5, 5)
    accuracy: float = 0.85
    noise: float = 0.5

    def draw(
        self, random: np.random.Generator, shifts: Sequence[float]
    ) -> tuple[list[Floats], NDArray[np.int64] | None]:
        """Returns correctness (S, N) of a setting for each shift of the accuracy, and the group of each row."""
        sizes = np.array(self.sizes)
        rows, has_groups = int(sizes.sum()), len(sizes) > 1
        group_N = np.repeat(np.arange(len(sizes)), sizes) if has_groups else None
        share = OF_SETTING + OF_SEED
        row_noise = (2 * share * self.accuracy * (1 - self.accuracy) / rows) ** 0.5
        shared_N, found = random.random(rows), []
        for number, shift in enumerate(shifts):
            count = self.seeds[number == len(shifts) - 1]
            of_setting_N = np.where(random.random(rows) < OF_SETTING, random.random(rows), shared_N)
            limit_N = np.full(rows, self.accuracy + shift)
            if group_N is not None:
                limit_N += random.normal(0, OF_GROUP * min(1, 4 * (1 - self.accuracy)), len(sizes))[group_N]
            runs = []
            for _ in range(max(count, 1)):
                u_N = np.where(random.random(rows) < OF_SEED, random.random(rows), of_setting_N)
                runs.append(u_N < limit_N + (random.normal(0, self.noise * row_noise) if count else 0.0))
            found.append(np.array(runs, dtype=np.float64))
        return found, group_N

    def estimates(self, random: np.random.Generator, shifts: Sequence[float]) -> list[Estimate]:
        """Returns the differences of the settings with these shifts from a further one without."""
        drawn, group_N = self.draw(random, [*shifts, 0.0])
        *others, control_SN = drawn
        fixed = (self.seeds[0] == 0, self.seeds[1] == 0)
        return [difference(first_SN, control_SN, group_N, deterministic=fixed) for first_SN in others]


def designs() -> Iterator[Design]:
    """Yields what is simulated."""
    for seeds in ((3, 3), (3, 5), (3, 0), (5, 5)):
        for noise in (0.0, 0.5, 2.0):
            name = f"25,000 rows, {seeds[0]} v {seeds[1] or 'deterministic'}, noise {noise:g}"
            yield Design(name, [25_000], seeds, noise=noise)
    for rows in (200, 1000):
        yield Design(f"{rows:,} rows", [rows])
    yield Design("1,000 rows, accuracy 0.99", [1000], accuracy=0.99)
    for count in (2, 3, 4, 5, 10, 20):
        yield Design(f"{count} groups of {600 // count}", [600 // count] * count)
    yield Design("300 of 1,000 rows in one group, 70 groups of 10", [300, *[10] * 70])
    yield Design("300 of 1,000 rows in one group, 4 groups of 175", [300, *[175] * 4])
    yield Design("40 groups, log-normal", [int(n) for n in 1 + np.random.default_rng(0).lognormal(2.5, 1.2, 40)])
    yield Design("3,000 films of 1 to 30 rows", [int(n) for n in np.random.default_rng(0).integers(1, 31, 3000)])


@dataclass(frozen=True)
class FoldDesign:
    """Two settings whose rows are learned and tested in folds.

    Attributes:
        learner: `centroids`, the nearest mean of a class, or `neighbor`, the nearest row.
        folds: Folds of each seed.
        seeds: Seeds of both settings.
        rows: Rows of the table.
        groups: Groups of equally many rows, with a shift of their own in each feature; 0 for none.
    """

    learner: str
    folds: int
    seeds: int
    rows: int = 300
    groups: int = 0

    @property
    def name(self) -> str:
        """For the table."""
        groups = f" in {self.groups} groups" if self.groups else ""
        return f"{self.learner}, {self.seeds} x {self.folds} folds, {self.rows} rows{groups}"

    def draw(self, random: np.random.Generator, loss: float) -> tuple[list[Floats], Ints, Ints | None, Floats]:
        """Returns correctness (S, N) of two settings, folds (S, N), groups, and the accuracy on new rows of both."""
        labels = np.tile(np.arange(self.rows) % 2, 2)
        x_ND = random.normal(size=(2 * self.rows, 6)) + np.outer(labels - 0.5, [0.7] * 4 + [0.7 - loss] * 2)
        group_N = None
        if self.groups:
            units = np.repeat(np.arange(2 * self.groups), self.rows // self.groups)
            x_ND += random.normal(0, 0.5, (2 * self.groups, 6))[units]
            group_N = units[: self.rows]
        seeds = random.integers(2**31, size=self.seeds)
        fold_SN = np.array([draw_folds(labels[: self.rows], group_N, self.folds, int(seed)) for seed in seeds])
        found, accuracies = [], []
        for columns in ([0, 1, 2, 3], [0, 1, 4, 5]):
            features_ND, correct_SN, accuracy = x_ND[:, columns], np.empty(fold_SN.shape), 0.0
            for fold_N, correct_N in zip(fold_SN, correct_SN, strict=True):
                for fold in range(self.folds):
                    trained = np.flatnonzero((fold_N != fold) & (random.random(self.rows) < 0.8))
                    predicted_N = LEARNERS[self.learner](features_ND[trained], labels[trained], features_ND)
                    is_correct_N = predicted_N == labels
                    correct_N[fold_N == fold] = is_correct_N[: self.rows][fold_N == fold]
                    accuracy += float(is_correct_N[self.rows :].mean()) / fold_SN[:, 0].size / self.folds
            found.append(correct_SN)
            accuracies.append(accuracy)
        return found, fold_SN, group_N, np.array(accuracies)


def centroids(x_TD: Floats, labels_T: Ints, x_ND: Floats) -> Ints:
    """Predicts the class whose mean is nearest."""
    means_CD = np.array([x_TD[labels_T == label].mean(axis=0) for label in (0, 1)])
    weights_D = means_CD[1] - means_CD[0]
    predicted_N: Ints = (x_ND @ weights_D > means_CD.mean(axis=0) @ weights_D).astype(np.int64)
    return predicted_N


def neighbor(x_TD: Floats, labels_T: Ints, x_ND: Floats) -> Ints:
    """Predicts the class of the nearest row."""
    distances_NT = np.square(x_TD).sum(axis=1) - 2 * x_ND @ x_TD.T
    predicted_N: Ints = labels_T[distances_NT.argmin(axis=1)]
    return predicted_N


LEARNERS = {"centroids": centroids, "neighbor": neighbor}


def fold_designs() -> Iterator[FoldDesign]:
    """Yields what is simulated of folds."""
    for learner in LEARNERS:
        for folds, seeds in ((5, 1), (5, 3), (5, 10), (10, 1), (10, 3)):
            yield FoldDesign(learner, folds, seeds)
        yield FoldDesign(learner, 5, 3, rows=100)
        yield FoldDesign(learner, 5, 3, groups=30)


def fold_rates(design: FoldDesign, repetitions: int) -> list[float]:
    """Returns the rates of folds in the order of the table."""
    random = np.random.default_rng(0)
    alarms, plain = np.empty((2, repetitions), dtype=bool)
    intervals, new = np.empty((repetitions, 2, 2)), np.empty((repetitions, 2))
    for r in range(repetitions):
        (first_SN, second_SN), fold_SN, group_N, _ = design.draw(random, loss=0.0)
        gains_SN = first_SN - second_SN
        alarms[r] = average(gains_SN, group_N, fold_SN=fold_SN, half_rows=AGREEMENT).p_difference() < LEVEL
        means = [gains_SN[s, fold_SN[s] == fold].mean() for s, fold in np.ndindex(design.seeds, design.folds)]
        plain[r] = ttest_1samp(means, 0).pvalue < LEVEL
        (first_SN, second_SN), fold_SN, group_N, new[r] = design.draw(random, loss=0.3)
        gain = average(first_SN - second_SN, group_N, fold_SN=fold_SN, half_rows=AGREEMENT)
        accuracy = average(first_SN, group_N, fold_SN=fold_SN, half_rows=TWO_EACH)
        intervals[r] = gain.interval(), accuracy.interval()
    first, second = new.mean(axis=0)
    low, high = np.moveaxis(intervals, 2, 0)
    coverage = ((low <= [first - second, first]) & (high >= [first - second, first])).mean(axis=0)
    return [float(value) for value in (alarms.mean(), *coverage, (low[:, 0] > 0).mean(), plain.mean())]


def main(words: list[str]) -> None:
    """Prints a table of single pairs, one of families, and one of folds."""
    options, _ = read_options(words, repetitions=2000, only="")

    def show(name: str, rates_of: Callable[..., Sequence[float]], *arguments: Any) -> None:
        if options["only"] in name:
            found = rates_of(*arguments, options["repetitions"])
            print(f"{name} | {' | '.join(f'{rate:.4f}' for rate in found)}", flush=True)

    print("design | alarms | coverage | equivalent | power | of z | no verdict")
    for design in designs():
        show(design.name, rates, design)
    print("macro F1 of 2,000 rows | alarms | coverage")
    for share in (0.05, 0.5):
        show(f"macro F1, {share:.0%} of the second class", f1_rates, share, 2000)
    print("mean over data sets | coverage")
    for count, largest, spread in itertools.product((3, 6, 12), (1.0, 8.0), (0.0, 0.01)):
        name = f"{count} data sets, errors 1 to {largest:g}, spread {spread:g}"
        show(name, mean_rates, count, largest, spread)
    print("family | joint coverage | least single coverage | any false alarm")
    families = (Design("1,000 rows", [1000]), Design("20 groups of 50", [50] * 20))
    for count, design in itertools.product((6, 12), families):
        show(f"{count} pairs, {design.name}", family, design, count)
    print("folds | alarms | coverage | accuracy | power | t test")
    for folds in fold_designs():
        show(folds.name, fold_rates, folds)


def f1_rates(share: float, rows: int, repetitions: int) -> tuple[float, float]:
    """Returns alarms and coverage of the macro F1 with a share of rows of the second class, five seeds each."""
    random, metric = np.random.default_rng(0), METRICS["f1_macro"]
    alarms, estimates = [], []
    for _ in range(repetitions):
        labels_N = (random.random(rows) < share).astype(np.int64)
        shared_N = random.normal(size=rows)
        values = []
        for signal in (2.0, 2.0, 2.2):
            of_setting_N = shared_N + 0.4 * random.normal(size=rows)
            runs = []
            for _ in range(5):
                noise_N = of_setting_N + 0.5 * random.normal(size=rows)
                scores_N = (signal + 0.05 * random.normal()) * labels_N + noise_N
                is_second_N = scores_N > 0.5 * signal + (1.2 if share < 0.5 else 0.0)
                assert metric.of_rows is not None
                runs.append(metric.of_rows(np.eye(2)[is_second_N.astype(int)], labels_N))
            values.append(np.array(runs))
        same, control, better = values
        bounds: tuple[float, float] = (-1.0, 1.0)
        alarms.append(difference(same, control, bounds=bounds, half_rows=()).p_difference() < LEVEL)
        estimates.append(difference(better, control, bounds=bounds, half_rows=()))
    truth = np.mean([estimate.value for estimate in estimates])
    return float(np.mean(alarms)), float(np.mean([abs(e.value - truth) <= e.half_width() for e in estimates]))


def mean_rates(count: int, largest: float, spread: float, repetitions: int) -> list[float]:
    """Returns the coverage of the mean over data sets, whose errors lie between 0.003 and `largest` times that."""
    random = np.random.default_rng(0)
    errors_K = 0.003 * np.linspace(1, largest, count)
    holds = []
    for _ in range(repetitions):
        values_K = random.normal(POINT, spread, count) + random.normal(size=count) * errors_K
        found = mean_of([Estimate(float(value), [Term(0.0, 1.0)]) for value in values_K])
        holds.append(abs(found.value - POINT) <= found.half_width())
    return [float(np.mean(holds))]


def rates(design: Design, repetitions: int) -> list[float]:
    """Returns the rates of a design in the order of the table."""
    random = np.random.default_rng(0)
    same, margin, point = (
        [design.estimates(random, [shift])[0] for _ in range(repetitions)] for shift in (0.0, MARGIN, POINT)
    )
    has_verdict = np.array([estimate.df >= FEWEST_DF for estimate in same])
    alarms = np.array([estimate.p_difference() < LEVEL for estimate in same]) & has_verdict
    intervals = np.array([(estimate.centre, estimate.half_width()) for estimate in point])
    power = float(np.mean(intervals[:, 0] > intervals[:, 1]))
    z = float(ndtr(POINT / intervals[:, 0].std() - ndtri(1 - LEVEL / 2)))
    return [
        float(alarms.mean()),
        float(np.mean(np.abs(intervals[:, 0] - POINT) <= intervals[:, 1])),
        float(np.mean([estimate.p_equivalence(MARGIN) < LEVEL for estimate in margin])),
        power,
        power / z,
        1 - float(has_verdict.mean()),
    ]


def family(design: Design, count: int, repetitions: int) -> tuple[float, float, float]:
    """Returns the joint coverage of a family with differences of 0 to 6 points, the least of a pair, and alarms."""
    random, shifts = np.random.default_rng(0), [0.06 * number / (count - 1) for number in range(count)]
    holds, alarms = np.empty((repetitions, count), dtype=bool), np.empty(repetitions, dtype=bool)
    for r in range(repetitions):
        ends = [estimate.interval(1 - LEVEL / count) for estimate in design.estimates(random, shifts)]
        holds[r] = [low <= shift <= high for shift, (low, high) in zip(shifts, ends, strict=True)]
        alarms[r] = any(low > 0 or high < 0 for low, high in ends[:1])
    return float(holds.all(axis=1).mean()), float(holds.mean(axis=0).min()), float(alarms.mean())


if __name__ == "__main__":
    main(sys.argv[1:])
