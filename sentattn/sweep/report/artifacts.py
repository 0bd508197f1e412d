"""The files of a study: `best.yaml`, `pareto/`, `trials.parquet` and `confirm.json`."""

from __future__ import annotations

import functools
import json
import math
import shlex
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from sentattn.config.request import OVERRIDES, read_request
from sentattn.config.schema import BOUNDS, SEEDS
from sentattn.console import plural
from sentattn.errors import RunError
from sentattn.run import CONFIRMED, Run, replacing, write_atomically
from sentattn.run import TRIALS as TABLE
from sentattn.sweep.study.records import TRIALS, Record

if TYPE_CHECKING:
    from sentattn.sweep.spec.plan import Plan

BEST, PARETO = "best.yaml", "pareto"
CONFIDENCE = 0.95


class Costs(NamedTuple):
    """Costs of a trial: the sum of the seconds of its runs, and the best epoch of a single run."""

    best_epoch: int | None = None
    seconds: float | None = None
    parameters: int | None = None


def costs(folder: Path, record: Record) -> Costs:
    """Returns the costs of a trial of the study in a folder, as far as they are known."""
    known = _costs(directory(folder, record.number)) if record.state in ("complete", "pruned") else Costs()
    if known.seconds is None and record.started and record.ended:
        return Costs(seconds=(record.ended - record.started).total_seconds())
    return known


@functools.cache
def _costs(trial: Path) -> Costs:
    if not (runs := results(trial)):
        return Costs()
    best_epoch = runs[0].get("best_epoch") if len(runs) == 1 else None
    return Costs(best_epoch, sum(run["seconds"]["total"] for run in runs), runs[0]["parameters"]["total"])


def directory(folder: Path, number: int) -> Path:
    """Returns the directory of a trial."""
    return folder / TRIALS / str(number)


def results(trial: Path) -> list[dict[str, Any]]:
    """Returns the readable results in a trial's directory: that of its run, or with several runs one per seed."""
    seeds = sorted(trial.glob("seed-*"), key=lambda path: int(path.name.removeprefix("seed-")))
    readable = []
    for path in seeds or [trial]:
        with suppress(RunError):
            readable.append(Run(path).result)
    return readable


