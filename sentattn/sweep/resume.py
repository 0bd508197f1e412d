"""Opening a study: a new one gets its first trials, a stored one must have the space and the settings of the plan."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.storages import JournalStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from sentattn.config.command_line import CONFIG_DIR
from sentattn.config.groups import get_path
from sentattn.config.hashing import NO_EFFECT, default, hashed, setting_hash
from sentattn.config.request import read_request
from sentattn.config.schema import WITHOUT_EFFECT_ON_RESULT, Settings
from sentattn.config.search_space import Dimension, Value, first_point, from_json, override, to_json
from sentattn.config.types import Node, as_typed
from sentattn.errors import Fault, SettingError, UserError
from sentattn.run import FORMAT_KEY, RUN_FORMAT
from sentattn.sweep import journal
from sentattn.sweep.journal import ID, WORDS
from sentattn.sweep.records import DIRECTIONS, ERROR, SPACE, WARM_START, record, trial_id

if TYPE_CHECKING:
    from sentattn.sweep.plan import Plan

OVERRIDES, SETTINGS, OBJECTIVES, SEED, REPEATS = "overrides", "settings", "objectives", "seed", "repeats"
ALL_SETTINGS, DATA = "all_settings", "data_fingerprint"
"""Attributes of a study."""
LISTED = 5
"""Settings that a message lists."""


def open_study(plan: Plan, storage: JournalStorage, folder: Path) -> optuna.Study:
    """Returns the study of a plan, which this process has locked meanwhile.

    Raises:
        SettingError: If the stored study has another search space, objective or fixed setting.
    """
    study = journal.find_study(storage) or _create(plan, storage, folder)
    _require_same(plan, study)
    return study


def require_data(study: optuna.Study, fingerprint: str) -> None:
    """Records the data that trials are trained on; refuses another than that of earlier trials with a SettingError."""
    before = study.user_attrs.get(DATA)
    if before is None:
        study.set_user_attr(DATA, fingerprint)
    elif before != fingerprint:
        message = (
            f"study={study.study_name} was started on other rows or vectors (data_fingerprint {before}, now "
            f"{fingerprint}), and trials on different data cannot be compared: restore the data, or type study=NEW."
        )
        raise SettingError(Fault("study", "conflict", message))


def end_interrupted(study: optuna.Study, storage: JournalStorage, trial: FrozenTrial) -> None:
    """Ends a trial whose process has died, without an error; a trial that lacks some of its values waits to begin."""
    space = from_json(study.user_attrs[SPACE])
    values = record(trial, space).values
    if all(key in values for key, dimension in space.items() if dimension.is_active(values)):
        study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
    else:
        storage.set_trial_state_values(trial_id(study, storage, trial.number), TrialState.WAITING)


def _create(plan: Plan, storage: JournalStorage, folder: Path) -> optuna.Study:
    """Creates a study, with the trials of `plan.warm_start` that fit; its ID is written last and makes it complete."""
    warm = _warm_start(plan, folder, plan.warm_start) if plan.warm_start else []
    with suppress(KeyError):  # what is left of a study whose creation was killed
        optuna.delete_study(study_name=plan.study, storage=storage)
    directions = [DIRECTIONS[objective.mode] for objective in plan.objectives]
    study = optuna.create_study(study_name=plan.study, storage=storage, directions=directions)
    own = {
        WORDS: list(plan.words),
        OVERRIDES: list(plan.overrides),
        WARM_START: plan.warm_start,
        FORMAT_KEY: RUN_FORMAT,
    }
    if warm and (data := journal.load(folder.parent / str(plan.warm_start)).user_attrs.get(DATA)):
        own[DATA] = data  # of these trials; `require_data` compares it before a new trial
    for key, value in (_identity(plan) | own).items():
        study.set_user_attr(key, value)
    study.add_trials(warm)
    study.set_user_attr(ID, secrets.token_hex(8))
    return study


def _identity(plan: Plan) -> dict[str, Any]:
    """Returns what all trials of a study have; its settings are those of one point of the space.

    All settings are those too that do nothing at this point, but may at others.
    """
    settings = _settings(plan.overrides, first_point(plan.space))
    values = {key: get_path(settings, key) for key in NO_EFFECT if key not in WITHOUT_EFFECT_ON_RESULT}
    idle = {key: value for key, value in values.items() if value not in (None, *default(settings, key))}
    return {
        SPACE: to_json(plan.space),
        SETTINGS: _written_settings(hashed(settings)),
        ALL_SETTINGS: _written_settings(idle | hashed(settings)),
        OBJECTIVES: [[objective.metric, objective.mode] for objective in plan.objectives],
        REPEATS: plan.repeats,
        SEED: plan.seed,
    }


def _written_settings(settings: Node) -> dict[str, str]:
    return {key: as_typed(value) for key, value in settings.items()}


def _require_same(plan: Plan, study: optuna.Study) -> None:
    """Refuses to resume where a trial would differ in meaning from the earlier ones, or in what is searched."""
    old, new = study.user_attrs, _identity(plan)
    before, now = from_json(old[SPACE]), plan.space
    pairs = [(key, _written(before.get(key)), _written(now.get(key))) for key in {**before, **now}]
    if before == now:
        kept = ALL_SETTINGS if ALL_SETTINGS in old else SETTINGS  # of studies that were begun before there were both
        pairs += [(key, old[kept].get(key), new[kept].get(key)) for key in old[kept] | new[kept]]
    pairs += [(key, old[key], new[key]) for key in (OBJECTIVES, REPEATS, SEED)]
    if plan.warm_start:
        pairs.append((WARM_START, old[WARM_START], plan.warm_start))
    differences = [f"{key}={was}, not {is_now}" for key, was, is_now in pairs if was != is_now]
    if differences:
        more = [f"{len(differences) - LISTED} more"] if len(differences) > LISTED else []
        listed = "; ".join(differences[:LISTED] + more)
        new_study = f"type study=NEW for another study, and warm_start={plan.study} to add the trials that fit"
        message = f"study={plan.study} was started with {listed}: repeat its command to resume it, or {new_study}."
        raise SettingError(Fault("study", "conflict", message))


def _written(dimension: Dimension | None) -> str | None:
    if dimension is None:
        return None
    when = {key: list(legal) for key, legal in dimension.when.items()}
    return f"{dimension.written} when {as_typed(when)}" if when else dimension.written


def _warm_start(plan: Plan, folder: Path, name: str) -> list[FrozenTrial]:
    """Returns the finished trials of another study that a plan could have drawn.

    Raises:
        SettingError: If there are none.
    """
    source = journal.load(folder.parent / name)
    attrs, now = source.user_attrs, _identity(plan)
    if differing := [
        f"{key}={attrs[key]}, not {now[key]}" for key in (OBJECTIVES, REPEATS, SEED) if attrs[key] != now[key]
    ]:
        message = f"warm_start={name} was started with {'; '.join(differing)}: its trials cannot be compared."
        raise SettingError(Fault("warm_start", "conflict", message))
    # A folder of classes, which can run code, counts only where it was typed.
    folders = [word for word in plan.overrides if word.startswith(CONFIG_DIR)]
    overrides = [*folders, *(word for word in attrs[OVERRIDES] if not word.startswith(CONFIG_DIR))]
    finished = source.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
    space = from_json(attrs[SPACE])
    kept = attrs[SETTINGS]
    with suppress(UserError):  # no valid training any more: no trial fits
        kept = _written_settings(hashed(_settings(overrides, first_point(space))))
    if kept != attrs[SETTINGS]:
        message = f"warm_start={name}: a file that it names in from= or --config-dir has changed since its trials."
        raise SettingError(Fault("warm_start", "conflict", message))
    trials = [added for old in finished if (added := _fitting(old, name, record(old, space).values, overrides, plan))]
    if not trials:
        message = f"warm_start={name}: none of its {len(finished)} finished trials lies in this search space."
        raise SettingError(Fault("warm_start", "conflict", message))
    print(f"{len(trials)} of {len(finished)} finished trials of {name} lie in this search space, and are added.")
    return trials


def _fitting(
    trial: FrozenTrial, source: str, known: Mapping[str, Value], overrides: Sequence[str], plan: Plan
) -> FrozenTrial | None:
    """Returns a trial of the study `source` as one of a plan that trains the same, or None where it would not."""
    try:
        settings, values = _settings(overrides, known), dict[str, Value]()
        for key, dimension in plan.space.items():
            if dimension.is_active(values):
                value = known[key] if key in known else settings.choices.get(key, get_path(settings, key))
                if not dimension.contains(value):
                    return None
                values[key] = value
        if setting_hash(settings) != setting_hash(_settings(plan.overrides, values)):
            return None
    except UserError:  # no valid training any more
        return None
    drawn = {key: plan.space[key].drawn(value) for key, value in values.items()}
    attributes = {key: value for key, value in trial.user_attrs.items() if key == ERROR}
    added = create_trial(
        state=trial.state,
        values=trial.values,
        params=drawn,
        distributions={key: plan.space[key].distribution for key in drawn},
        user_attrs=attributes | {WARM_START: f"{source}/{trial.number}"},
        intermediate_values=trial.intermediate_values,
    )
    added.datetime_start, added.datetime_complete = trial.datetime_start, trial.datetime_complete
    return added


def _settings(overrides: Sequence[str], values: Mapping[str, Value]) -> Settings:
    """Returns the settings of a trial."""
    return read_request([*overrides, *(override(key, value) for key, value in values.items())]).settings
