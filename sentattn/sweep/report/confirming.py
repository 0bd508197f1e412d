"""`confirm=5`: the best setting of a study trained with seeds that the search has not seen, and tested."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.run import Run, write_atomically
from sentattn.sweep.report.best import BEST

if TYPE_CHECKING:
    from sentattn.sweep.config import Plan
    from sentattn.sweep.records import Record

CONFIRMED = "confirm.json"
SPLITS = ("val/", "test/")
Train = Callable[[Sequence[str]], Sequence[Run]]


def confirm(plan: Plan, folder: Path, winner: Record, train: Train | None = None) -> dict[str, Any]:
    """Trains the best setting with as many seeds as `confirm` says, and writes what they come to together.

    The runs are ordinary ones under `outputs/`, tested once each. Runs of the same setting and seeds that are finished
    are kept; an interrupted one goes on. The seeds are others than the trials', for the best of many trials was lucky
    in its own.

    Args:
        plan: The sweep.
        folder: The study's folder, with its `best.yaml`.
        winner: The best trial.
        train: Trains with the arguments of a training command; None for the command's own way.

    Returns:
        What `confirm.json` holds.

    Raises:
        UserError: If a training is at fault.
    """
    words = arguments(plan, folder, winner)
    known = read(folder)
    if known and known["trial"] == winner.number and len(known["seeds"]) == plan.confirm:
        return known
    print(f"{plan.study}: trial {winner.number} with {plan.confirm} seeds, and the test set.", flush=True)
    found = summary(plan, winner, (train or _train)(words))
    write_atomically(folder / CONFIRMED, json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    return found


def arguments(plan: Plan, folder: Path, winner: Record) -> list[str]:
    """Returns the arguments of the trainings that confirm a trial."""
    seed = winner.values.get("seed", plan.seed)
    assert isinstance(seed, int)
    seeds = [f"seed={seed + plan.repeats}", f"seeds={plan.confirm}"]
    together = [f"trainer.devices={plan.gpus_per_trial}", "trainer.strategy=ddp"] if plan.gpus_per_trial > 1 else []
    own = [f"from={folder / BEST}", "test=true", "resume=auto", f"output_dir={plan.output_dir}"]
    return [*own, *seeds, *together]


def summary(plan: Plan, winner: Record, runs: Sequence[Run]) -> dict[str, Any]:
    """Returns what runs come to: of each figure the values, their mean, and its 95% interval by Student's t."""
    from sentattn.training.seeds import CONFIDENCE, half_width  # brings torch

    measured = [run.metrics for run in runs]
    names = [name for name in measured[0] if name.startswith(SPLITS) and all(name in one for one in measured)]
    metrics = {}
    for name in names:
        values = [one[name] for one in measured]
        mean = statistics.fmean(values)
        half = half_width(values) if len(values) > 1 else None
        interval = None if half is None else [mean - half, mean + half]
        metrics[name] = {"mean": mean, "interval": interval, "values": values}
    return {
        "study": plan.study,
        "trial": winner.number,
        "seeds": [run.settings["seed"] for run in runs],
        "runs": [str(run.path) for run in runs],
        "confidence": CONFIDENCE,
        "metrics": metrics,
    }


def read(folder: Path) -> dict[str, Any] | None:
    """Returns what was confirmed of a study; None where nothing was, or it cannot be read."""
    try:
        found: dict[str, Any] = json.loads((folder / CONFIRMED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def line(plan: Plan, found: Mapping[str, Any]) -> str:
    """Returns what was confirmed in a line: the objective's figure, by validation and by test."""
    objective = plan.objectives[0].metric
    names = [name for name in (objective, objective.replace("val/", "test/", 1)) if name in found["metrics"]]
    told = []
    for name in names or list(found["metrics"])[:1]:
        one = found["metrics"][name]
        interval = f" ({one['interval'][0]:.4f} to {one['interval'][1]:.4f})" if one["interval"] else ""
        told.append(f"{name} {one['mean']:.4f}{interval}")
    seeds = f"{len(found['seeds'])} seed{'s' * (len(found['seeds']) != 1)}"
    return f"{plan.study}: trial {found['trial']} confirmed with {seeds}: {', '.join(told)}"


def _train(words: Sequence[str]) -> Sequence[Run]:
    from sentattn.config.request import read_request
    from sentattn.training.fitting import train
    from sentattn.training.seeds import train_all

    return train_all(read_request(words), train)
