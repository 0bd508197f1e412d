"""A study with fake trials, as a program that can be killed: `python fake_sweep.py FOLDER TRIALS [OVERRIDE ...]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fake_study import Noted, engine, slots
from optuna.distributions import FloatDistribution

from sentattn.config import command_line
from sentattn.config.search_space import Dimension
from sentattn.sweep.execution.scheduler import Scheduler
from sentattn.sweep.spec.plan import Objective, Plan
from sentattn.sweep.study.study import SweepStudy


def plan(trials: int, *overrides: str, **changed: Any) -> Plan:
    """A sweep over one number, which is a trial's value too."""
    usual: dict[str, Any] = {
        "study": "fake",
        "overrides": overrides,
        "space": {"x": Dimension("x", FloatDistribution(0, 1), written="interval(0,1)")},
        "objectives": (Objective("val/accuracy", "max"),),
        "trials": trials,
        "sampler": {"name": "random"},
        "pruner": {"name": "none"},
        "retries": 3,
        "failures": 10,
        "keep": 1,
    }
    return Plan(**{**usual, **changed})


def main(words: list[str]) -> None:
    """Runs the sweep of a command line; `storage=URL` and `heartbeat=SECONDS` are the sweep's own."""
    own = dict(word.split("=", 1) for word in words if word.startswith(("storage=", "heartbeat=")))
    overrides = [word for word in words[2:] if word.partition("=")[0] not in own]
    changed: dict[str, Any] = own | ({"heartbeat": int(own["heartbeat"])} if own else {})
    sweep(Path(words[0]), plan(int(words[1]), *overrides, **changed))


def sweep(folder: Path, sweep_plan: Plan) -> Noted:
    """Runs it, or resumes it."""
    noted = Noted()
    with SweepStudy.open(sweep_plan, folder) as study:
        Scheduler([study], slots(2), engine(folder), [noted]).run()
    return noted


if __name__ == "__main__":
    sys.exit(command_line.command(main)())
