"""A study on disk: what is asked next, what came of it, and how it goes on after whatever ended it.

Only the owner's process has one. Every step is written when it is taken, so a process that is killed loses nothing that
was told: the trials that were running are tried again with their values, under new numbers, and each finished trial is
there once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import optuna
from optuna.trial import Trial, TrialState

from sentattn.sweep import storage
from sentattn.sweep.clock import Clock
from sentattn.sweep.opening import PLACE, SECONDS, opened
from sentattn.sweep.records import AGAIN_OF, ATTEMPT, BROKEN_OFF, NEXT, NOTE, Record, best, record
from sentattn.sweep.samplers import LARGEST_GRID
from sentattn.sweep.search_space import Value, points, suggest

if TYPE_CHECKING:
    from sentattn.sweep.config import Plan

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
STATES = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}


@dataclass(frozen=True)
class Asked:
    """A trial to be run.

    Attributes:
        number: Its number, and that of its directory.
        values: What it tries, by key.
        arguments: What `python -m sentattn.train` takes for it; each repeat has the seed after that of the one before.
    """

    number: int
    values: Mapping[str, Value]
    arguments: list[str]


class SweepStudy:
    """A study, held by this process: in memory, where the sampler looks, and on disk, where each step is written.

    Args:
        plan: The sweep.
        folder: Where it lies.
        disk: What writes it.
        live: Its trials in memory.
        owner: What holds the folder.
    """

    def __init__(self, plan: Plan, folder: Path, disk: storage.Disk, live: optuna.Study, owner: storage.Owner) -> None:
        self.plan = plan
        self.folder = folder
        self._disk = disk
        self._live = live
        self._owner = owner
        self._running: dict[int, Trial] = {}
        self._failures = 0
        trials = live.get_trials(deepcopy=False)
        tried_again = {trial.user_attrs.get(AGAIN_OF) for trial in trials}
        self._again = [t.number for t in trials if NEXT in t.user_attrs and t.number not in tried_again]
        self._finished = sum(trial.state in FINISHED for trial in trials)
        self._tried = sum(AGAIN_OF not in trial.user_attrs for trial in trials if trial.params)
        by_points = plan.sampler["name"] in ("grid", "brute_force")
        self._points = points(plan.space, LARGEST_GRID) if by_points else None
        self._place: Mapping[str, Any] = live.user_attrs.get(PLACE, {})
        self._clock = Clock(float(live.user_attrs.get(SECONDS, 0.0)), disk)

    @classmethod
    def open(cls, plan: Plan, folder: Path) -> SweepStudy:
        """Begins a study or goes on with it; its space may have been changed since.

        Args:
            plan: The sweep; no file of several.
            folder: Where the study lies.

        Raises:
            RunError: If another process works on it, with that one's id, or it cannot be written.
            SettingError: If the study that is there looks for something else.
        """
        assert not plan.members, "each study of a file of several is opened by itself"
        owner = storage.Owner(folder)
        try:
            with storage.told(folder):
                return cls(plan, folder, *opened(plan, folder), owner)
        except BaseException:
            owner.release()
            raise

    def close(self) -> None:
        """Notes the time and gives the folder up."""
        try:
            with storage.told(self.folder):
                self._clock.note(always=True)
        finally:
            self._owner.release()

    def __enter__(self) -> SweepStudy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self) -> Asked | None:
        """Returns the next trial; None while what runs may fill the budget, and when the study is done.

        A trial that is to be tried again comes first.
        """
        if self.ended() or not self._is_room():
            return None
        with storage.told(self.folder):
            if self._again:
                before = self._live.get_trials(deepcopy=False)[self._again.pop(0)]
                attrs = {AGAIN_OF: before.number, ATTEMPT: before.user_attrs[NEXT]}
                self._live.enqueue_trial(before.params, user_attrs=attrs)
            else:
                self._tried += 1
            trial = self._live.ask()
            values = suggest(trial, self.plan.space)
            self._note_place()
            self._disk.begin(self._live.get_trials(deepcopy=False)[trial.number])
            self._running[trial.number] = trial
            self._clock.note()
        return Asked(trial.number, values, self.plan.trial_arguments(values))

    def report(self, number: int, epoch: int, value: float) -> bool:
        """Notes what a trial has reached; returns whether it should end early.

        Args:
            number: The trial.
            epoch: The epoch, counted from 1; where a trial is a mean over repeats, the repeat.
            value: The first objective there.
        """
        if not math.isfinite(value) or len(self.plan.objectives) > 1:
            return False
        trial = self._running[number]
        with storage.told(self.folder):
            self._disk.step(number, epoch, float(value))
            trial.report(float(value), epoch)
            self._clock.note()
            return bool(trial.should_prune())

    def tell(
        self,
        number: int,
        values: Sequence[float] | None = None,
        state: Literal["complete", "pruned", "failed"] = "complete",
        note: str = "",
        *,
        again: bool = False,
    ) -> bool:
        """Notes how a trial ended; returns whether a failed one is tried again.

        Args:
            number: The trial.
            values: Its objectives, of a complete one.
            state: How it ended. A complete one without finite objectives has failed.
            note: Why it failed.
            again: Whether another try may end better; there are `retries` of them.
        """
        if state == "complete" and not (values and all(map(math.isfinite, values))):
            state, note, again = "failed", note or "it ended without a figure", False
        attempt = self._running[number].user_attrs.get(ATTEMPT, 0)
        retried = state == "failed" and again and attempt < self.plan.retries
        attrs = ({NOTE: note} if note else {}) | ({NEXT: attempt + 1} if retried else {})
        self._end(number, STATES[state], list(values) if values and state == "complete" else None, attrs)
        self._failures = self._failures + 1 if state == "failed" else 0
        self._finished += state != "failed"
        return retried

    def give_up(self, number: int) -> None:
        """Ends a running trial that the sweep's own end broke off: it is tried again, which is no retry."""
        attempt = self._running[number].user_attrs.get(ATTEMPT, 0)
        self._end(number, TrialState.FAIL, None, {NOTE: BROKEN_OFF, NEXT: attempt})

    def _end(self, number: int, state: TrialState, values: list[float] | None, attrs: Mapping[str, Any]) -> None:
        trial = self._running.pop(number)
        with storage.told(self.folder):
            self._disk.end(number, state, values, attrs)
            for key, value in attrs.items():
                trial.set_user_attr(key, value)
            self._live.tell(trial, values, state)
            if NEXT in attrs:
                self._again.append(number)
            self._clock.note()

    def waiting(self) -> int:
        """Returns how many trials are to be tried again."""
        return len(self._again)

    def running(self) -> tuple[int, ...]:
        """Returns the numbers of the trials that were asked for and not yet told."""
        return tuple(self._running)

    def finished(self) -> int:
        """Returns how many trials count toward the budget: complete and pruned ones."""
        return self._finished

    def seconds(self) -> float:
        """Returns how long the study was worked on, over all starts."""
        return self._clock.seconds()

    def done(self) -> bool:
        """Whether nothing is to be asked any more and nothing is running."""
        return bool(self.ended()) and not self._running

    def ended(self) -> str:
        """Returns why no further trial is begun, or an empty string."""
        budget = self.plan.budget
        if budget.trials is not None and self._finished >= budget.trials:
            return "1 trial is finished" if self._finished == 1 else f"{self._finished} trials are finished"
        if self._points is not None and self._tried >= self._points and not self._again and not self._running:
            return f"all {self._points} points of the space were tried"
        if budget.hours is not None and self.seconds() >= budget.hours * 3600:
            return f"the budget of {budget.hours:g} hours is used up"
        if self._failures >= self.plan.failures:
            return f"{self._failures} trials in a row have failed"
        return ""

    def records(self) -> list[Record]:
        """Returns all trials in the order in which they began."""
        return [record(trial, self.plan.space) for trial in self._live.get_trials(deepcopy=False)]

    def best(self) -> list[Record]:
        """Returns the best trial, or with several objectives the front; none while none is complete."""
        return best(self.records(), [one.mode for one in self.plan.objectives])

    def _is_room(self) -> bool:
        trials = self.plan.budget.trials
        is_point_left = bool(self._again) or self._points is None or self._tried < self._points
        return is_point_left and (trials is None or self._finished + len(self._running) < trials)

    def _note_place(self) -> None:
        """Notes where in its sequence a sampler is, if it has one."""
        place = self._live._storage.get_study_system_attrs(self._live._study_id)
        if place != self._place:
            self._disk.note(PLACE, place)
            self._place = dict(place)
