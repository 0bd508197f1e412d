"""`best.yaml`: the best setting of a study, as `python -m sentattn.train from=FILE` takes it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from sentattn.config.request import read_request
from sentattn.config.saved import OVERRIDES
from sentattn.run import write_atomically
from sentattn.sweep.records import Record, best

if TYPE_CHECKING:
    from sentattn.sweep.config import Plan
    from sentattn.sweep.objective import Objective

BEST, FRONT = "best.yaml", "pareto"
BASE = "from="


def front(found: Sequence[Record], objectives: Sequence[Objective]) -> list[Record]:
    """Returns the best trial; with several objectives those that no other one beats, the most balanced first."""
    there = best(found, [one.mode for one in objectives])
    if len(objectives) == 1 or not there:
        return there
    chosen = there[nearest([one.objectives or () for one in there], [one.mode for one in objectives])]
    return [chosen, *(one for one in there if one is not chosen)]


def nearest(points: Sequence[Sequence[float]], modes: Sequence[str]) -> int:
    """Returns the place of the point that is nearest to the best of each objective at once.

    Each objective goes from 0, the best on the front, to 1, the worst on it; the distance is Euclid's.
    """
    columns = zip(zip(*points, strict=True), modes, strict=True)
    ranges = [(max(one), min(one)) if mode == "max" else (min(one), max(one)) for one, mode in columns]

    def distance(point: Sequence[float]) -> float:
        parts = [(value - good) / (bad - good) for value, (good, bad) in zip(point, ranges, strict=True) if bad != good]
        return math.hypot(*parts)

    return min(range(len(points)), key=lambda place: distance(points[place]))


def write_best(plan: Plan, folder: Path, there: Sequence[Record]) -> None:
    """Writes `best.yaml`, and with several objectives a file for each setting of the front in `pareto/`.

    Args:
        plan: The sweep.
        folder: The study's folder.
        there: The best trial, or the front, that of `best.yaml` first.
    """
    if not there:
        return
    if len(plan.objectives) > 1:
        (folder / FRONT).mkdir(exist_ok=True)
        for one in there:
            _write(plan, one, folder / FRONT / f"{one.number}.yaml")
        for file in (folder / FRONT).glob("*.yaml"):
            if file.stem not in {str(one.number) for one in there}:
                file.unlink()
    _write(plan, there[0], folder / BEST)


def command(file: Path) -> str:
    """Returns what trains a file's setting, and tests it."""
    return f"python -m sentattn.train from={shlex.quote(str(file))}"


def arguments(plan: Plan, values: Mapping[str, Any]) -> list[str]:
    """Returns the arguments of a training that repeats a trial, and tests it."""
    return [*plan.arguments(values), *([] if "seed" in values else [f"seed={plan.seed}"])]


def _write(plan: Plan, one: Record, file: Path) -> None:
    words = arguments(plan, one.values)
    about: dict[str, Any] = {
        "study": plan.study,
        "trial": one.number,
        "reached": {o.metric: value for o, value in zip(plan.objectives, one.objectives or (), strict=True)},
        "date": f"{one.ended:%Y-%m-%d %H:%M}" if one.ended else None,
        "found": dict(one.values),
    }
    told = f"# Trial {one.number} of the study {plan.study}. Train it again, and test it: {command(file)}\n"
    if any(word.startswith(BASE) for word in words):
        # A list of arguments cannot name another base, so the settings are written out.
        told += "".join(f"# {line}\n" for line in _yaml(about).splitlines())
        write_atomically(file, told + _yaml(read_request(words).settings))
    else:
        write_atomically(file, told + _yaml({**about, OVERRIDES: words}))


def _yaml(value: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True, width=1000)
    return text
