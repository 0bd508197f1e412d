"""Room on the disk: of all trials but the best, what only another training would need is thrown away."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from sentattn.run import CHECKPOINTS, MODEL

LARGE = (CHECKPOINTS, MODEL)
"""A model can be trained again with `from=`; its figures, predictions and settings stay."""
Values = Sequence[float]


def best(values: Mapping[int, Values], signs: Sequence[float], count: int) -> list[int]:
    """Returns the numbers of the best trials, the best first; of equals the first comes first.

    With several objectives they are of the Pareto front, the best by the first objective first.

    Args:
        values: Of the objectives, by trial.
        signs: 1 for an objective that is to be large, -1 for one that is to be small.
        count: How many at most.
    """
    merits = {number: tuple(s * v for s, v in zip(signs, own, strict=True)) for number, own in values.items()}
    ordered = sorted(merits, key=lambda number: ([-merit for merit in merits[number]], number))
    front: list[int] = []
    for number in ordered:
        if len(front) == count:
            break
        # A trial that is behind another in all is behind one that is ordered before it.
        if len(signs) == 1 or not any(_is_behind(merits[number], merits[other]) for other in front):
            front.append(number)
    return front


def tidy(trials: Path, numbers: Sequence[int]) -> None:
    """Throws away checkpoints and models of these trials."""
    for number in numbers:
        for name in LARGE:
            for folder in [trials / str(number) / name, *(trials / str(number)).glob(f"seed-*/{name}")]:
                shutil.rmtree(folder, ignore_errors=True)


def _is_behind(merit: Values, other: Values) -> bool:
    return all(own <= its for own, its in zip(merit, other, strict=True)) and tuple(merit) != tuple(other)
