"""A study is begun or resumed: trials that were running are ended, and a changed space is a second study.

Optuna keeps the range that each trial was drawn from. It refuses choices that change within a study, and where a range
of numbers changes, samplers that model several settings at once stay within the old one or draw the setting at random.
A setting that became a range had its fixed value in earlier trials. A finished trial outside of the new space is kept
and reported, but neither counted nor seen by the sampler, until the space contains it again.
"""

from __future__ import annotations

import functools
import itertools
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import optuna
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from sentattn.config.command_line import CONFIG_DIR
from sentattn.config.groups import Choices, at
from sentattn.config.request import read_request
from sentattn.config.schema import WITHOUT_EFFECT_ON_RESULT
from sentattn.errors import Fault, RunError, SettingError, UserError
from sentattn.run import FORMAT, FORMAT_KEY
from sentattn.sweep import storage as storages
from sentattn.sweep.coordination import Peer, peers
from sentattn.sweep.records import ERROR, OUTSIDE, SPACE, attributes, is_complete, record
from sentattn.sweep.search_space import Dimension, Value, from_json, to_json

if TYPE_CHECKING:
    from sentattn.sweep.plan import Plan

OVERRIDES, OBJECTIVES, SEED, REPEATS, ID = "overrides", "objectives", "seed", "repeats", "id"
PLACE = "place"
"""System attributes of a study of 2026, which were kept apart: how far its sampler was."""
UNKNOWN = object()


def open_study(plan: Plan, storage: RDBStorage, folder: Path) -> optuna.Study:
    """Returns the study of a plan, with the interrupted trials ended and all trials in the space of today.

    This process holds the study for itself meanwhile.

    Raises:
        SettingError: If the study there is about something else.
        RunError: If another scheduler works on it that may not.
    """
    sweep = plan.study if plan.storage else None  # a file holds one sweep, and its folder may be renamed
    name = storages.current(storage, sweep)
    known = storages.recorded(folder, plan.storage, plan.study)
    if known and (name is None or optuna.load_study(study_name=name, storage=storage).user_attrs.get(ID) != known):
        storages.refuse(folder)
    modes = {"max": StudyDirection.MAXIMIZE, "min": StudyDirection.MINIMIZE}
    directions = [modes[objective.mode] for objective in plan.objectives]
    study = optuna.create_study(
        study_name=name or plan.study, storage=storage, directions=directions, load_if_exists=True
    )
    if name is None:
        for key, value in (_identity(plan) | {FORMAT_KEY: FORMAT, storages.CURRENT: 1}).items():
            study.set_user_attr(key, value)
    identifier: str | None = study.user_attrs.get(ID)
    if identifier is None:
        identifier = secrets.token_hex(8)
        study.set_user_attr(ID, identifier)
    is_changed = _ranges(study.user_attrs[SPACE]) != _ranges(to_json(plan.space))
    working = peers(study, storage) if plan.storage else []
    if working and (is_changed or not storages.is_shared(plan.storage)):
        _refuse(plan, working, "its space is another one: " if storages.is_shared(plan.storage) else "")
    storages.delete_others(storage, sweep, study.study_name)
    _require_same(plan, study)
    for key, value in study.user_attrs.get(PLACE, {}).items():
        storage.set_study_system_attr(storage.get_study_id_from_name(study.study_name), key, value)
    if not working:
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            interrupt(study, storage, trial)
    if is_changed:
        study = _migrate(study, storage, plan)
        storages.delete_others(storage, sweep, study.study_name)
    storages.record_storage(folder, plan.storage, plan.study, identifier)
    return study


def interrupt(study: optuna.Study, storage: RDBStorage, trial: FrozenTrial) -> None:
    """Ends a trial whose process has died, without an error; one that had not all of its values waits to begin."""
    space = from_json(study.user_attrs[SPACE])
    values = record(trial, space).values
    if all(key in values for key, dimension in space.items() if dimension.is_active(values)):
        study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
    else:
        study_id = storage.get_study_id_from_name(study.study_name)
        trial_id = storage.get_trial_id_from_study_id_trial_number(study_id, trial.number)
        storage.set_trial_state_values(trial_id, TrialState.WAITING)


def _identity(plan: Plan) -> dict[str, Any]:
    return {
        SPACE: to_json(plan.space),
        OVERRIDES: list(plan.overrides),
        OBJECTIVES: [[objective.metric, objective.mode] for objective in plan.objectives],
        REPEATS: plan.repeats,
        SEED: plan.seed,
    }


