"""Opening a study: a new one gets its first trials, a stored one is checked and its interrupted trials are ended."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import optuna
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from sentattn.config.command_line import CONFIG_DIR
from sentattn.config.groups import Choices, get_path
from sentattn.config.request import read_request
from sentattn.config.schema import WITHOUT_EFFECT_ON_RESULT
from sentattn.config.types import as_typed
from sentattn.errors import Fault, RunError, SettingError, UserError
from sentattn.run import FORMAT, FORMAT_KEY
from sentattn.config.search_space import Dimension, Value, from_json, to_json
from sentattn.sweep.study import storage as storages
from sentattn.sweep.study.coordination import peers
from sentattn.sweep.study.records import DIRECTIONS, DIVERGED, ERROR, SPACE, record
from sentattn.sweep.study.storage import ID

if TYPE_CHECKING:
    from sentattn.sweep.spec.plan import Plan

OVERRIDES, OBJECTIVES, SEED, REPEATS, WARM_START = "overrides", "objectives", "seed", "repeats", "warm_start"


def open_study(plan: Plan, storage: RDBStorage, folder: Path) -> optuna.Study:
    """Returns the study of a plan, with the interrupted trials ended; this process holds the study meanwhile.

    Raises:
        SettingError: If the stored study has another search space, objective or fixed setting.
        RunError: If another scheduler works on it that may not.
    """
    study = storages.find_study(storage, plan.study if plan.storage else None)
    known = storages.read_record(folder)
    if known and (study is None or study.user_attrs[ID] != known["id"]):
        storages.refuse(folder, known)
    if study is None:
        study = _create(plan, storage, folder)
    working = peers(study, plan.storage) if plan.storage else []
    if working and not storages.is_shared(plan.storage):
        users = " and ".join(map(str, working))
        wait = f"If it has died, start this command again after {storages.SILENT * plan.heartbeat} seconds."
        raise RunError(Fault("study", "busy", f"study={plan.study} is in use by {users}; stop it there. {wait}"))
    _require_same(plan, study)
    if not working:
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            interrupt(study, storage, trial)
    for values in plan.enqueue:
        drawn = {key: plan.space[key].drawn(value) for key, value in values.items()}
        study.enqueue_trial(drawn, skip_if_exists=True)
    storages.record_storage(folder, plan.storage, plan.study, study.user_attrs[ID])
    return study


def _create(plan: Plan, storage: RDBStorage, folder: Path) -> optuna.Study:
    """Creates a study, with the trials of `plan.warm_start` that fit; its ID is written last and makes it complete."""
    warm = _warm_start(plan, folder, plan.warm_start) if plan.warm_start else []
    with suppress(KeyError):  # what is left of one whose creation was killed
        optuna.delete_study(study_name=plan.study, storage=storage)
    directions = [DIRECTIONS[objective.mode] for objective in plan.objectives]
    study = optuna.create_study(study_name=plan.study, storage=storage, directions=directions)
    for key, value in (_identity(plan) | {WARM_START: plan.warm_start, FORMAT_KEY: FORMAT}).items():
        study.set_user_attr(key, value)
    study.add_trials(warm)
    study.set_user_attr(ID, secrets.token_hex(8))
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


def _identity(plan: Plan) -> dict[str, object]:
    return {
        SPACE: to_json(plan.space),
        OVERRIDES: list(plan.overrides),
        OBJECTIVES: [[objective.metric, objective.mode] for objective in plan.objectives],
        REPEATS: plan.repeats,
        SEED: plan.seed,
    }


def _require_same(plan: Plan, study: optuna.Study) -> None:
    """Refuses to resume where a trial would differ in meaning from the earlier ones, or in what is searched."""
    differences, old = _differences(plan, study), from_json(study.user_attrs[SPACE])
    for key in {**old, **plan.space}:
        if old.get(key) != plan.space.get(key):
            differences.append(f"{key}={_written(old.get(key))}, not {_written(plan.space.get(key))}")
    if plan.warm_start and plan.warm_start != (name := study.user_attrs[WARM_START]):
        differences.append(f"warm_start={as_typed(name)}, not {plan.warm_start}")
    if differences:
        new = f"type study=NEW for another study, and warm_start={plan.study} to add the trials of this one that fit"
        message = f"study={plan.study} was begun with {'; '.join(differences)}: {new}."
        raise SettingError(Fault("study", "conflict", message))


def _written(dimension: Dimension | None) -> str:
    if dimension is None:
        return "nothing"
    when = {key: list(legal) for key, legal in dimension.when.items()}
    return f"{dimension.written} when {as_typed(when)}" if when else dimension.written


def _differences(plan: Plan, study: optuna.Study) -> list[str]:
    """Returns in what a study differs from a plan that makes their trials incomparable."""
    old, new = study.user_attrs, _identity(plan)
    searched = {*plan.space, *(entry["key"] for entry in old[SPACE])}
    differences = [f"{key}={old[key]}, not {new[key]}" for key in (OBJECTIVES, REPEATS, SEED) if old[key] != new[key]]
    before, now = (_fixed_arguments(overrides, searched) for overrides in (old[OVERRIDES], plan.overrides))
    if before != now:
        gone, added = (" ".join(sorted(words)) or "nothing" for words in (before - now, now - before))
        differences.append(f"{gone}, not {added}")
    return differences


def _fixed_arguments(overrides: Sequence[str], searched: set[str]) -> set[str]:
    """Returns the arguments that all trials have, as far as they affect the result."""
    ignored = searched | WITHOUT_EFFECT_ON_RESULT | {CONFIG_DIR}
    keys = {word: word.partition("=")[0] for word in overrides}
    kept = {word: key for word, key in keys.items() if key not in ignored}
    return {word for word, key in kept.items() if key.partition(".")[0] not in WITHOUT_EFFECT_ON_RESULT}


def _warm_start(plan: Plan, folder: Path, name: str) -> list[FrozenTrial]:
    """Returns the finished trials of another study that a plan could have drawn; raises an error if there are none."""
    source = storages.load(folder.parent / name, plan.storage)
    if differences := _differences(plan, source):
        message = f"warm_start={name} was begun with {'; '.join(differences)}: its trials cannot be compared."
        raise SettingError(Fault("warm_start", "conflict", message))
    space = from_json(source.user_attrs[SPACE])
    # A folder of classes, which can run code, counts only where it was typed.
    folders = [word for word in plan.overrides if word.startswith(CONFIG_DIR)]
    overrides = [word for word in source.user_attrs[OVERRIDES] if not word.startswith(CONFIG_DIR)]
    before, now = _fixed_settings([*folders, *overrides]), _fixed_settings(plan.overrides)
    finished = source.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
    trials = [trial for old in finished if (trial := _fitting(old, name, space, plan.space, before, now))]
    if not trials:
        message = f"warm_start={name}: none of its {len(finished)} finished trials lies in this search space."
        raise SettingError(Fault("warm_start", "conflict", message))
    print(f"{len(trials)} of {len(finished)} finished trials of {name} lie in this search space, and are added.")
    return trials


def _fitting(
    trial: FrozenTrial,
    source: str,
    old: Mapping[str, Dimension],
    new: Mapping[str, Dimension],
    before: Callable[[str], Value],
    now: Callable[[str], Value],
) -> FrozenTrial | None:
    """Returns a trial of the study `source` in a new space, or None; `before` and `now` return fixed settings."""
    known, values = record(trial, old).values, dict[str, Value]()
    for key, dimension in new.items():
        if dimension.is_active(values):
            is_fixed = key not in old or not old[key].is_active(known)
            value = before(key) if is_fixed else known.get(key)
            if not dimension.contains(value):
                return None
            values[key] = value
    if any(value != now(key) for key, value in known.items() if key not in values):
        return None
    drawn = {key: new[key].drawn(value) for key, value in values.items()}
    attributes = {key: value for key, value in trial.user_attrs.items() if key in (DIVERGED, ERROR)}
    added = create_trial(
        state=trial.state,
        values=trial.values,
        params=drawn,
        distributions={key: new[key].distribution for key in drawn},
        user_attrs=attributes | {WARM_START: f"{source}/{trial.number}"},
        intermediate_values=trial.intermediate_values,
    )
    added.datetime_start, added.datetime_complete = trial.datetime_start, trial.datetime_complete
    return added


def _fixed_settings(overrides: Sequence[str]) -> Callable[[str], Value]:
    """Returns a function from a setting to the value that arguments give it; None where they are no valid training."""
    try:
        settings = read_request(overrides).settings
    except UserError:
        return lambda key: None
    chosen = Choices.of().chosen(settings)
    return lambda key: chosen.get(key, get_path(settings, key))
