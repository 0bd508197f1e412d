"""The trials of a study: what each process receives and records, what each tried and reached, and their counts."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import JournalStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from sentattn.config.schema import Settings
from sentattn.config.search_space import Dimension, Value
from sentattn.config.types import Node
from sentattn.errors import UserError
from sentattn.jobs.pool import may_succeed_again
from sentattn.run import CHECKPOINT_FOLDER, LAST_CHECKPOINT, LOCK_FILE, MODEL_FOLDER
from sentattn.sweep import journal
from sentattn.sweep.plan import build_pruner

TRIAL_FOLDER = "trials"
"""Folder of the run directories of the trials, in the folder of the study."""
State: TypeAlias = Literal["complete", "pruned", "failed", "interrupted", "running"]
DIRECTIONS: dict[str, Literal["minimize", "maximize"]] = {"max": "maximize", "min": "minimize"}
STATE_NAMES: dict[TrialState, State] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.RUNNING: "running",
}
SPACE, ERROR, RETRYABLE, RETRY_OF, ATTEMPT = "space", "error", "retryable", "retry_of", "attempt"
"""User attributes, the first of a study and the others of a trial."""


def started(study: optuna.Study) -> list[FrozenTrial]:
    """Returns the trials of a study in the order in which they started, without those that have not."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state is not TrialState.WAITING]


def state_of(trial: FrozenTrial) -> State:
    """Returns how a trial ended; one that is `interrupted` ended with the sweep and is tried again."""
    return STATE_NAMES.get(trial.state, "failed" if ERROR in trial.user_attrs else "interrupted")


def values_of(trial: FrozenTrial, space: Mapping[str, Dimension]) -> dict[str, Value]:
    """Returns what a trial tries, by key."""
    return {key: space[key].value(drawn) for key, drawn in trial.params.items()}


def reached_by(trial: FrozenTrial) -> list[float] | None:
    """Returns the objectives of a trial; None where it is not complete: of a pruned one Optuna has the last step."""
    return trial.values if trial.state is TrialState.COMPLETE else None


def ranked(study: optuna.Study) -> list[FrozenTrial]:
    """Returns the complete trials by their first objective, the first of equals before.

    With several objectives only those of the Pareto front, ties included.
    """
    several = len(study.directions) > 1
    trials = study.best_trials if several else study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    sign = -1 if study.directions[0] is StudyDirection.MAXIMIZE else 1
    return sorted(trials, key=lambda trial: (sign * trial.values[0], trial.number))


def front(study: optuna.Study) -> list[FrozenTrial]:
    """Returns the best complete trial, the first of equals; with several objectives the Pareto front.

    The most balanced trial of the front comes first. It is the nearest to the best of each objective at once: each is
    scaled to 0 for the best and 1 for the worst on the front, and the distance is Euclid's.
    """
    best = ranked(study)
    if len(study.directions) == 1:
        return best[:1]
    columns = zip(zip(*(trial.values for trial in best), strict=True), study.directions, strict=False)
    ends = [
        (max(values), min(values)) if direction is StudyDirection.MAXIMIZE else (min(values), max(values))
        for values, direction in columns
    ]

    def distance(trial: FrozenTrial) -> float:
        scaled = zip(trial.values, ends, strict=True)
        return math.hypot(*((value - good) / (bad - good) for value, (good, bad) in scaled if bad != good))

    first = min(sorted(best, key=lambda trial: trial.number), key=distance, default=None)
    return sorted(best, key=lambda trial: (trial is not first, trial.number))


@dataclass(frozen=True)
class TrialCounts:
    """The trials of a study.

    Attributes:
        finished: How many count toward the budget: complete and pruned ones.
        running: How many run, at any scheduler.
        retries: Those that are to be tried again; first those whose next trial waits in the study.
    """

    finished: int
    running: int
    retries: list[FrozenTrial]

    @classmethod
    def of(cls, trials: Sequence[FrozenTrial], attempts: int) -> TrialCounts:
        """Returns the counts of all trials that there are.

        Args:
            trials: The trials.
            attempts: How often a failed trial is tried again.
        """
        states = [trial.state for trial in trials]
        retried = {trial.user_attrs.get(RETRY_OF) for trial in trials}
        due = [trial for trial in trials if is_due(trial, attempts) and trial.number not in retried]
        return cls(
            finished=states.count(TrialState.COMPLETE) + states.count(TrialState.PRUNED),
            running=states.count(TrialState.RUNNING),
            retries=sorted(due, key=lambda trial: trial.state is not TrialState.WAITING),
        )


