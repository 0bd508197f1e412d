"""A study is begun or gone on with: what ran when its owner died is settled, and a changed space is carried over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import TrialState

from sentattn.config.arguments import CONFIG_DIR
from sentattn.config.schema import WITHOUT_EFFECT_ON_RESULT
from sentattn.errors import SettingError
from sentattn.sweep import moving, storage
from sentattn.sweep.pruners import build_pruner
from sentattn.sweep.records import ATTEMPT, BROKEN_OFF, NEXT, NOTE, SPACE
from sentattn.sweep.samplers import build_sampler
from sentattn.sweep.search_space import to_json

if TYPE_CHECKING:
    from sentattn.sweep.config import Plan

OBJECTIVES, SEED, REPEATS, SECONDS, PLACE = "objectives", "seed", "repeats", "seconds", "place"


def opened(plan: Plan, folder: Path) -> tuple[storage.Disk, optuna.Study]:
    """Returns a study on disk and in memory, its running trials settled and its trials in the space of today.

    Raises:
        SettingError: If the study that is there looks for something else.
    """
    backend = storage.open_storage(folder)
    name = storage.current(backend)
    storage.clear(backend, name)
    study = optuna.load_study(study_name=name, storage=backend) if name else _begun(plan, backend)
    _require_same(plan, study)
    _settle(study, storage.Disk(study, backend))
    if _ranges(study.user_attrs[SPACE]) != _ranges(to_json(plan.space)):
        study = moving.moved(study, backend, plan)
    trials = study.get_trials(deepcopy=False)
    live = optuna.create_study(
        study_name=plan.study,
        directions=study.directions,
        sampler=build_sampler(plan, past=len(trials)),
        pruner=build_pruner(plan),
    )
    live.add_trials(trials)
    for key, value in study.user_attrs.items():
        live.set_user_attr(key, value)
    for key, value in study.user_attrs.get(PLACE, {}).items():
        live._storage.set_study_system_attr(live._study_id, key, value)
    return storage.Disk(study, backend), live


def _ranges(kept: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A space without the words that it was written in."""
    return [{key: value for key, value in one.items() if key != "written"} for one in kept]


def _begun(plan: Plan, backend: RDBStorage) -> optuna.Study:
    modes = [StudyDirection.MAXIMIZE if one.mode == "max" else StudyDirection.MINIMIZE for one in plan.objectives]
    study = optuna.create_study(study_name=plan.study, storage=backend, directions=modes)
    for key, value in (_about(plan) | {storage.CURRENT: True}).items():
        study.set_user_attr(key, value)
    return study


def _about(plan: Plan) -> dict[str, Any]:
    return {
        SPACE: to_json(plan.space),
        moving.OVERRIDES: list(plan.overrides),
        OBJECTIVES: [[one.metric, one.mode] for one in plan.objectives],
        REPEATS: plan.repeats,
        SEED: plan.seed,
    }


def _require_same(plan: Plan, study: optuna.Study) -> None:
    """Refuses to go on where a trial would mean something else than those that there are."""
    then, now = study.user_attrs, _about(plan)
    searched = {*plan.space, *(one["key"] for one in then[SPACE])}
    was, is_now = (_fixed_part(words, searched) for words in (then[moving.OVERRIDES], plan.overrides))
    faults = [
        f"study={plan.study} was begun with {key}={then[key]} and not {now[key]}"
        for key in (OBJECTIVES, REPEATS, *(() if "seed" in searched else (SEED,)))
        if then[key] != now[key]
    ]
    if was != is_now:
        gone, new = (" ".join(sorted(one - other)) or "nothing" for one, other in ((was, is_now), (is_now, was)))
        faults.append(f"study={plan.study} was begun with {gone} where now stands {new}")
    if faults:
        raise SettingError(*(f"{one}: its trials cannot be compared; type study=NAME for another." for one in faults))


def _fixed_part(overrides: Sequence[str], searched: set[str]) -> set[str]:
    """The arguments that every trial of a study has, as far as they change what comes out."""
    return {
        word
        for word in overrides
        if (key := word.partition("=")[0]) not in searched | WITHOUT_EFFECT_ON_RESULT
        and key.partition(".")[0] not in WITHOUT_EFFECT_ON_RESULT
        and key != CONFIG_DIR
    }


def _settle(study: optuna.Study, disk: storage.Disk) -> None:
    """Ends the trials that ran when their owner died; each is tried again, which is no retry."""
    for trial in study.get_trials(deepcopy=False):
        if trial.state is TrialState.RUNNING:
            disk.end(trial.number, TrialState.FAIL, None, {NOTE: BROKEN_OFF, NEXT: trial.user_attrs.get(ATTEMPT, 0)})
