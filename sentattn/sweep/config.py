"""A sweep as it is asked for: a file of `sweeps/`, the command line, or both, checked as a whole.

A file's keys may all be typed, by the same names; what is typed extends or replaces the file key by key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sentattn.config.arguments import LAST, Faults
from sentattn.config.groups import Choices
from sentattn.errors import Fault, SettingError
from sentattn.sweep import options
from sentattn.sweep.objective import Objective, read_objectives
from sentattn.sweep.plan import Budget, Plan
from sentattn.sweep.samplers import DEFAULT_SAMPLER, check_pruner, check_sampler, default_pruner, drawn_at_random
from sentattn.sweep.search_space import Dimension, read_dimension
from sentattn.sweep.sweep_file import Draft, read_draft
from sentattn.sweep.validation import Checker, conditions, ordered, texts

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}[A-Za-z0-9]|[A-Za-z0-9]")
RANGES = "model.attention.hops=range(1,31)"


def read_plan(arguments: Sequence[str]) -> Plan:
    """Reads a sweep from the command line and the file that it names.

    Args:
        arguments: `sweep=NAME` or a file's path, the sweep's own keys, overrides, and ranges. A bare command reads
            `sweeps/default.yaml`, and so does one that gives no range.

    Raises:
        SettingError: With all faults, those of the file first.
    """
    faults = Faults()
    asked, choices = read_draft(arguments, faults)
    own = _options(asked, faults)
    objectives = read_objectives(asked.objectives, faults)
    parts = {name: _joined(asked, part) for name, part in asked.studies.items()} or {"": asked}
    checked = {name: _checked(part, choices, faults) for name, part in parts.items()}
    first = next(iter(checked.values()))
    sampler, pruner = _components(asked, first.space, len(objectives), own["repeats"], faults)
    if len(objectives) > 1 and own["confirm"]:
        conflict = f"confirm={own['confirm']}: several objectives have no single best setting; leave it out."
        faults.add(Fault("confirm", "conflict", conflict))
    name = _name(own["study"], first, faults)
    faults.raise_any()
    del own["study"]
    budget = Budget(own.pop("trials"), own.pop("hours"))
    shared = {"budget": budget, "objectives": objectives, "sampler": sampler, "pruner": pruner, **own}
    plans = [
        Plan(
            study=f"{name}-{part}" if part else name,
            overrides=(*asked.folders, *texts(one.overrides)),
            space=one.space,
            notes=(*one.notes, *_drawn_at_random(sampler, one.space)),
            **shared,
        )
        for part, one in checked.items()
    ]
    if not asked.studies:
        return plans[0]
    return replace(plans[0], study=name, overrides=(*asked.folders, *texts(asked.overrides)), members=tuple(plans))


def _joined(common: Draft, part: Draft) -> Draft:
    """A study's own settings laid over what it shares with the others."""
    joined = Draft(
        dict(common.overrides), dict(common.ranges), positions=dict(common.positions), folders=common.folders
    )
    for key, text in part.overrides.items():
        joined.give(key, text)
    for key, (text, when) in part.ranges.items():
        joined.search(key, text, when)
    return joined


def _checked(asked: Draft, choices: Choices, faults: Faults) -> Checker:
    """Reads the ranges of a study and checks them against the configuration."""
    for key, text in asked.overrides.items():
        if reason := options.decided(key, text):
            faults.add(Fault(key, "unsupported", reason), asked.positions[key])
    space = _space(asked, choices, faults)
    if not asked.ranges:
        message = f"there is nothing to search: type a range such as {RANGES}, or sweep=NAME."
        faults.add(Fault("space", "missing", message))
    unread = [key for key in asked.ranges if key not in space]
    overrides = {key: text for key, text in asked.overrides.items() if key not in options.DECIDED}
    checker = Checker(overrides, space, choices, asked.folders)
    checker.run(faults, asked.positions, unread)
    return checker


def _space(asked: Draft, choices: Choices, faults: Faults) -> dict[str, Dimension]:
    read: dict[str, Dimension] = {}
    for key, (text, _) in asked.ranges.items():
        try:
            if reason := options.not_searched(key, text):
                raise SettingError(Fault(key, "unsupported", reason))
            read[key] = read_dimension(key, text, choices)
        except SettingError as error:
            faults.add(error.faults[0], asked.positions[key])
    space: dict[str, Dimension] = {}
    for key, dimension in read.items():
        when = conditions(key, asked, read, faults)
        if when is not None:
            space[key] = replace(dimension, when=when)
    try:
        return ordered({key: one for key, one in space.items() if set(one.when) <= set(space)})
    except SettingError as error:
        faults.add(error.faults[0])
        return {key: replace(one, when={}) for key, one in space.items()}


def _options(asked: Draft, faults: Faults) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in asked.options.items():
        values[key], fault = options.option_value(key, value)
        if fault:
            faults.add(fault, asked.positions.get(key, LAST))
            values[key] = options.OPTIONS[key].default
    own = options.options_of(values)
    if own["trials"] is None and own["hours"] is None:
        faults.add(Fault("trials", "missing", "trials=null needs hours=HOURS: one of them ends the sweep."))
    if own["slots"] is not None and "slots_per_gpu" in values:
        message = "slots and slots_per_gpu exclude each other: give the number of trials at once, or that of a GPU."
        faults.add(Fault("slots", "conflict", message))
    return own


def _components(
    asked: Draft, space: Mapping[str, Dimension], objectives: int, repeats: int, faults: Faults
) -> tuple[dict[str, Any], dict[str, Any]]:
    sampler = {"name": DEFAULT_SAMPLER, **asked.components["sampler"]}
    pruner = {"name": default_pruner(objectives, repeats), **asked.components["pruner"]}
    for message in check_sampler(sampler, space, objectives):
        faults.add(Fault("sampler", "conflict", message), asked.positions.get("sampler", LAST))
    for message in check_pruner(pruner, objectives, repeats):
        faults.add(Fault("pruner", "conflict", message), asked.positions.get("pruner", LAST))
    return sampler, pruner


def _drawn_at_random(sampler: Mapping[str, Any], space: Mapping[str, Dimension]) -> list[str]:
    drawn = drawn_at_random(sampler, space)
    return (
        [f"sampler={sampler['name']} learns nothing of {' and '.join(drawn)}, and draws it at random."] if drawn else []
    )


def _name(given_name: str | None, first: Checker, faults: Faults) -> str:
    """Returns the name that was given, or one by model and data."""
    if given_name is None and first.settings:
        model = "models" if "model" in first.space else first.settings["model"]["name"]
        return f"{model}-{first.settings['data']['name']}"
    name = given_name or ""
    if given_name is not None and not NAME.fullmatch(name):
        good = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("._-")[:64] or "my-study"
        message = f"study={name}: a study is a folder, so its name has letters, digits, - and _; type study={good}."
        faults.add(Fault("study", "type", message))
    return name


__all__ = ["Budget", "Objective", "Plan", "read_plan"]