def _ranges(space: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns a space without the text in which it was written."""
    return [{key: value for key, value in entry.items() if key != "written"} for entry in space]


def _refuse(plan: Plan, working: Sequence[Peer], reason: str) -> NoReturn:
    message = (
        f"study={plan.study} is in use by {' and '.join(map(str, working))}; {reason}stop it there. If it has died, "
        f"start this command again after {storages.SILENT * plan.heartbeat} seconds."
    )
    raise RunError(Fault("study", "busy", message))


def _require_same(plan: Plan, study: optuna.Study) -> None:
    """Refuses to resume where a trial would mean something else than the earlier ones."""
    old, new = study.user_attrs, _identity(plan)
    searched = {*plan.space, *(entry["key"] for entry in old[SPACE])}
    keys = [OBJECTIVES, REPEATS, *([] if SEED in searched else [SEED])]
    differences = [f"{key}={old[key]}, not {new[key]}" for key in keys if old[key] != new[key]]
    before, now = (_fixed_arguments(attrs[OVERRIDES], searched) for attrs in (old, new))
    if before != now:
        gone, added = (" ".join(sorted(words)) or "nothing" for words in (before - now, now - before))
        differences.append(f"{gone}, not {added}")
    if differences:
        message = (
            f"study={plan.study} was begun with {'; '.join(differences)}: its trials could not be compared; "
            "type study=NAME for another study."
        )
        raise SettingError(Fault("study", "conflict", message))


def _fixed_arguments(overrides: Sequence[str], searched: set[str]) -> set[str]:
    """Returns the arguments that all trials have, as far as they affect the result."""
    ignored = searched | WITHOUT_EFFECT_ON_RESULT | {CONFIG_DIR}
    keys = {word: word.partition("=")[0] for word in overrides}
    return {
        word
        for word, key in keys.items()
        if key not in ignored and key.partition(".")[0] not in WITHOUT_EFFECT_ON_RESULT
    }


def _migrate(study: optuna.Study, storage: RDBStorage, plan: Plan) -> optuna.Study:
    """Adds a study's trials to a new study with a plan's space, which becomes the current one at the end.

    Returns:
        The new study, which has the sweep's name with a number.
    """
    names = storages.studies(storage, None)
    name = next(name for number in itertools.count(2) if (name := f"{plan.study} ({number})") not in names)
    changed = optuna.create_study(study_name=name, storage=storage, directions=study.directions)
    attrs = {**study.user_attrs, SPACE: to_json(plan.space), OVERRIDES: list(plan.overrides)}
    number = int(attrs.pop(storages.CURRENT, 1))
    for key, value in attrs.items():
        changed.set_user_attr(key, value)
    # A folder of classes, which can run code, counts only where it was typed.
    folders = [word for word in plan.overrides if word.startswith(CONFIG_DIR)]
    old_overrides = [word for word in study.user_attrs[OVERRIDES] if not word.startswith(CONFIG_DIR)]
    before, now = (partial(_fixed_value, words) for words in ((*folders, *old_overrides), plan.overrides))
    old_space = from_json(study.user_attrs[SPACE])
    migrated = (_migrated(trial, old_space, plan.space, before, now) for trial in study.get_trials(deepcopy=False))
    changed.add_trials(list(migrated))
    changed.set_user_attr(storages.CURRENT, number + 1)
    return changed


def _migrated(
    trial: FrozenTrial,
    old: Mapping[str, Dimension],
    new: Mapping[str, Dimension],
    before: Callable[[str], Any],
    now: Callable[[str], Any],
) -> FrozenTrial:
    """Returns a trial in a new space; `before` and `now` return the values of settings that are no ranges."""
    attrs, known = attributes(trial), record(trial, old)
    values: dict[str, Value] | None = {}
    for key, dimension in new.items():
        if values is not None and dimension.is_active(values):
            value: Any = known.values.get(key, UNKNOWN)
            if value is UNKNOWN and (key not in old or not old[key].is_active(known.values)):
                value = before(key)
            values = {**values, key: value} if value is not UNKNOWN and dimension.contains(value) else None
    if values is not None and any(known.values[key] != now(key) for key in known.values if key not in values):
        values = None
    outside = attrs.pop(OUTSIDE, None)
    told = outside.get("told", outside["objectives"]) if outside else trial.values
    state = TrialState[outside["state"]] if outside else trial.state
    if state is TrialState.WAITING:  # its predecessor is tried again
        state, attrs = TrialState.FAIL, {ERROR: "it had not started when the space was changed"}
    elif values is None and state is TrialState.FAIL:
        attrs.setdefault(ERROR, "it was interrupted, and the space was changed since")
    elif values is None:
        state = TrialState.FAIL
        attrs[OUTSIDE] = outside or {
            "state": trial.state.name,
            "values": dict(known.values),
            "objectives": trial.values if is_complete(trial) else None,
            "told": trial.values,
            "steps": {str(step): value for step, value in trial.intermediate_values.items()},
        }
    drawn = {key: new[key].drawn(value) for key, value in (values or {}).items()}
    migrated = create_trial(
        state=state,
        values=told if state is TrialState.COMPLETE else None,
        params=drawn,
        distributions={key: new[key].distribution for key in drawn},
        user_attrs=attrs,  # but none of the sampler's own attributes: they are about the space as it was
        intermediate_values=dict(known.steps),
    )
    if trial.datetime_start is not None:
        migrated.datetime_start, migrated.datetime_complete = trial.datetime_start, trial.datetime_complete
    return migrated


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
def _composed(overrides: tuple[str, ...]) -> Mapping[str, Any]:
    try:
        return read_request(overrides).settings
    except UserError:
        return {}
