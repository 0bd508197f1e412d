"""The plan of a sweep: search space, objectives, budget and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sentattn.sweep.objective import Objective
from sentattn.sweep.search_space import Dimension, Value, override

TRAINING_METRIC = "val/"


@dataclass(frozen=True)
class Budget:
    """The end of a sweep.

    Attributes:
        trials: Finished trials, complete and pruned ones; None for no limit.
        hours: Hours in which trials are started, over all starts; None for no limit.
    """

    trials: int | None
    hours: float | None


@dataclass(frozen=True)
class Plan:
    """A sweep, read and checked.

    Attributes:
        study: Its name, and that of its folder.
        overrides: Arguments that all trials have.
        space: The search space; each dimension comes after those that it depends on.
        objectives: The objectives.
        budget: The budget.
        sampler: Name and settings.
        pruner: Name and settings.
        repeats: Trainings per trial.
        retries: Further attempts after a trial has died.
        failures: Failures in a row that end the sweep.
        limit_minutes: Minutes after which a trial is killed; None for no limit.
        slots: Trials at once; None for one per GPU, or per core.
        slots_per_gpu: Trials at once on one GPU.
        gpus_per_trial: GPUs per trial.
        threads: CPU threads per trial.
        keep: Number of best trials that keep their checkpoints.
        confirm: Number of seeds that train the best setting at the end.
        output_dir: The study is in `output_dir/sweeps/<study>`.
        storage: SQLAlchemy's URL of its database; None for a file in its folder. It may hold a password.
        engine: Name of the engine that runs trials.
        seed: Of the sampler and of every trial.
        members: The studies of a file that starts several; the plan itself then has no trials.
        notes: Messages for the user on what was added or left out.
    """

    study: str
    overrides: tuple[str, ...]
    space: Mapping[str, Dimension]
    objectives: tuple[Objective, ...]
    budget: Budget
    sampler: Mapping[str, Any]
    pruner: Mapping[str, Any]
    repeats: int
    retries: int
    failures: int
    limit_minutes: float | None
    slots: int | None
    slots_per_gpu: int
    gpus_per_trial: int
    threads: int | None
    keep: int
    confirm: int
    output_dir: str
    seed: int
    storage: str | None = field(default=None, repr=False)
    engine: str = "local"
    members: tuple[Plan, ...] = ()
    notes: tuple[str, ...] = ()

    def arguments(self, values: Mapping[str, Value]) -> list[str]:
        """Returns the arguments of `python -m sentattn.train` that train the setting of a trial."""
        metric = next((one for one in self.objectives if one.metric.startswith(TRAINING_METRIC)), None)
        best = [f"objective.metric={metric.metric}", f"objective.mode={metric.mode}"] if metric else []
        return [*self.overrides, *(override(key, value) for key, value in values.items()), *best]

    def trial_arguments(self, values: Mapping[str, Value]) -> list[str]:
        """Returns the arguments of `python -m sentattn.train` for a trial, with what belongs to the sweep."""
        settings = [f"output_dir={self.output_dir}", f"group={self.study}", "test=false"]
        return [*self.arguments(values), *settings, *([] if "seed" in values else [f"seed={self.seed}"])]
