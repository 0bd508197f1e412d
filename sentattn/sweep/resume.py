"""A study is begun or resumed: trials that were running are ended, and a changed space is a second study.

Optuna keeps the range that each trial was drawn from. It refuses choices that change within a study, and where a range
of numbers changes, samplers that model several settings at once stay within the old one or draw the setting at random.
A setting that became a range had its fixed value in earlier trials. A finished trial outside of the new space is kept
and reported, but neither counted nor shown to the sampler, until the space contains it again.
"""

from __future__ import annotations

import functools
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from sentattn.config.command_line import CONFIG_DIR
from sentattn.config.groups import Choices, at
from sentattn.config.request import read_request
from sentattn.config.schema import WITHOUT_EFFECT_ON_RESULT
from sentattn.errors import Fault, RunError, SettingError, UserError
from sentattn.sweep import storage as storages
from sentattn.sweep.records import ERROR, OUTSIDE, SPACE, Record, attributes, record, space_of
from sentattn.sweep.search_space import Dimension, Value, to_json

if TYPE_CHECKING:
    from sentattn.sweep.plan import Plan

OVERRIDES = "overrides"
OBJECTIVES, SEED, REPEATS, SCHEDULER = "objectives", "seed", "repeats", "scheduler"
PLACE = "place"
"""System attributes of a study of 2026, which were kept apart: how far its sampler was."""
ALIVE_SECONDS = 60.0
"""How old the last sign of another machine's scheduler may be."""
FIXED = "fixed_params"
"""System attribute in which Optuna keeps the parameters of a trial that waits."""
UNKNOWN = object()


def open_study(plan: Plan, storage: RDBStorage) -> optuna.Study:
    """Returns the study of a plan, with the trials that were running ended and all trials in the space of today.

    Raises:
        SettingError: If the study there is about something else.
        RunError: If a scheduler of another machine works on it.
    """
    name = storages.current(storage, _sweep(plan))
    study = optuna.load_study(study_name=name, storage=storage) if name else _created(plan, storage)
    if plan.storage:
        _require_no_scheduler(plan, study)
    storages.delete_others(storage, _sweep(plan), study.study_name)
    _require_same(plan, study)
    for key, value in study.user_attrs.get(PLACE, {}).items():
        storage.set_study_system_attr(storage.get_study_id_from_name(study.study_name), key, value)
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)  # without an error: it was interrupted
    if _ranges(study.user_attrs[SPACE]) != _ranges(to_json(plan.space)):
        study = _migrate(study, storage, plan)
    return study


def _created(plan: Plan, storage: RDBStorage) -> optuna.Study:
    modes = [StudyDirection.MAXIMIZE if one.mode == "max" else StudyDirection.MINIMIZE for one in plan.objectives]
    study = optuna.create_study(study_name=plan.study, storage=storage, directions=modes, load_if_exists=True)
    for key, value in (_identity(plan) | {storages.CURRENT: 1}).items():
        study.set_user_attr(key, value)
    return study


def _identity(plan: Plan) -> dict[str, Any]:
    return {
        SPACE: to_json(plan.space),
        OVERRIDES: list(plan.overrides),
        OBJECTIVES: [[one.metric, one.mode] for one in plan.objectives],
        REPEATS: plan.repeats,
        SEED: plan.seed,
    }


