"""The files of a study: `best.yaml`, `pareto/`, `trials.parquet` and `confirm.json`."""

from __future__ import annotations

import json
import math
import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from sentattn import run as runs
from sentattn.config.request import OVERRIDES, read_request
from sentattn.config.schema import BOUNDS, SEEDS
from sentattn.errors import RunError
from sentattn.run import CONFIRMED, Run, replacing, write_atomically
from sentattn.sweep.study.records import TRIALS, Record

if TYPE_CHECKING:
    from sentattn.sweep.spec.plan import Plan

BEST, PARETO, TABLE = "best.yaml", "pareto", runs.TRIALS
BASE = "from="
CONFIDENCE = 0.95
Train = Callable[[Sequence[str]], Sequence[Run]]


class Costs(NamedTuple):
    """Costs of a trial: the sum of the seconds of its runs, and the best epoch of a single run."""

    best_epoch: int | None = None
    seconds: float | None = None
    parameters: int | None = None


class CostReader:
    """Reads the costs of a study's trials from their runs in the study's folder, each once."""

    def __init__(self, folder: Path) -> None:
        self._trials = folder / TRIALS
        self._known: dict[int, Costs] = {}

    def costs(self, record: Record) -> Costs:
        """Returns the costs of a trial, as far as they are known."""
        seconds = (record.ended - record.started).total_seconds() if record.started and record.ended else None
        if record.state not in ("complete", "pruned"):
            return Costs(seconds=seconds)
        if record.number not in self._known:
            costs = Costs(seconds=seconds)
            if runs := results(self.directory(record.number)):
                best_epoch = runs[0].get("best_epoch") if len(runs) == 1 else None
                costs = Costs(best_epoch, sum(run["seconds"]["total"] for run in runs), runs[0]["parameters"]["total"])
            self._known[record.number] = costs
        return self._known[record.number]

    def directory(self, number: int) -> Path:
        """Returns the directory of a trial."""
        return self._trials / str(number)


def results(directory: Path) -> list[dict[str, Any]]:
    """Returns the readable results of a trial: that of its run, or with several runs one per seed."""
    seeds = sorted(directory.glob("seed-*"), key=lambda path: int(path.name.removeprefix("seed-")))
    readable = []
    for path in seeds or [directory]:
        try:
            readable.append(Run(path).result)
        except RunError:
            continue
    return readable