def write_table(folder: Path, records: Sequence[Record], plan: Plan) -> None:
    """Writes `trials.parquet` atomically: a row per trial.

    Each searched setting has a column, empty where a trial did not set it, and so has each objective, empty where a
    trial is not complete.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    spent = [costs(folder, record) for record in records]
    columns: dict[str, tuple[str, Sequence[object]]] = {
        "number": ("int64", [record.number for record in records]),
        "state": ("string", [record.state for record in records]),
    }
    for key in dict.fromkeys([*plan.space, *(key for record in records for key in record.values)]):
        columns[key] = _column([record.values.get(key) for record in records])
    for index, objective in enumerate(plan.objectives):
        reached = [record.objectives[index] if record.objectives else None for record in records]
        columns[objective.metric] = ("float64", reached)
    columns |= {
        "best_epoch": ("int64", [cost.best_epoch for cost in spent]),
        "seconds": ("float64", [cost.seconds for cost in spent]),
        "parameters": ("int64", [cost.parameters for cost in spent]),
        "directory": ("string", [str(directory(folder, record.number)) for record in records]),
        "retried_from": ("int64", [record.retry_of for record in records]),
        "note": ("string", [record.error for record in records]),
    }
    table = pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})
    with replacing(folder / TABLE) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def _column(values: Sequence[object]) -> tuple[str, Sequence[object]]:
    """Returns type and values of a column of booleans or numbers; choices of several types are strings."""
    types = {type(value) for value in values if value is not None}
    if types == {bool}:
        return "bool", values
    if types and types <= {int, float}:
        return "float64" if float in types else "int64", values
    return "string", [None if value is None else str(value) for value in values]


def write_best(plan: Plan, folder: Path, front: Sequence[Record], new: Record | None = None) -> None:
    """Writes `best.yaml` for the first setting of the front; of several objectives, a file for each in `pareto/`.

    Args:
        plan: The sweep.
        folder: The study's folder.
        front: The best trial; with several objectives the Pareto front, most balanced first.
        new: The trial that has joined the front since the last call; None writes the files of all.
    """
    files = {folder / BEST: front[0]} if front else {}
    if front and len(plan.objectives) > 1:
        (folder / PARETO).mkdir(exist_ok=True)
        pareto = {folder / PARETO / f"{record.number}.yaml": record for record in front}
        for file in (folder / PARETO).glob("*.yaml"):
            if file not in pareto:
                file.unlink()
        files |= {file: record for file, record in pareto.items() if new is None or record is new}
    for file, record in files.items():
        arguments = train_arguments(plan, record.values)
        origin: dict[str, object] = {
            "study": plan.study,
            "trial": record.number,
            "reached": {o.metric: value for o, value in zip(plan.objectives, record.objectives or (), strict=True)},
            "date": f"{record.ended:%Y-%m-%d %H:%M}" if record.ended else None,
            "found": dict(record.values),
        }
        text = f"# Trial {record.number} of the study {plan.study}. Train and test it again: {train_command(file)}\n"
        if any(argument.startswith("from=") for argument in arguments):
            # A list of arguments cannot name another base, so the settings are written in full.
            text += "".join(f"# {line}\n" for line in _yaml(origin).splitlines())
            text += _yaml(read_request(arguments).settings)
        else:
            text += _yaml({**origin, OVERRIDES: arguments})
        write_atomically(file, text)


def _yaml(value: Mapping[str, object]) -> str:
    return str(yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True, width=1000))


def train_command(file: Path) -> str:
    """Returns the command that trains and tests the setting of a file."""
    return f"python -m sentattn.train from={shlex.quote(str(file))}"


def train_arguments(plan: Plan, values: Mapping[str, Any]) -> list[str]:
    """Returns the arguments of a training that repeats a trial, and tests it."""
    return [*plan.arguments(values), f"seed={plan.seed}"]


def confirm(plan: Plan, folder: Path, winner: Record) -> dict[str, Any]:
    """Trains the setting of `best.yaml` with `confirm` seeds; writes and returns means and intervals of its metrics.

    The runs are ordinary ones under `outputs/`, each tested once. Finished runs of the same setting and seeds are kept;
    an interrupted run is resumed. The seeds differ from those of the trials: the best of many trials is partly the best
    by chance in its seed. Intervals lie within the bounds of their metric; with fewer than three seeds there are none.

    Raises:
        UserError: If a training fails.
    """
    if known := find_confirmed(plan, folder, winner):
        return known
    from sentattn.training.fit import fit_seeds  # imports torch

    print(f"{plan.study}: training trial {winner.number} with {plan.confirm} seeds, and testing it.", flush=True)
    runs = list(fit_seeds(read_request(confirm_arguments(plan, folder))))
    metrics = {}
    for name in runs[0].metrics:
        if name.startswith(("val/", "test/")) and all(name in run.metrics for run in runs):
            values = [run.metrics[name] for run in runs]
            least, largest = BOUNDS.get(name.partition("/")[2], (-math.inf, math.inf))
            interval = None
            if len(values) >= SEEDS and len(set(values)) > 1:  # equal values have no spread
                interval = [min(max(end, least), largest) for end in mean_interval(values)]
            metrics[name] = {"mean": statistics.fmean(values), "interval": interval, "values": values}
    confirmed = {
        "study": plan.study,
        "trial": winner.number,
        "seeds": [run.settings["seed"] for run in runs],
        "runs": [str(run.path) for run in runs],
        "confidence": CONFIDENCE,
        "metrics": metrics,
    }
    write_atomically(folder / CONFIRMED, json.dumps(confirmed, indent=2, ensure_ascii=False) + "\n")
    return confirmed


def find_confirmed(plan: Plan, folder: Path, winner: Record) -> dict[str, Any] | None:
    """Returns the content of `confirm.json` if it is about this trial and number of seeds."""
    known = read_confirmed(folder)
    return known if known and (known["trial"], len(known["seeds"])) == (winner.number, plan.confirm) else None


def confirm_arguments(plan: Plan, folder: Path) -> list[str]:
    """Returns the arguments of the training command that confirms the best trial."""
    seeds = [f"seed={plan.seed + plan.repeats}", f"seeds={plan.confirm}"]
    devices = [f"trainer.devices={plan.gpus_per_trial}", "trainer.strategy=ddp"] if plan.gpus_per_trial > 1 else []
    return [f"from={folder / BEST}", "test=true", "resume=auto", f"output_dir={plan.output_dir}", *seeds, *devices]


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns the 95% confidence interval of the mean of two or more values, by Student's t."""
    from scipy.stats import t

    mean = statistics.fmean(values)
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half


def read_confirmed(folder: Path) -> dict[str, Any] | None:
    """Returns the content of a study's `confirm.json`; None where there is none, or it cannot be read."""
    try:
        return dict(json.loads((folder / CONFIRMED).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def describe_confirmed(plan: Plan, confirmed: Mapping[str, Any]) -> str:
    """Returns the result of `confirm` in one line: the objective's mean, in validation and test."""
    objective, metrics = plan.objectives[0].metric, confirmed["metrics"]
    names = [name for name in (objective, objective.replace("val/", "test/", 1)) if name in metrics]
    means = []
    for name in names or list(metrics)[:1]:
        interval = " ({:.4f} to {:.4f})".format(*metrics[name]["interval"]) if metrics[name]["interval"] else ""
        means.append(f"{name} {metrics[name]['mean']:.4f}{interval}")
    seeds = plural(len(confirmed["seeds"]), "seed")
    return f"{plan.study}: trial {confirmed['trial']} confirmed with {seeds}: {', '.join(means)}"
