"""Several runs of one setting, a seed each, and what they come to together."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from sentattn.config.request import AUTO, Request
from sentattn.distributed import ranks
from sentattn.errors import Interruption, TrainingError
from sentattn.run import Run, load
from sentattn.training.resume.unfinished import finished, unfinished

CONFIDENCE = 0.95
SPLITS = ("val", "test")


class Train(Protocol):
    """Trains with resolved settings, from an interrupted run on where one is given."""

    def __call__(self, settings: Mapping[str, Any], *, resume: Path | None) -> Run: ...


def train_all(request: Request, train: Train) -> list[Run]:
    """Trains what was asked for, and tells the figures of several runs together.

    With `resume=auto` an interrupted run of a seed is continued; among several seeds those that are finished are
    left as they are. A training that cannot go on, such as one whose loss became NaN, does not keep the others from
    theirs.

    Raises:
        TrainingError: After the last seed, what went wrong with any of them.
    """
    if request.resume not in (None, AUTO):
        return [train(request.settings, resume=Path(str(request.resume)))]
    runs: list[Run] = []
    faults: list[str] = []
    for number, settings in enumerate(request.runs(), start=1):
        if request.seeds > 1:
            print(f"Seed {settings['seed']}, run {number} of {request.seeds}.", flush=True)
        try:
            runs.append(_train(settings, request, train))
        except TrainingError as error:
            if request.seeds == 1:
                raise
            faults += (f"seed={settings['seed']}: {fault}" for fault in error.messages)
        except Interruption:
            if request.seeds > 1:
                print("To go on with all seeds, type the same command with resume=auto.", file=sys.stderr)
            raise
    if request.seeds > 1 and runs:
        print("\n".join(summary(runs)))
    if faults:
        raise TrainingError(*faults)
    return runs


def _train(settings: Mapping[str, Any], request: Request, train: Train) -> Run:
    if request.resume is None:
        return train(settings, resume=None)
    if request.seeds > 1 and (done := ranks.from_rank_zero(finished(settings))):
        print(f"{done} is finished.")
        return load(done)
    # Looking for it takes locks, so that several ranks would find one another.
    found = ranks.from_rank_zero(unfinished(settings) if ranks.is_rank_zero() else None)
    print(f"Continuing {found}." if found else "No interrupted run of these settings: a new one begins.")
    return train(settings, resume=found)


def summary(runs: Sequence[Run]) -> list[str]:
    """Returns the figures of runs that differ in their seed, as the lines of a table.

    Args:
        runs: Finished runs.
    """
    measured = [run.metrics for run in runs]
    names = [name for name in measured[0] if name.partition("/")[0] in SPLITS and all(name in m for m in measured)]
    names.sort(key=lambda name: SPLITS.index(name.partition("/")[0]))
    seeds = ", ".join(str(run.settings["seed"]) for run in runs)
    heading = f"{len(runs)} runs, seed{'s' if len(runs) > 1 else ''} {seeds}:"
    columns = f"{'':<26}{'mean':>9}{'min':>9}{'max':>9}" + ("   95% interval of the mean" if len(runs) > 1 else "")
    return [heading, columns, *(_line(name, [one[name] for one in measured]) for name in names)]


def _line(name: str, values: Sequence[float]) -> str:
    mean = statistics.fmean(values)
    line = f"  {name:<24}{mean:9.4f}{min(values):9.4f}{max(values):9.4f}"
    if len(values) < 2:
        return line
    half = half_width(values)
    return f"{line}   {mean - half:.4f} to {mean + half:.4f}"


def half_width(values: Sequence[float]) -> float:
    """Returns half the 95% confidence interval of the mean of two or more values, by Student's t."""
    return _quantile((1 + CONFIDENCE) / 2, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def _quantile(probability: float, freedom: int) -> float:
    """The quantile of Student's t, by bisection; for probabilities above 1/2."""
    low, high = 0.0, 1.0
    while _cumulative(high, freedom) < probability:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _cumulative(middle, freedom) < probability else (low, middle)
    return high


def _cumulative(t: float, freedom: int) -> float:
    """The distribution function of Student's t at t >= 0, by the finite series for whole degrees of freedom.

    Abramowitz and Stegun (1964), equations 26.7.3 and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    term = cosine if freedom % 2 else 1.0
    total = term if freedom > 1 else 0.0
    for power in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cosine**2 * (power - 1) / power
        total += term
    within = 2 / math.pi * (angle + math.sin(angle) * total) if freedom % 2 else math.sin(angle) * total
    return (1 + within) / 2
