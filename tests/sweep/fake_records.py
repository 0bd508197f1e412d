"""Fake trials, as records and as results of runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sentattn.sweep.records import Record

BEGAN = datetime(2026, 3, 4, 5, 6, 7)


def record(number: int, objectives: float | tuple[float, ...] | None = None, **others: Any) -> Record:
    """A trial that took ten seconds; without objectives it has failed."""
    values = others.pop("values", {})
    reached = (objectives,) if isinstance(objectives, float) else objectives
    fields: dict[str, Any] = {
        "state": "complete" if reached else "failed",
        "steps": {},
        "error": "",
        "retry_of": None,
        "started": BEGAN,
        "ended": BEGAN + timedelta(seconds=10),
    }
    return Record(number=number, values=values, objectives=reached, **(fields | others))


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