def write_table(file: Path, records: Sequence[Record], plan: Plan, reader: CostReader) -> None:
    """Writes `trials.parquet` atomically: a row per trial.

    Each searched setting has a column, empty where a trial did not set it, and so has each objective, empty where a
    trial is not complete.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    costs = [reader.costs(record) for record in records]
    columns: dict[str, Any] = {
        "number": pa.array([record.number for record in records], pa.int64()),
        "state": pa.array([record.state for record in records], pa.string()),
    }
    for key in dict.fromkeys([*plan.space, *(key for record in records for key in record.values)]):
        columns[key] = _column([record.values.get(key) for record in records])
    for index, objective in enumerate(plan.objectives):
        values = [record.objectives[index] if record.objectives else None for record in records]
        columns[objective.metric] = pa.array(values, pa.float64())
    columns |= {
        "best_epoch": pa.array([cost.best_epoch for cost in costs], pa.int64()),
        "seconds": pa.array([cost.seconds for cost in costs], pa.float64()),
        "parameters": pa.array([cost.parameters for cost in costs], pa.int64()),
        "directory": pa.array([str(reader.directory(record.number)) for record in records], pa.string()),
        "retried_from": pa.array([record.retry_of for record in records], pa.int64()),
        "note": pa.array([record.error for record in records], pa.string()),
    }
    with replacing(file) as temporary:
        pq.write_table(pa.table(columns), temporary, compression="zstd")


def _column(values: Sequence[Any]) -> Any:
    """A column of booleans or numbers; choices of several types are strings."""
    import pyarrow as pa

    types = {type(value) for value in values if value is not None}
    if types and (types == {bool} or types <= {int, float}):
        return pa.array(values, pa.bool_() if bool in types else pa.float64() if float in types else pa.int64())
    return pa.array([None if value is None else str(value) for value in values], pa.string())


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
        origin: dict[str, Any] = {
            "study": plan.study,
            "trial": record.number,
            "reached": {o.metric: value for o, value in zip(plan.objectives, record.objectives or (), strict=True)},
            "date": f"{record.ended:%Y-%m-%d %H:%M}" if record.ended else None,
            "found": dict(record.values),
        }
        text = f"# Trial {record.number} of the study {plan.study}. Train and test it again: {train_command(file)}\n"
        if any(argument.startswith(BASE) for argument in arguments):
            # A list of arguments cannot name another base, so the settings are written in full.
            text += "".join(f"# {line}\n" for line in _yaml(origin).splitlines())
            text += _yaml(read_request(arguments).settings)
        else:
            text += _yaml({**origin, OVERRIDES: arguments})
        write_atomically(file, text)


def _yaml(value: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True, width=1000)
    return text


def train_command(file: Path) -> str:
    """Returns the command that trains and tests the setting of a file."""
    return f"python -m sentattn.train from={shlex.quote(str(file))}"


def train_arguments(plan: Plan, values: Mapping[str, Any]) -> list[str]:
    """Returns the arguments of a training that repeats a trial, and tests it."""
    return [*plan.arguments(values), f"seed={plan.seed}"]


def confirm(plan: Plan, folder: Path, winner: Record, train: Train | None = None) -> dict[str, Any]:
    """Trains the setting of `best.yaml` with `confirm` seeds; writes and returns means and intervals of its metrics.

    Intervals lie within the bounds of their metric; with fewer than three seeds there are none.

    The runs are ordinary ones under `outputs/`, each tested once. Finished runs of the same setting and seeds are kept;
    an interrupted run is resumed. The seeds differ from those of the trials: the best of many trials is partly the best
    by chance in its seed.

    Args:
        plan: The sweep.
        folder: The study's folder.
        winner: The best trial.
        train: Trains with the arguments of a training command; None for the training command.

    Raises:
        UserError: If a training fails.
    """
    if known := find_confirmed(plan, folder, winner):
        return known
    print(f"{plan.study}: training trial {winner.number} with {plan.confirm} seeds, and testing it.", flush=True)
    runs = (train or _train)(confirm_arguments(plan, folder, winner))
    measured, metrics = [run.metrics for run in runs], {}
    for name in measured[0]:
        if name.startswith(("val/", "test/")) and all(name in run_metrics for run_metrics in measured):
            values = [run_metrics[name] for run_metrics in measured]
            bounds = BOUNDS.get(name.partition("/")[2], (-math.inf, math.inf))
            # Equal values of all seeds have no spread to estimate an interval from.
            has_interval = len(values) >= SEEDS and len(set(values)) > 1
            interval = [min(max(end, bounds[0]), bounds[1]) for end in mean_interval(values)] if has_interval else None
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
    is_same = known and known["trial"] == winner.number and len(known["seeds"]) == plan.confirm
    return known if is_same else None


def confirm_arguments(plan: Plan, folder: Path, winner: Record) -> list[str]:
    """Returns the arguments of the training command that confirms a trial."""
    seeds = [f"seed={plan.seed + plan.repeats}", f"seeds={plan.confirm}"]
    devices = [f"trainer.devices={plan.gpus_per_trial}", "trainer.strategy=ddp"] if plan.gpus_per_trial > 1 else []
    return [f"from={folder / BEST}", "test=true", "resume=auto", f"output_dir={plan.output_dir}", *seeds, *devices]


def _train(arguments: Sequence[str]) -> Sequence[Run]:
    from sentattn.training.seeds import fit_seeds

    return list(fit_seeds(read_request(arguments)))


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns the 95% confidence interval of the mean of two or more values, by Student's t."""
    from scipy.stats import t

    mean = statistics.fmean(values)
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half


def read_confirmed(folder: Path) -> dict[str, Any] | None:
    """Returns the content of a study's `confirm.json`; None where there is none, or it cannot be read."""
    try:
        confirmed: dict[str, Any] = json.loads((folder / CONFIRMED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return confirmed


def describe_confirmed(plan: Plan, confirmed: Mapping[str, Any]) -> str:
    """Returns the result of `confirm` in one line: the objective's mean, in validation and test."""
    objective, metrics = plan.objectives[0].metric, confirmed["metrics"]
    names = [name for name in (objective, objective.replace("val/", "test/", 1)) if name in metrics]
    means = []
    for name in names or list(metrics)[:1]:
        interval = " ({:.4f} to {:.4f})".format(*metrics[name]["interval"]) if metrics[name]["interval"] else ""
        means.append(f"{name} {metrics[name]['mean']:.4f}{interval}")
    seeds = f"{len(confirmed['seeds'])} seed{'s' * (len(confirmed['seeds']) != 1)}"
    return f"{plan.study}: trial {confirmed['trial']} confirmed with {seeds}: {', '.join(means)}"
