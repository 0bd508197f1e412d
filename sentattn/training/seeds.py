"""Several runs of one setting, a seed each, and their metrics together."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from sentattn.config.request import AUTO, Request
from sentattn.distributed import ranks
from sentattn.errors import Fault, Interruption, TrainingError
from sentattn.metrics import format_value
from sentattn.run import Run, load
from sentattn.training.resume import find_finished, find_interrupted

CONFIDENCE = 0.95
SPLITS = ("val", "test")


class Train(Protocol):
    """Trains with resolved settings, or continues an interrupted run with them."""

    def __call__(self, settings: Mapping[str, Any], *, resume: Path | None) -> Run: ...


def train_all(request: Request, train: Train) -> list[Run]:
    """Trains every run of a request, and prints the metrics of several runs together.

    With `resume=auto` an interrupted run of a seed is continued; among several seeds finished runs are not trained
    again. A training that fails, such as one whose loss became NaN, does not keep the other seeds from theirs.

    Raises:
        TrainingError: After the last seed, with the errors of all.
    """
    if request.resume not in (None, AUTO):
        return [train(request.settings, resume=Path(str(request.resume)))]
    runs: list[Run] = []
    faults: list[Fault] = []
    for number, settings in enumerate(request.runs(), start=1):
        if request.seeds > 1:
            print(f"Seed {settings['seed']}, run {number} of {request.seeds}.", flush=True)
        try:
            runs.append(_train(settings, request, train))
        except TrainingError as error:
            if request.seeds == 1:
                raise
            faults += (Fault(one.key, one.kind, f"seed={settings['seed']}: {one.message}") for one in error.faults)
        except Interruption:
            if request.seeds > 1:
                print("To continue with all seeds, type the same command with resume=auto.", file=sys.stderr)
            raise
    if request.seeds > 1 and runs:
        print("\n".join(summary(runs)))
    if faults:
        raise TrainingError(*faults)
    return runs


def _train(settings: Mapping[str, Any], request: Request, train: Train) -> Run:
    if request.resume is None:
        return train(settings, resume=None)
    if request.seeds > 1 and (finished := ranks.from_rank_zero(find_finished(settings))):
        print(f"{finished} is finished.")
        return load(finished)
    # The search locks runs, so that several ranks would find one another's locks.
    interrupted = ranks.from_rank_zero(find_interrupted(settings) if ranks.is_rank_zero() else None)
    print(f"Continuing {interrupted}." if interrupted else "No interrupted run of these settings: a new one begins.")
    return train(settings, resume=interrupted)


def summary(runs: Sequence[Run]) -> list[str]:
    """Returns the metrics of finished runs that differ in their seed, as the lines of a table."""
    metrics = [run.metrics for run in runs]
    shared = [name for name in metrics[0] if all(name in each for each in metrics)]
    seeds = ", ".join(str(run.settings["seed"]) for run in runs)
    several = len(runs) > 1
    lines = [
        f"{len(runs)} runs, seed{'s' * several} {seeds}:",
        f"{'':<26}{'mean':>10}{'min':>10}{'max':>10}{'   95% interval of the mean' * several}",
    ]
    for name in (name for split in SPLITS for name in shared if name.startswith(f"{split}/")):
        values = [each[name] for each in metrics]
        mean, half = statistics.fmean(values), half_width(values)
        numbers = "".join(f"{format_value(value):>10}" for value in (mean, min(values), max(values)))
        interval = f"   {format_value(mean - half)} to {format_value(mean + half)}" * several
        lines.append(f"  {name:<24}{numbers}{interval}")
    return lines


def half_width(values: Sequence[float]) -> float:
    """Returns half the 95% confidence interval of the mean, by Student's t; NaN for a single value."""
    from scipy.special import stdtrit  # scipy.stats takes three times as long to import

    if len(values) < 2:
        return math.nan
    quantile = stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)
    return float(quantile) * statistics.stdev(values) / math.sqrt(len(values))
