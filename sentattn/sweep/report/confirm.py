"""`confirm=5`: trains the best setting of a study with seeds that the search has not used, and tests it."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.run import Run, write_atomically
from sentattn.sweep.report.artifacts import BEST

if TYPE_CHECKING:
    from sentattn.sweep.plan import Plan
    from sentattn.sweep.records import Record

CONFIRMED = "confirm.json"
CONFIDENCE = 0.95
SPLITS = ("val/", "test/")
Train = Callable[[Sequence[str]], Sequence[Run]]


def confirm(plan: Plan, folder: Path, winner: Record, train: Train | None = None) -> dict[str, Any]:
    """Trains the best setting with `confirm` seeds and writes the means and intervals of its metrics.

    The runs are ordinary ones under `outputs/`, tested once each. Finished runs of the same setting and seeds are kept;
    an interrupted one is resumed. The seeds are not those of the trials: the best of many trials was lucky in its own.

    Args:
        plan: The sweep.
        folder: The study's folder, with its `best.yaml`.
        winner: The best trial.
        train: Trains with the arguments of a training command; None for what the command itself does.

    Returns:
        The content of `confirm.json`.

    Raises:
        UserError: If a training fails.
    """
    known = read(folder)
    if known and known["trial"] == winner.number and len(known["seeds"]) == plan.confirm:
        return known
    print(f"{plan.study}: training trial {winner.number} with {plan.confirm} seeds, and testing it.", flush=True)
    confirmed = summary(plan, winner, (train or _train)(arguments(plan, folder, winner)))
    write_atomically(folder / CONFIRMED, json.dumps(confirmed, indent=2, ensure_ascii=False) + "\n")
    return confirmed


def arguments(plan: Plan, folder: Path, winner: Record) -> list[str]:
    """Returns the arguments of the training command that confirms a trial."""
    seed = winner.values.get("seed", plan.seed)
    assert isinstance(seed, int)
    seeds = [f"seed={seed + plan.repeats}", f"seeds={plan.confirm}"]
    devices = [f"trainer.devices={plan.gpus_per_trial}", "trainer.strategy=ddp"] if plan.gpus_per_trial > 1 else []
    return [f"from={folder / BEST}", "test=true", "resume=auto", f"output_dir={plan.output_dir}", *seeds, *devices]


def summary(plan: Plan, winner: Record, runs: Sequence[Run]) -> dict[str, Any]:
    """Returns for each metric the values of the runs, their mean, and its 95% interval by Student's t."""
    measured = [run.metrics for run in runs]  # each reads a file
    metrics = {}
    for name in measured[0]:
        if name.startswith(SPLITS) and all(name in run_metrics for run_metrics in measured):
            values = [run_metrics[name] for run_metrics in measured]
            interval = list(mean_interval(values)) if len(values) > 1 else None
            metrics[name] = {"mean": statistics.fmean(values), "interval": interval, "values": values}
    return {
        "study": plan.study,
        "trial": winner.number,
        "seeds": [run.settings["seed"] for run in runs],
        "runs": [str(run.path) for run in runs],
        "confidence": CONFIDENCE,
        "metrics": metrics,
    }


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns the 95% confidence interval of the mean of two or more values, by Student's t."""
    from scipy.stats import t

    mean = statistics.fmean(values)
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half


def read(folder: Path) -> dict[str, Any] | None:
    """Returns the content of a study's `confirm.json`; None where there is none, or it cannot be read."""
    try:
        confirmed: dict[str, Any] = json.loads((folder / CONFIRMED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return confirmed


def line(plan: Plan, confirmed: Mapping[str, Any]) -> str:
    """Returns the result in one line: the objective's mean, in validation and test."""
    objective = plan.objectives[0].metric
    names = [name for name in (objective, objective.replace("val/", "test/", 1)) if name in confirmed["metrics"]]
    means = []
    for name in names or list(confirmed["metrics"])[:1]:
        metric = confirmed["metrics"][name]
        interval = " ({:.4f} to {:.4f})".format(*metric["interval"]) if metric["interval"] else ""
        means.append(f"{name} {metric['mean']:.4f}{interval}")
    seeds = f"{len(confirmed['seeds'])} seed{'s' * (len(confirmed['seeds']) != 1)}"
    return f"{plan.study}: trial {confirmed['trial']} confirmed with {seeds}: {', '.join(means)}"


def _train(arguments: Sequence[str]) -> Sequence[Run]:
    from sentattn.config.request import read_request
    from sentattn.training.fit import train
    from sentattn.training.seeds import train_all

    return train_all(read_request(arguments), train)
