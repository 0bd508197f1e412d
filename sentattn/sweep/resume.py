"""Opening a study: a new one gets its first trials, a stored one must have the space and the settings of the plan."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import optuna
from optuna.storages import JournalStorage
from optuna.trial import FrozenTrial, TrialState

from sentattn.config.groups import get_path
from sentattn.config.hashing import NO_EFFECT, default, hashed
from sentattn.config.request import read_request
from sentattn.config.schema import WITHOUT_EFFECT_ON_RESULT
from sentattn.config.search_space import Dimension, first_point, from_json, override, to_json
from sentattn.config.types import as_typed
from sentattn.errors import Fault, SettingError
from sentattn.run import FORMAT_KEY, RUN_FORMAT
from sentattn.sweep import journal
from sentattn.sweep.journal import ID, WORDS
from sentattn.sweep.records import DIRECTIONS, SPACE, trial_id, values_of

if TYPE_CHECKING:
    from sentattn.sweep.plan import Plan

OVERRIDES, SETTINGS, OBJECTIVES, SEED, REPEATS = "overrides", "all_settings", "objectives", "seed", "repeats"
DATA = "data_fingerprint"
"""Attributes of a study."""
LISTED = 5
"""Settings that a message lists."""


def open_study(plan: Plan, storage: JournalStorage) -> optuna.Study:
    """Returns the study of a plan, which this process has locked meanwhile.

    Raises:
        SettingError: If the stored study has another search space, objective or fixed setting.
    """
    study = journal.find_study(storage) or _create(plan, storage)
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
    values = values_of(trial, space)
    if all(key in values for key, dimension in space.items() if dimension.is_active(values)):
        study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
    else:
        storage.set_trial_state_values(trial_id(study, storage, trial.number), TrialState.WAITING)


def _create(plan: Plan, storage: JournalStorage) -> optuna.Study:
    """Creates a study, whose ID is written last and makes it complete."""
    with suppress(KeyError):  # what is left of a study whose creation was killed
        optuna.delete_study(study_name=plan.study, storage=storage)
    directions = [DIRECTIONS[objective.mode] for objective in plan.objectives]
    study = optuna.create_study(study_name=plan.study, storage=storage, directions=directions)
    own = {WORDS: list(plan.words), OVERRIDES: list(plan.overrides), FORMAT_KEY: RUN_FORMAT}
    for key, value in (_identity(plan) | own).items():
        study.set_user_attr(key, value)
    study.set_user_attr(ID, secrets.token_hex(8))
    return study


def _identity(plan: Plan) -> dict[str, Any]:
    """Returns what all trials of a study have.

    Its settings are those of one point of the space, with those that do nothing at this point, but may at others.
    """
    words = (override(key, value) for key, value in first_point(plan.space).items())
    settings = read_request([*plan.overrides, *words]).settings
    values = {key: get_path(settings, key) for key in NO_EFFECT if key not in WITHOUT_EFFECT_ON_RESULT}
    idle = {key: value for key, value in values.items() if value not in (None, *default(settings, key))}
    return {
        SPACE: to_json(plan.space),
        SETTINGS: {key: as_typed(value) for key, value in (idle | hashed(settings)).items()},
        OBJECTIVES: [[objective.metric, objective.mode] for objective in plan.objectives],
        REPEATS: plan.repeats,
        SEED: plan.seed,
    }


def _require_same(plan: Plan, study: optuna.Study) -> None:
    """Refuses to resume where a trial would differ in meaning from the earlier ones, or in what is searched."""
    old, new = study.user_attrs, _identity(plan)
    before, now = from_json(old[SPACE]), plan.space
    pairs = [(key, _written(before.get(key)), _written(now.get(key))) for key in {**before, **now}]
    if before == now:
        settings = old.get(SETTINGS, new[SETTINGS])  # a study of before 0.2.0 may lack them
        pairs += [(key, settings.get(key), new[SETTINGS].get(key)) for key in settings | new[SETTINGS]]
    pairs += [(key, old[key], new[key]) for key in (OBJECTIVES, REPEATS, SEED)]
    differences = [f"{key}={was}, not {is_now}" for key, was, is_now in pairs if was != is_now]
    if differences:
        more = [f"{len(differences) - LISTED} more"] if len(differences) > LISTED else []
        listed = "; ".join(differences[:LISTED] + more)
        advice = "repeat its command to resume it, or type study=NEW for another study"
        message = f"study={plan.study} was started with {listed}: {advice}."
        raise SettingError(Fault("study", "conflict", message))


def _written(dimension: Dimension | None) -> str | None:
    if dimension is None:
        return None
    when = {key: list(legal) for key, legal in dimension.when.items()}
    return f"{dimension.written} when {as_typed(when)}" if when else dimension.written