def _ranges(space: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns a space without the text in which it was written."""
    return [{key: value for key, value in one.items() if key != "written"} for one in space]


def this_scheduler() -> dict[str, Any]:
    """Returns what a scheduler writes into a shared database, so that another one knows of it."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "seen": time.time()}


def _require_no_scheduler(plan: Plan, study: optuna.Study) -> None:
    """Refuses a study in a shared database that another scheduler has worked on a moment ago."""
    other = study.user_attrs.get(SCHEDULER)
    here = this_scheduler()
    is_dead = other and other["host"] == here["host"] and not Path(f"/proc/{other['pid']}").exists()
    if other and other["pid"] != here["pid"] and not is_dead and here["seen"] - other["seen"] < ALIVE_SECONDS:
        message = (
            f"study={plan.study} is in use by process {other['pid']} on {other['host']}; stop it there. If it has "
            f"died, start this command again after {ALIVE_SECONDS:.0f} seconds."
        )
        raise RunError(Fault("study", "busy", message))
    study.set_user_attr(SCHEDULER, here)


def _require_same(plan: Plan, study: optuna.Study) -> None:
    """Refuses to resume where a trial would mean something else than the earlier ones."""
    old, new = study.user_attrs, _identity(plan)
    searched = {*plan.space, *(one["key"] for one in old[SPACE])}
    differences = [
        f"{key}={old[key]}, not {new[key]}"
        for key in (OBJECTIVES, REPEATS, *(() if "seed" in searched else (SEED,)))
        if old[key] != new[key]
    ]
    old_words, new_words = (_fixed_arguments(words, searched) for words in (old[OVERRIDES], plan.overrides))
    if old_words != new_words:
        gone, added = (" ".join(sorted(words)) or "nothing" for words in (old_words - new_words, new_words - old_words))
        differences.append(f"{gone}, not {added}")
    if differences:
        hint = "its trials could not be compared; type study=NAME for another study"
        messages = [f"study={plan.study} was begun with {one}: {hint}." for one in differences]
        raise SettingError(*(Fault("study", "conflict", message) for message in messages))


def _fixed_arguments(overrides: Sequence[str], searched: set[str]) -> set[str]:
    """The arguments that all trials have, as far as they affect the result."""
    return {
        word
        for word in overrides
        if (key := word.partition("=")[0]) not in searched | WITHOUT_EFFECT_ON_RESULT
        and key.partition(".")[0] not in WITHOUT_EFFECT_ON_RESULT
        and key != CONFIG_DIR
    }


def _sweep(plan: Plan) -> str | None:
    """Returns the name by which a sweep finds its studies; None in a file of its own, whose folder may be renamed."""
    return plan.study if plan.storage else None


def _migrate(study: optuna.Study, storage: RDBStorage, plan: Plan) -> optuna.Study:
    """Adds a study's trials to a new study with a plan's space, which becomes the current one at the end.

    Args:
        study: The study as it is.
        storage: Where both are stored.
        plan: The sweep as it is now.

    Returns:
        The new study, which has the sweep's name with a number.
    """
    names = storages.studies(storage, None)
    name = next(new for number in range(2, len(names) + 3) if (new := f"{plan.study} ({number})") not in names)
    changed = optuna.create_study(study_name=name, storage=storage, directions=study.directions)
    attrs = {**study.user_attrs, SPACE: to_json(plan.space), OVERRIDES: list(plan.overrides)}
    number = int(attrs.pop(storages.CURRENT, 1))
    for key, value in attrs.items():
        changed.set_user_attr(key, value)
    # A folder of classes, which can run code, counts only where it was typed.
    folders = [word for word in plan.overrides if word.startswith(CONFIG_DIR)]
    old_overrides = [word for word in study.user_attrs[OVERRIDES] if not word.startswith(CONFIG_DIR)]
    change = _Change(space_of(study), plan.space, [*folders, *old_overrides], plan.overrides)
    changed.add_trials([_migrated(trial, change) for trial in study.get_trials(deepcopy=False)])
    changed.set_user_attr(storages.CURRENT, number + 1)
    storages.delete_others(storage, _sweep(plan), name)
    return changed


@dataclass(frozen=True)
class _Change:
    """The change of a space and of the arguments that all trials have."""

    old: Mapping[str, Dimension]
    new: Mapping[str, Dimension]
    old_overrides: Sequence[str]
    new_overrides: Sequence[str]

    def values(self, known: Mapping[str, Value]) -> dict[str, Value] | None:
        """Returns a trial's values in the new space; None if it is outside."""
        values: dict[str, Value] = {}
        for key, dimension in self.new.items():
            if not dimension.is_active(values):
                if key in known and known[key] != _fixed_value(self.new_overrides, key):
                    return None
                continue
            value: Any = known.get(key, UNKNOWN)
            if value is UNKNOWN and (key not in self.old or not self.old[key].is_active(known)):
                value = _fixed_value(self.old_overrides, key)
            if value is UNKNOWN or not dimension.contains(value):
                return None
            values[key] = value
        gone = [key for key in known if key not in self.new]
        return None if any(known[key] != _fixed_value(self.new_overrides, key) for key in gone) else values


def _migrated(trial: FrozenTrial, change: _Change) -> FrozenTrial:
    attrs = attributes(trial)
    if trial.state is TrialState.WAITING:
        fixed = {key: change.old[key].value(value) for key, value in trial.system_attrs.get(FIXED, {}).items()}
        drawn = {key: change.new[key].drawn(value) for key, value in (change.values(fixed) or {}).items()}
        return create_trial(state=TrialState.WAITING, system_attrs={FIXED: drawn}, user_attrs=attrs)
    known = record(trial, change.old)
    values = change.values(known.values)
    outside = attrs.pop(OUTSIDE, None)
    state = TrialState[outside["state"]] if outside else trial.state
    if values is None and state is TrialState.FAIL:
        attrs.setdefault(ERROR, "it was interrupted, and the space was changed since")
    elif values is None:
        attrs[OUTSIDE] = outside or _outside(trial, known)
        state = TrialState.FAIL
    drawn = {key: change.new[key].drawn(value) for key, value in (values or {}).items()}
    migrated = create_trial(
        state=state,
        values=list(known.objectives) if state is TrialState.COMPLETE and known.objectives else None,
        params=drawn,
        distributions={key: change.new[key].distribution for key in drawn},
        user_attrs=attrs,  # but none of the sampler's own attributes: they are about the space as it was
        intermediate_values=dict(known.steps),
    )
    migrated.datetime_start, migrated.datetime_complete = trial.datetime_start, trial.datetime_complete
    return migrated


def _outside(trial: FrozenTrial, known: Record) -> dict[str, Any]:
    return {
        "state": trial.state.name,
        "values": dict(known.values),
        "objectives": trial.values,
        "steps": {str(step): value for step, value in trial.intermediate_values.items()},
    }


def _fixed_value(overrides: Sequence[str], key: str) -> Any:
    """Returns the value of a setting that is no range; `UNKNOWN` where it cannot be read."""
    settings, choices = _composed(tuple(overrides)), Choices.of()
    if key in choices.groups():
        typed = [word.partition("=")[2] for word in overrides if word.partition("=")[0] == key]
        return typed[0] if typed else choices.chosen(settings).get(key, UNKNOWN)
    parent, _, last = key.rpartition(".")
    node = at(settings, parent) if parent else settings
    return node.get(last, UNKNOWN) if isinstance(node, Mapping) else UNKNOWN


@functools.cache
def _composed(overrides: tuple[str, ...]) -> dict[str, Any]:
    try:
        return read_request(overrides).settings
    except UserError:
        return {}
