"""The files of a study: `best.yaml`, `trials.parquet` and `confirm.json`."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from optuna.trial import TrialState
from pydantic import BaseModel, ValidationError

from sentattn.compare.statistics import Estimate, seed_term
from sentattn.config.command_line import CONFIG_DIR
from sentattn.config.request import OVERRIDES_KEY, read_request
from sentattn.config.schema import BOUNDS, SEEDS
from sentattn.console import plural
from sentattn.errors import RunError
from sentattn.run import CONFIRMED_FILE, Run, replacing, write_atomically, yaml_text
from sentattn.run import TRIALS_FILE as TABLE
from sentattn.sweep.records import ERROR, RETRY_OF, TRIAL_FOLDER, reached_by, state_of, values_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from sentattn.sweep.plan import Plan

BEST_FILE = "best.yaml"
CONFIDENCE = 0.95


class Reached(BaseModel):
    """What runs with several seeds reached in a metric."""

    mean: float
    interval: tuple[float, float] | None
    values: list[float]


class Confirmed(BaseModel, ser_json_inf_nan="constants"):
    """The content of `confirm.json`: what the setting of a study's best trial reached with other seeds."""

    study: str
    trial: int
    seeds: list[int]
    runs: list[str]
    confidence: float
    metrics: dict[str, Reached]


def costs(folder: Path, trial: FrozenTrial) -> tuple[int | None, float | None, int | None]:
    """Returns the best epoch, seconds and parameters of a trial of the study in a folder, as far as they are known.

    The epoch is that of a single run, the seconds are those of all.
    """
    place, runs = directory(folder, trial.number), []
    if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
        for path in [*place.glob("seed-*")] or [place]:
            with suppress(RunError):
                runs.append(Run(path).result)
    if runs:
        best_epoch = runs[0].get("best_epoch") if len(runs) == 1 else None
        return best_epoch, sum(run["seconds"]["total"] for run in runs), runs[0]["parameters"]["total"]
    return None, trial.duration.total_seconds() if trial.duration else None, None


def directory(folder: Path, number: int) -> Path:
    """Returns the directory of a trial."""
    return folder / TRIAL_FOLDER / str(number)


def trial_table(plan: Plan, folder: Path, trials: Sequence[FrozenTrial]) -> dict[str, list[Any]]:
    """Returns the table of trials by column.

    Each searched setting has a column, empty where a trial did not set it, and so has each objective, empty where a
    trial is not complete.
    """
    spent, values = [costs(folder, trial) for trial in trials], [values_of(trial, plan.space) for trial in trials]
    table: dict[str, list[Any]] = {
        "number": [trial.number for trial in trials],
        "state": [*map(state_of, trials)],
        **{key: [tried.get(key) for tried in values] for key in plan.space},
    }
    for index, objective in enumerate(plan.objectives):
        table[objective.metric] = [reached[index] if (reached := reached_by(trial)) else None for trial in trials]
    return table | {
        **{name: [cost[index] for cost in spent] for index, name in enumerate(("best_epoch", "seconds", "parameters"))},
        "directory": [str(directory(folder, trial.number)) for trial in trials],
        "retried_from": [trial.user_attrs.get(RETRY_OF) for trial in trials],
        "note": [trial.user_attrs.get(ERROR, "") for trial in trials],
    }


