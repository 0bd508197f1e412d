"""Fake trials, as Optuna's and as results of runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from sentattn.sweep.plan import Plan
from sentattn.sweep.records import DIRECTIONS

BEGAN = datetime(2026, 3, 4, 5, 6, 7)
STATES = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "running": TrialState.RUNNING}


def record(number: int, objectives: float | tuple[float, ...] | None = None, **others: Any) -> FrozenTrial:
    """A trial that took ten seconds; without objectives it has failed."""
    state = others.get("state", "complete" if objectives is not None else "failed")
    attributes = {"error": others.get("error") or ("it was killed" if state == "failed" else None)}
    attributes["retry_of"] = others.get("retry_of")
    reached = [objectives] if isinstance(objectives, float) else objectives
    return FrozenTrial(
        number=number,
        state=STATES.get(state, TrialState.FAIL),
        value=None,
        values=reached if state == "complete" else None,
        datetime_start=BEGAN,
        datetime_complete=None if state == "running" else BEGAN + timedelta(seconds=10),
        params=dict(others.get("values", {})),
        distributions={},
        user_attrs={key: value for key, value in attributes.items() if value is not None},
        system_attrs={},
        intermediate_values=dict(others.get("steps", {})),
        trial_id=number,
    )


def study_of(plan: Plan, trials: Sequence[FrozenTrial]) -> optuna.Study:
    """A study in memory with the trials of a plan, whose values become what its sampler would have drawn."""
    directions = [DIRECTIONS[objective.mode] for objective in plan.objectives]
    study = optuna.create_study(directions=directions)
    for trial in trials:
        drawn = optuna.trial.create_trial(
            state=trial.state,
            values=trial.values,
            params={key: plan.space[key].drawn(value) for key, value in trial.params.items()},
            distributions={key: plan.space[key].distribution for key in trial.params},
            user_attrs=trial.user_attrs,
            intermediate_values=trial.intermediate_values,
        )
        drawn.datetime_start, drawn.datetime_complete = trial.datetime_start, trial.datetime_complete
        study.add_trial(drawn)
    return study


def result(folder: Path, number: int, seed: int | None = None, **others: Any) -> None:
    """The result of a trial's run, or of its run with a seed."""
    place = folder / "trials" / str(number) / (f"seed-{seed}" if seed is not None else "")
    place.mkdir(parents=True, exist_ok=True)
    usual: Mapping[str, Any] = {
        "format": 2,
        "status": "finished",
        "seed": seed or 0,
        "best_epoch": 3,
        "metrics": {},
        "seconds": {"train": 4.0, "total": 7.5},
        "parameters": {"total": 1234, "trainable": 1000},
    }
    (place / "result.json").write_text(json.dumps({**usual, **others}))
