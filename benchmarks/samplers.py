"""Compares samplers on a test function like a sweep: mixed types, conditions, a log range with 0, noise of seeds.

usage: python benchmarks/samplers.py [seeds=40] [slots=1] [only=TEXT]

Prints the regret of each sampler after 20 and 40 trials: how far the best trial is below the optimum, in points of
accuracy, as the mean over seeds with its standard error. `switch` has the point 0 as a choice next to the range. With
several slots, a trial is drawn while the others run, and trials end in random order; `only` selects samplers by a
part of their name.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping

import optuna
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, QMCSampler, RandomSampler, TPESampler

from sentattn.config.groups import Choices
from sentattn.config.search_space import Value, read_dimension

PRUNE = {"model/pooling": ("prune",)}
RANGES: dict[str, tuple[str, Mapping[str, tuple[Value, ...]]]] = {
    "model.attention.hops": ("range(1,31)", {}),
    "loss.penalty": ("tag(log,zero,interval(1e-3,1))", {}),
    "model/pooling": ("choice(flatten,mean,prune)", {}),
    "model.pooling.p": ("range(8,129)", PRUNE),
    "model.pooling.q": ("range(1,17)", PRUNE),
    "loss.class_weight_power": ("interval(0,1)", {}),
    "optimizer.lr": ("tag(log,interval(5e-4,2e-2))", {}),
    "model.encoder.dropout": ("interval(0,0.7)", {}),
}
SPACE = {key: read_dimension(key, text, Choices.of(), when) for key, (text, when) in RANGES.items()}
NOISE, TRIALS = 0.25, (20, 40)
SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {
    "tpe multivariate group": lambda seed: TPESampler(seed=seed, multivariate=True, group=True),
    "tpe multivariate group, no liar": lambda seed: TPESampler(
        seed=seed, multivariate=True, group=True, constant_liar=False
    ),
    "tpe multivariate": lambda seed: TPESampler(seed=seed, multivariate=True, warn_independent_sampling=False),
    "tpe one by one": lambda seed: TPESampler(seed=seed, multivariate=False),
    "tpe group, 20 at random": lambda seed: TPESampler(seed=seed, multivariate=True, group=True, n_startup_trials=20),
    "gp": lambda seed: GPSampler(seed=seed, warn_independent_sampling=False),
    "qmc": lambda seed: QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False),
    "nsgaii": lambda seed: NSGAIISampler(seed=seed, population_size=20),
    "random": lambda seed: RandomSampler(seed=seed),
}


class Surface:
    """A random test function: points of accuracy below the optimum; the seed draws where each setting is best."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)  # noqa: S311 - no secrets here
        self.lr, self.dropout, self.hops = draw.uniform(-6.9, -4.4), draw.uniform(0.1, 0.6), draw.uniform(0.5, 3.2)
        self.pooling = dict(zip(("flatten", "mean", "prune"), draw.sample((0.0, 0.5, 1.0), 3), strict=True))
        self.p, self.q = draw.uniform(2.3, 4.6), draw.uniform(0.3, 2.5)
        self.zero = draw.random() < 0.4  # the best penalty is 0, or a positive value
        self.penalty, self.power = draw.uniform(-6.0, -1.0), draw.uniform(0.0, 1.0)

    def __call__(self, values: Mapping[str, Value]) -> float:
        number = {key: float(value) for key, value in values.items() if isinstance(value, int | float)}
        below = 2.0 * (math.log(number["optimizer.lr"]) - self.lr) ** 2
        below += 6.0 * (number["model.encoder.dropout"] - self.dropout) ** 2
        below += 0.15 * (math.log(number["model.attention.hops"]) - self.hops) ** 2
        below += 0.3 * (number["loss.class_weight_power"] - self.power) ** 2
        below += self._penalty(number["loss.penalty"]) + self.pooling[str(values["model/pooling"])]
        if "model.pooling.p" in number:
            below += 0.2 * (math.log(number["model.pooling.p"]) - self.p) ** 2
            below += 0.2 * (math.log(number["model.pooling.q"]) - self.q) ** 2
        return below

    def _penalty(self, penalty: float) -> float:
        if self.zero:
            return 0.0 if penalty == 0 else 0.3 + 0.04 * (math.log(penalty) + 6.9) ** 2
        return 0.6 if penalty == 0 else 0.08 * (math.log(penalty) - self.penalty) ** 2


def values_of(trial: optuna.Trial, *, switch: bool) -> dict[str, Value]:
    """Draws a trial's values, with the point 0 as our search space has it or as a choice next to the range."""
    values: dict[str, Value] = {}
    for key, dimension in SPACE.items():
        if not dimension.is_active(values):
            continue
        if dimension.zero and switch:
            values[key] = 0.0
            if trial.suggest_categorical(f"{key} is 0", [True, False]) is False:
                values[key] = trial.suggest_float(key, dimension.floor, 1.0, log=True)
        else:
            values[key] = dimension.suggest(trial)
    return values


def regrets(make: Callable[[int], BaseSampler], seed: int, *, switch: bool, slots: int) -> list[float]:
    """Returns how far the trial with the best noisy value is below the optimum after each number of trials."""
    surface, noise = Surface(seed), random.Random(seed + 10_000)  # noqa: S311
    study = optuna.create_study(sampler=make(seed))
    results: list[tuple[float, float]] = []
    running: list[tuple[optuna.Trial, dict[str, Value]]] = []
    order = random.Random(seed + 20_000)  # noqa: S311
    for _ in range(max(TRIALS)):
        while len(running) < slots:
            trial = study.ask()
            running.append((trial, values_of(trial, switch=switch)))
        trial, values = running.pop(order.randrange(slots))
        below = surface(values)
        noisy = below + noise.gauss(0, NOISE)
        study.tell(trial, noisy)
        results.append((noisy, below))
    return [min(results[:count])[1] for count in TRIALS]


def main() -> None:
    """Prints the table."""
    options = {"seeds": "40", "slots": "1", "only": ""} | dict(word.split("=", 1) for word in sys.argv[1:])
    seeds, slots = int(options["seeds"]), int(options["slots"])
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    for name, make in SAMPLERS.items():
        for switch in (False, True) if options["only"] in name else ():
            began = time.perf_counter()
            rows = [regrets(make, seed, switch=switch, slots=slots) for seed in range(seeds)]
            spent = (time.perf_counter() - began) / seeds / max(TRIALS)
            columns = [
                f"{statistics.fmean(column):5.2f} ± {statistics.stdev(column) / math.sqrt(seeds):.2f}"
                for column in zip(*rows, strict=True)
            ]
            label = f"{name}{', switch' if switch else ''}"
            print(
                f"{label:32} {columns[0]} after {TRIALS[0]}  {columns[1]} after {TRIALS[1]}  "
                f"{1000 * spent:6.1f} ms a trial"
            )


if __name__ == "__main__":
    main()