def write_table(plan: Plan, folder: Path, trials: Sequence[FrozenTrial]) -> None:
    """Writes `trials.parquet` atomically: a row per trial."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"number": "int64", **{objective.metric: "float64" for objective in plan.objectives}}
    types |= {"best_epoch": "int64", "seconds": "float64", "parameters": "int64", "retried_from": "int64"}

    def array(name: str, values: Sequence[object]) -> object:
        try:
            return pa.array(values, types.get(name))
        except pa.ArrowException:  # choices of several types
            return pa.array([None if value is None else str(value) for value in values])

    table = pa.table({name: array(name, values) for name, values in trial_table(plan, folder, trials).items()})
    with replacing(folder / TABLE) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def write_best(plan: Plan, folder: Path, front: Sequence[FrozenTrial]) -> None:
    """Writes `best.yaml` for the best trial, the first of `front`."""
    if not front:
        return
    best, file = front[0], folder / BEST_FILE
    found = values_of(best, plan.space)
    options, settings = _split_options(train_arguments(plan, found))
    origin: dict[str, object] = {
        "study": plan.study,
        "trial": best.number,
        "reached": {o.metric: value for o, value in zip(plan.objectives, best.values, strict=True)},
        "date": f"{best.datetime_complete:%Y-%m-%d %H:%M}",
        "found": found,
    }
    command = train_command(file, options)
    text = f"# Trial {best.number} of the study {plan.study}. Train and test it again: {command}\n"
    if any(word.startswith("from=") for word in settings):
        # A list of arguments cannot name another base, so the settings are written in full.
        text += "".join(f"# {line}\n" for line in _yaml(origin).splitlines())
        text += yaml_text(read_request([*options, *settings]).settings)
    else:
        text += _yaml({**origin, OVERRIDES_KEY: settings})
    write_atomically(file, text)


def _yaml(value: Mapping[str, object]) -> str:
    return str(yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True, width=1000))


def train_command(file: Path, overrides: Sequence[str]) -> str:
    """Returns the command that trains and tests the setting of a file, with the options among a study's overrides.

    A file cannot hold them, since they allow code to be run.
    """
    options, _ = _split_options(overrides)
    return shlex.join(["python", "-m", "sentattn.train", f"from={file}", *options])


def _split_options(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits `--config-dir=FOLDER` and `trust=true` from the settings."""
    options = [word for word in arguments if word.startswith(f"{CONFIG_DIR}=") or word == "trust=true"]
    return options, [word for word in arguments if word not in options]


def train_arguments(plan: Plan, values: Mapping[str, Any]) -> list[str]:
    """Returns the arguments of a training that repeats a trial, and tests it."""
    return [*plan.arguments(values), f"seed={plan.seed}"]


def write_confirmed(plan: Plan, folder: Path, winner: int, runs: Sequence[Run]) -> None:
    """Writes `confirm.json`: means and intervals of the metrics of runs with other seeds of the best setting.

    Intervals lie within the bounds of their metric; with fewer than three seeds there are none.
    """
    metrics = {}
    for name in runs[0].metrics:
        if name.startswith(("val/", "test/")) and all(name in run.metrics for run in runs):
            values = [run.metrics[name] for run in runs]
            mean, interval = statistics.fmean(values), None
            if len(values) >= SEEDS and len(set(values)) > 1:  # equal values have no spread
                bounds = BOUNDS.get(name.partition("/")[2], (-math.inf, math.inf))
                interval = Estimate(mean, [seed_term(np.array(values))], bounds).interval(CONFIDENCE)
            metrics[name] = Reached(mean=mean, interval=interval, values=values)
    confirmed = Confirmed(
        study=plan.study,
        trial=winner,
        seeds=[run.settings["seed"] for run in runs],
        runs=[str(run.path) for run in runs],
        confidence=CONFIDENCE,
        metrics=metrics,
    )
    write_atomically(folder / CONFIRMED_FILE, confirmed.model_dump_json(indent=2) + "\n")


def find_confirmed(folder: Path, trial: int, seeds: int | None = None) -> Confirmed | None:
    """Returns the content of a study's `confirm.json` if it is about a trial, and has this number of seeds."""
    try:
        known = Confirmed.model_validate_json((folder / CONFIRMED_FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    return known if known.trial == trial and seeds in (None, len(known.seeds)) else None


def describe_confirmed(plan: Plan, confirmed: Confirmed) -> str:
    """Returns the result of `confirm`: the objective's mean in validation and test, a line each."""
    objective, metrics = plan.objectives[0].metric, confirmed.metrics
    names = [name for name in (objective, objective.replace("val/", "test/", 1)) if name in metrics]
    means = []
    for name in names or list(metrics)[:1]:
        interval = " ({:.4f} to {:.4f})".format(*bounds) if (bounds := metrics[name].interval) else ""
        means.append(f"{name} {metrics[name].mean:.4f}{interval}")
    seeds = plural(len(confirmed.seeds), "seed")
    return "\n  ".join([f"{plan.study}: trial {confirmed.trial} confirmed with {seeds}:", *means])
