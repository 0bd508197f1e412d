"""The trials of a study with what their runs say of them, and `trials.parquet`: a row a trial."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.errors import RunError
from sentattn.run import Run
from sentattn.sweep.records import Record

if TYPE_CHECKING:
    from sentattn.sweep.objective import Objective

TRIALS, TABLE = "trials", "trials.parquet"
ENDED = ("complete", "pruned")


@dataclass(frozen=True)
class Costs:
    """What the run of a trial took.

    Attributes:
        best_epoch: The epoch whose figures are the trial's; of several runs, None.
        seconds: From its beginning to its end; of several runs, of all.
        parameters: Of its model.
    """

    best_epoch: int | None = None
    seconds: float | None = None
    parameters: int | None = None


class Reader:
    """Reads what runs say of the trials of a study, each once.

    Args:
        folder: The study's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._trials = folder / TRIALS
        self._known: dict[int, Costs] = {}

    def costs(self, record: Record) -> Costs:
        """Returns what a trial took, as far as it is known."""
        if record.state not in ENDED:
            return Costs(seconds=_between(record))
        if record.number not in self._known:
            self._known[record.number] = _costs(runs(self._trials / str(record.number)), record)
        return self._known[record.number]

    def directory(self, record: Record) -> Path:
        """Returns the directory of a trial."""
        return self._trials / str(record.number)


def runs(directory: Path) -> list[Run]:
    """Returns the runs of a trial: itself, or one a seed."""
    return [Run(path) for path in sorted(directory.glob("seed-*"), key=_seed)] or [Run(directory)]


def results(directory: Path) -> list[dict[str, Any]]:
    """Returns the results of a trial's runs, as far as they can be read."""
    found = []
    for run in runs(directory):
        try:
            found.append(run.result)
        except RunError:
            continue
    return found


def _seed(path: Path) -> int:
    return int(path.name.removeprefix("seed-"))


def _costs(its_runs: Sequence[Run], record: Record) -> Costs:
    found = results(its_runs[0].path if len(its_runs) == 1 else its_runs[0].path.parent)
    if not found:
        return Costs(seconds=_between(record))
    epochs = [one.get("best_epoch") for one in found]
    return Costs(
        best_epoch=epochs[0] if len(epochs) == 1 else None,
        seconds=sum(one["seconds"]["total"] for one in found),
        parameters=found[0]["parameters"]["total"],
    )


def _between(record: Record) -> float | None:
    return (record.ended - record.started).total_seconds() if record.started and record.ended else None


def write_table(
    file: Path, found: Sequence[Record], keys: Sequence[str], objectives: Sequence[Objective], reader: Reader
) -> None:
    """Writes `trials.parquet`, at once or not at all.

    Args:
        file: Where to.
        found: The trials.
        keys: What was searched: each has a column of its own, empty where a trial did not set it.
        objectives: What was looked for; each metric has a column of its own, empty where a trial did not finish.
        reader: Of the study's runs.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    costs = [reader.costs(one) for one in found]
    columns: dict[str, Any] = {
        "number": pa.array([one.number for one in found], pa.int64()),
        "state": pa.array([one.state for one in found], pa.string()),
    }
    for key in dict.fromkeys([*keys, *(key for one in found for key in one.values)]):
        columns[key] = _column([one.values.get(key) for one in found])
    for place, objective in enumerate(objectives):
        reached = [one.objectives[place] if one.objectives else None for one in found]
        columns[objective.metric] = pa.array(reached, pa.float64())
    columns |= {
        "best_epoch": pa.array([one.best_epoch for one in costs], pa.int64()),
        "seconds": pa.array([one.seconds for one in costs], pa.float64()),
        "parameters": pa.array([one.parameters for one in costs], pa.int64()),
        "directory": pa.array([str(reader.directory(one)) for one in found], pa.string()),
        "retried_from": pa.array([one.retry_of for one in found], pa.int64()),
        "note": pa.array([one.error for one in found], pa.string()),
    }
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    pq.write_table(pa.table(columns), beside, compression="zstd")
    os.replace(beside, file)


def _column(values: Sequence[Any]) -> Any:
    """A column of whole numbers, numbers, truths or words; choices of several kinds are words."""
    import pyarrow as pa

    kinds: Mapping[frozenset[type], Any] = {
        frozenset({bool}): pa.bool_(),
        frozenset({int}): pa.int64(),
        frozenset({float}): pa.float64(),
        frozenset({int, float}): pa.float64(),
    }
    kind = kinds.get(frozenset(type(value) for value in values if value is not None))
    if kind is None:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array(values, kind)