def is_due(trial: FrozenTrial, attempts: int) -> bool:
    """Whether a trial is to be tried again, if it has not been: after an interruption, or as often as may be.

    So is a trial that waits in the study: its process died before it ran.
    """
    if trial.state is TrialState.WAITING:
        return True
    if trial.state is not TrialState.FAIL:
        return False
    attrs = trial.user_attrs
    return ERROR not in attrs or (bool(attrs.get(RETRYABLE)) and attrs.get(ATTEMPT, 0) < attempts)


def continue_from(before: Path, folder: Path) -> None:
    """Copies the run directories of a trial that was interrupted after a checkpoint into that of its next attempt.

    The old folder keeps its metrics and its log; its checkpoints are moved to the new one.
    """
    if any((run / CHECKPOINT_FOLDER / LAST_CHECKPOINT).is_file() for run in (before, *before.glob("seed-*"))):
        shutil.copytree(before, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(f"{LOCK_FILE}*"))
        delete_large(before)


def delete_large(trial: Path) -> None:
    """Deletes checkpoints and models of a trial, which `from=` trains again; metrics and predictions stay."""
    for folder in (trial, *trial.glob("seed-*")):
        for name in (CHECKPOINT_FOLDER, MODEL_FOLDER):
            shutil.rmtree(folder / name, ignore_errors=True)


@dataclass(frozen=True)
class TrialTask:
    """A trial to be run.

    Attributes:
        study: The folder of the study.
        number: Its number there.
        values: What it tries, by key.
        arguments: Its command line for `python -m sentattn.train`.
        settings: The same, resolved; None where they are refused, which the trial records.
        objectives: The metrics that are its objectives.
        repeats: Trainings, with consecutive seeds.
        pruner: The pruner's settings.
    """

    study: str
    number: int
    values: Mapping[str, Value]
    arguments: Sequence[str]
    settings: Settings | None
    objectives: Sequence[str]
    repeats: int
    pruner: Node

    @property
    def folder(self) -> Path:
        """Its run directory."""
        return Path(self.study) / TRIAL_FOLDER / str(self.number)


class TrialReport:
    """Records the steps and the end of a trial, as its process does.

    A trial that another scheduler took for dead is ended already, and nothing is recorded: it is tried again.
    """

    def __init__(self, task: TrialTask) -> None:
        self._storage, _ = journal.open_storage(Path(task.study))
        study = journal.find_study(self._storage)
        assert study is not None, "its scheduler has created it"
        self._study, self._number, self._pruner = study, task.number, build_pruner(task.pruner)
        self._id = trial_id(study, self._storage, task.number)

    def step(self, step: int, value: float) -> bool:
        """Records what the trial has reached after a step; returns whether it is to end here."""
        if not math.isfinite(value):
            return False
        try:
            self._storage.set_trial_intermediate_value(self._id, step, value)
        except UpdateFinishedTrialError:
            return True
        return self._pruner.prune(self._study, self._storage.get_trial(self._id))

    def end(self, values: Sequence[float] | None) -> None:
        """Records the objectives, None of a pruned trial; without finite objectives the trial has diverged."""
        if values is not None and not all(map(math.isfinite, values)):
            self._diverge("it ended without a finite value of its objective")
        elif values is not None:
            self._study.tell(self._number, list(values), skip_if_finished=True)
        else:
            self._study.tell(self._number, state=TrialState.PRUNED, skip_if_finished=True)

    def fail(self, error: UserError) -> None:
        """Records an error; to the sampler a trial that diverged is a pruned one."""
        message = " ".join(error.messages)
        if any(fault.kind == "diverged" for fault in error.faults):
            self._diverge(message)
        else:
            record_failure(self._study, self._storage, self._number, message, again=may_succeed_again(error))

    def _diverge(self, message: str) -> None:
        with suppress(UpdateFinishedTrialError):
            self._storage.set_trial_user_attr(self._id, ERROR, message)
        self.end(None)


def record_failure(study: optuna.Study, storage: JournalStorage, number: int, message: str, *, again: bool) -> None:
    """Records that a trial has failed.

    Args:
        study: The study.
        storage: Its storage.
        number: The trial.
        message: Why, which may have lines of its log.
        again: Whether another attempt may succeed.
    """
    identifier = trial_id(study, storage, number)
    with suppress(UpdateFinishedTrialError):
        storage.set_trial_user_attr(identifier, RETRYABLE, again)
        storage.set_trial_user_attr(identifier, ERROR, message)
    study.tell(number, state=TrialState.FAIL, skip_if_finished=True)  # last: a trial without an error was interrupted


def trial_id(study: optuna.Study, storage: JournalStorage, number: int) -> int:
    """Returns the ID of a trial in its storage."""
    return storage.get_trial_id_from_study_id_trial_number(storage.get_study_id_from_name(study.study_name), number)
