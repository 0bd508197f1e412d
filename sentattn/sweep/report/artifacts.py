"""The files of a study: `best.yaml`, `pareto/` and `trials.parquet`, with what the runs of its trials say."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from sentattn.config.request import OVERRIDES, read_request
from sentattn.errors import RunError
from sentattn.run import Run, write_atomically
from sentattn.sweep.records import TRIALS, Record

if TYPE_CHECKING:
    from sentattn.sweep.plan import Plan

BEST, PARETO, TABLE = "best.yaml", "pareto", "trials.parquet"
BASE = "from="


@dataclass(frozen=True)
class Costs:
    """What a trial took.

    Attributes:
        best_epoch: The epoch whose metrics are the trial's; None with several runs.
        seconds: From its start to its end; with several runs, of all.
        parameters: Number of the model's parameters.
    """

    best_epoch: int | None = None
    seconds: float | None = None
    parameters: int | None = None


class CostReader:
    """Reads the costs of a study's trials from their runs, each once.

    Args:
        folder: The study's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._trials = folder / TRIALS
        self._known: dict[int, Costs] = {}

    def costs(self, record: Record) -> Costs:
        """Returns the costs of a trial, as far as they are known."""
        seconds = (record.ended - record.started).total_seconds() if record.started and record.ended else None
        if record.state not in ("complete", "pruned"):
            return Costs(seconds=seconds)
        if record.number not in self._known:
            self._known[record.number] = _costs(results(self.directory(record)), seconds)
        return self._known[record.number]

    def directory(self, record: Record) -> Path:
        """Returns the directory of a trial."""
        return self._trials / str(record.number)


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


def _costs(results: Sequence[Mapping[str, Any]], seconds: float | None) -> Costs:
    if not results:
        return Costs(seconds=seconds)
    return Costs(
        best_epoch=results[0].get("best_epoch") if len(results) == 1 else None,
        seconds=sum(result["seconds"]["total"] for result in results),
        parameters=results[0]["parameters"]["total"],
    )


def write_table(file: Path, records: Sequence[Record], plan: Plan, reader: CostReader) -> None:
    """Writes `trials.parquet` atomically: a row per trial.

    Each searched setting has a column, empty where a trial did not set it, and so has each objective, empty where a
    trial is not complete.

    Args:
        file: The file.
        records: The trials.
        plan: The sweep.
        reader: Of the runs' costs.
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
        "directory": pa.array([str(reader.directory(record)) for record in records], pa.string()),
        "retried_from": pa.array([record.retry_of for record in records], pa.int64()),
        "note": pa.array([record.error for record in records], pa.string()),
    }
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        pq.write_table(pa.table(columns), temporary, compression="zstd")
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def _column(values: Sequence[Any]) -> Any:
    """A column of booleans or numbers; choices of several types are strings."""
    import pyarrow as pa

    types = {type(value) for value in values if value is not None}
    if types and (types == {bool} or types <= {int, float}):
        return pa.array(values, pa.bool_() if bool in types else pa.float64() if float in types else pa.int64())
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def write_best(plan: Plan, folder: Path, front: Sequence[Record]) -> None:
    """Writes `best.yaml`, and with several objectives a file for each setting of the Pareto front in `pareto/`.

    Args:
        plan: The sweep.
        folder: The study's folder.
        front: The best trial, or the Pareto front, with the setting of `best.yaml` first.
    """
    if not front:
        return
    if len(plan.objectives) > 1:
        (folder / PARETO).mkdir(exist_ok=True)
        for record in front:
            _write_setting(plan, record, folder / PARETO / f"{record.number}.yaml")
        for file in (folder / PARETO).glob("*.yaml"):
            if file.stem not in {str(record.number) for record in front}:
                file.unlink()
    _write_setting(plan, front[0], folder / BEST)


def train_command(file: Path) -> str:
    """Returns the command that trains and tests the setting of a file."""
    return f"python -m sentattn.train from={shlex.quote(str(file))}"


def train_arguments(plan: Plan, values: Mapping[str, Any]) -> list[str]:
    """Returns the arguments of a training that repeats a trial, and tests it."""
    return [*plan.arguments(values), *([] if "seed" in values else [f"seed={plan.seed}"])]


def _write_setting(plan: Plan, record: Record, file: Path) -> None:
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
