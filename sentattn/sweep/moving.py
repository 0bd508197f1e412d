"""A space that was widened or changed: the trials there are, carried over.

Optuna keeps the range that each trial was drawn from. It refuses choices that change within a study, and where a range
of numbers changes, samplers that look at several settings at once stay within the old one or leave the setting to
chance. So a changed space makes a new study in the same file, to which all trials are copied under their numbers with
the ranges of today. A setting that became a range had its fixed value in earlier trials; a finished trial that lies
outside of today's space is kept and told, but neither counted nor shown to the sampler, until the space holds it again.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState

from sentattn.config.groups import Choices, at
from sentattn.config.request import read_request
from sentattn.errors import UserError
from sentattn.sweep import storage as file
from sentattn.sweep.records import NEXT, OUTSIDE, SPACE, Record, record, space_of
from sentattn.sweep.search_space import Dimension, Value, to_json

if TYPE_CHECKING:
    from sentattn.sweep.config import Plan

OVERRIDES = "overrides"
MISSING = object()


def moved(study: optuna.Study, storage: RDBStorage, plan: Plan) -> optuna.Study:
    """Copies a study's trials into a new one with a plan's space; until that one is whole, the old one counts.

    Args:
        study: The study as it is.
        storage: Where both lie.
        plan: The sweep as it is now.

    Returns:
        The new study; it has the sweep's name with a number.
    """
    taken = {one.study_name for one in storage.get_all_studies()}
    name = next(new for number in range(2, len(taken) + 3) if (new := f"{plan.study} ({number})") not in taken)
    fresh = optuna.create_study(study_name=name, storage=storage, directions=study.directions)
    about = {**study.user_attrs, SPACE: to_json(plan.space), OVERRIDES: list(plan.overrides)}
    for key, value in about.items():
        if key != file.CURRENT:
            fresh.set_user_attr(key, value)
    old, then = space_of(study), study.user_attrs[OVERRIDES]
    for trial in study.get_trials(deepcopy=False):
        carried = _carried(trial, old=old, new=plan.space, then=then, now=plan.overrides)
        storage.create_new_trial(fresh._study_id, carried)
    fresh.set_user_attr(file.CURRENT, True)
    file.clear(storage, name)
    return fresh


def _carried(
    trial: FrozenTrial,
    *,
    old: Mapping[str, Dimension],
    new: Mapping[str, Dimension],
    then: Sequence[str],
    now: Sequence[str],
) -> FrozenTrial:
    known = record(trial, old)
    values = _values(known, old, new, then, now)
    outside = trial.user_attrs.get(OUTSIDE)
    state = TrialState[outside["state"]] if outside else trial.state
    attrs = {key: value for key, value in trial.user_attrs.items() if key != OUTSIDE}
    if values is None and state is TrialState.FAIL:
        attrs.pop(NEXT, None)
    elif values is None:
        attrs[OUTSIDE] = outside or {
            "state": state.name,
            "values": dict(known.values),
            "objectives": trial.values,
            "steps": {str(step): value for step, value in trial.intermediate_values.items()},
        }
        state = TrialState.FAIL
    drawn = {key: new[key].drawn(value) for key, value in (values or {}).items()}
    distributions: dict[str, BaseDistribution] = {key: new[key].distribution for key in drawn}
    return FrozenTrial(
        number=trial.number,
        trial_id=-1,
        state=state,
        value=None,
        values=list(known.objectives) if state is TrialState.COMPLETE and known.objectives else None,
        datetime_start=trial.datetime_start,
        datetime_complete=trial.datetime_complete,
        params=drawn,
        distributions=distributions,
        user_attrs=attrs,
        system_attrs={},  # a sampler's own notes are of the space as it was
        intermediate_values=dict(known.steps),
    )


def _values(
    known: Record,
    old: Mapping[str, Dimension],
    new: Mapping[str, Dimension],
    then: Sequence[str],
    now: Sequence[str],
) -> dict[str, Value] | None:
    """Returns a trial's values in today's space; None where they have no place in it."""
    values: dict[str, Value] = {}
    for key, dimension in new.items():
        if not dimension.is_active(values):
            if key in known.values and known.values[key] != _fixed(now, key):
                return None
            continue
        value = known.values.get(key, MISSING)
        if value is MISSING and (key not in old or not old[key].is_active(known.values)):
            value = _fixed(then, key)
        if value is MISSING or not dimension.contains(value):  # type: ignore[arg-type]  # MISSING has been told apart
            return None
        values[key] = value  # type: ignore[assignment]
    gone = [key for key in known.values if key not in new]
    return None if any(known.values[key] != _fixed(now, key) for key in gone) else values


def _fixed(overrides: Sequence[str], key: str) -> Any:
    """Returns what a setting is where it is no range; `MISSING` where that cannot be told."""
    settings, choices = _composed(tuple(overrides)), Choices.of()
    if key in choices.groups():
        typed = [word.partition("=")[2] for word in overrides if word.partition("=")[0] == key]
        return typed[0] if typed else choices.chosen(settings).get(key, MISSING)
    parent, _, last = key.rpartition(".")
    node = at(settings, parent) if parent else settings
    return node.get(last, MISSING) if isinstance(node, Mapping) else MISSING


@functools.cache
def _composed(overrides: tuple[str, ...]) -> dict[str, Any]:
    try:
        return read_request(overrides).settings
    except UserError:
        return {}
