"""A trial as its process receives it, and what that process records of it in the journal of the study."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import JournalStorage
from optuna.trial import TrialState

from sentattn.config.schema import Settings
from sentattn.config.search_space import Value
from sentattn.config.types import Node
from sentattn.errors import UserError
from sentattn.jobs.pool import may_succeed_again
from sentattn.sweep.spec.components import build_pruner
from sentattn.sweep.study import journal
from sentattn.sweep.study.records import ERROR, RETRYABLE, TRIALS


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
        return Path(self.study) / TRIALS / str(self.number)


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
