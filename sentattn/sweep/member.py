"""A study among those that share the slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sentattn.sweep import disk
from sentattn.sweep.callbacks import TRIALS, TrialOutcome

if TYPE_CHECKING:
    from sentattn.sweep.study import Asked, SweepStudy


class Member:
    """A study among those that share the slots.

    Args:
        study: What is known of it, and what it searches.

    Attributes:
        kept: Values of the best trials, by number, the best first.
        failures: How many trials have failed since the last that did not.
        closed: Whether no trial is asked for any more.
    """

    def __init__(self, study: SweepStudy) -> None:
        self.study = study
        self.plan = study.plan
        self.trials = study.folder / TRIALS
        self.running = 0
        self.failures = 0
        self.closed = False
        self.kept: dict[int, Sequence[float]] = {}
        known = {one.number: one.objectives for one in study.records() if one.state == "complete" and one.objectives}
        self._keep(known, [int(folder.name) for folder in self.trials.glob("[0-9]*")])

    def ask(self) -> Asked | None:
        """Returns the next trial, if another one belongs into the budget."""
        trials = self.plan.budget.trials
        if self.closed or (trials is not None and self.study.finished() + self.running >= trials):
            return None
        return self.study.ask()

    def end(self, number: int, how: TrialOutcome) -> None:
        """Keeps what became of a trial, and throws away what only the best ones keep."""
        self.study.tell(number, how.values, how.state, how.report, again=how.retry)
        self.failures = self.failures + 1 if how.state == "failed" else 0
        self._keep(self.kept if how.values is None else {**self.kept, number: how.values}, [*self.kept, number])

    def _keep(self, candidates: Mapping[int, Sequence[float]], there: Sequence[int]) -> None:
        signs = [1.0 if one.mode == "max" else -1.0 for one in self.plan.objectives]
        best = disk.best(candidates, signs, max(1, self.plan.keep))
        disk.tidy(self.trials, [number for number in there if number not in best[: self.plan.keep]])
        self.kept = {number: candidates[number] for number in best}
