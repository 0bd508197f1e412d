"""A sweep as it is started: a file of `sweeps/`, the command line, or both, checked as a whole.

A file's keys may all be typed, by the same names; what is typed extends or replaces the file key by key.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sentattn.config import types
from sentattn.config.targets import TARGET
from sentattn.errors import Fault, SettingError, suggestion
from sentattn.sweep.spec.components import (
    DEFAULT_SAMPLER,
    check_pruner,
    check_sampler,
    default_pruner,
    drawn_at_random,
    read_engine,
)
from sentattn.sweep.spec.plan import DECIDED, METRICS, Budget, Objective, Options, Plan
from sentattn.sweep.spec.search_space import Dimension, Value
from sentattn.sweep.spec.sweep_file import OPTIONS, SWEEP, Draft, read_draft
from sentattn.sweep.spec.validation import as_arguments, check_space, read_space

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
TRIALS = 20
EXAMPLE = "tag(log,interval(1e-4,1e-2))"
"""A range that every model has, of its learning rate."""


def read_plan(arguments: Sequence[str]) -> Plan:
    """Reads a sweep from the command line and the file that it names.

    Args:
        arguments: `sweep=NAME` or a file's path, the sweep's own keys, overrides, and ranges. A bare command reads
            `sweeps/default.yaml`, and so does one that gives no range.

    Raises:
        SettingError: With all faults, those of the file first.
    """
    faults: list[Fault] = []
    draft = read_draft(arguments, faults)
    name, budget, options = _options(draft, faults)
    objectives = _objectives(draft.components["objective"], faults)
    drafts = {study: draft.study(entries, faults) for study, entries in draft.studies.items()} or {"": draft}
    spaces = {study: _space(draft, faults) for study, draft in drafts.items()}
    space, settings = next(iter(spaces.values()))
    sampler = _component("sampler", DEFAULT_SAMPLER, draft, faults)
    pruner = _component("pruner", default_pruner(len(objectives), options.repeats), draft, faults)
    faults += check_sampler(sampler, space, len(objectives))
    faults += check_pruner(pruner, len(objectives), options.repeats)
    engine, engine_faults = read_engine(_parsed(draft.components["engine"]))
    faults += engine_faults
    faults += _enqueue_faults(draft, space, sampler["name"])
    if len(objectives) > 1 and options.confirm:
        message = f"confirm={options.confirm} cannot be used with several objectives, which have no single best."
        faults.append(Fault("confirm", "conflict", message))
    if faults:
        if draft.is_default:
            faults = _without_default(draft, faults, arguments)
        positions = {word.partition("=")[0]: position for position, word in enumerate(arguments)}
        raise SettingError(*sorted(dict.fromkeys(faults), key=lambda fault: positions.get(fault.key, -1)))
    if name is None:
        model = "models" if "model" in space else settings["model"]["name"]
        name = f"{model}-{settings['data']['name']}"
    plans = []
    for study, (space, _) in spaces.items():
        random = " and ".join(drawn_at_random(sampler, space))
        note = [f"sampler={sampler['name']} does not model {random}, and draws it at random."] if random else []
        plans.append(
            Plan(
                study=f"{name}-{study}" if study else name,
                overrides=(*draft.folders, *as_arguments(drafts[study].overrides)),
                space=space,
                objectives=objectives,
                budget=budget,
                sampler=sampler,
                pruner=pruner,
                engine=engine,
                enqueue=tuple(_enqueued(draft)),
                notes=tuple(note),
                **vars(options),
            )
        )
    if not draft.studies:
        return plans[0]
    return replace(
        plans[0], study=name, overrides=(*draft.folders, *as_arguments(draft.overrides)), studies=tuple(plans)
    )


def _without_default(draft: Draft, faults: Sequence[Fault], arguments: Sequence[str]) -> list[Fault]:
    """Returns faults with one in place of those of settings that nobody has typed."""
    written = {**draft.overrides, **{key: text for key, (text, _) in draft.ranges.items()}}
    typed = {word.partition("=")[0] for word in arguments}
    brought = dict.fromkeys(fault.key for fault in faults if fault.key in written.keys() - typed)
    if not brought:
        return [*faults]
    settings = ", ".join(f"{key}={written[key]}" for key in brought)
    command = shlex.join(["python", "-m", "sentattn.sweep", *arguments, f"optimizer.lr={EXAMPLE}"])
    message = (
        f"{' '.join(arguments)} has no range, and so sweep=default is read, whose {settings} cannot be used with it. "
        f"Type a range of your own:\n{command}\nor a file: `python -m sentattn.list sweeps` shows them."
    )
    return [Fault(SWEEP, "conflict", message), *(fault for fault in faults if fault.key not in brought)]


def _options(draft: Draft, faults: list[Fault]) -> tuple[str | None, Budget, Options]:
    """Returns the name of the study, its budget and the other options; faulty ones have their defaults."""
    values: dict[str, Any] = {}
    for key, written in draft.options.items():
        is_text = written != "null" and types.mismatch(OPTIONS[key], written) is None  # a study may be called 2026
        value = written if is_text else types.parse(written)
        if fault := types.fault(key, OPTIONS[key], value):
            faults.append(fault)
        else:
            values[key] = value
    for key in ("study", "warm_start"):
        text = values.get(key)
        if text is not None and not NAME.fullmatch(text):
            legal = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("._-")[:64] or "my-study"
            message = f"{key} must be a name for a folder, of letters, digits, - and _, got {text}; type {key}={legal}."
            faults.append(Fault(key, "type", message))
    name, hours = values.pop("study", None), values.pop("hours", None)
    trials = values.pop("trials", None if hours else TRIALS)
    if trials is None and hours is None:
        faults.append(Fault("trials", "missing", "trials=null needs hours=HOURS: one of them ends the sweep."))
    if values.get("slots") is not None and "slots_per_gpu" in values:
        message = "slots and slots_per_gpu exclude each other: give the number of trials at once, or that of a GPU."
        faults.append(Fault("slots", "conflict", message))
    if "heartbeat" in values and values.get("storage") is None:
        message = f"heartbeat={values['heartbeat']} needs a database, storage=URL: its schedulers write heartbeats."
        faults.append(Fault("heartbeat", "conflict", message))
    return name, Budget(trials, hours), Options(**values)


def _enqueued(draft: Draft) -> list[dict[str, Value]]:
    """Returns the points to try first, without settings that the command line has given one value."""
    return [{key: value for key, value in point.items() if key not in draft.overrides} for point in draft.enqueue]


def _enqueue_faults(draft: Draft, space: Mapping[str, Dimension], sampler: str) -> list[Fault]:
    """Returns what is wrong with the points to try first."""
    faults = []
    if draft.enqueue and sampler == "grid":
        faults.append(Fault("enqueue", "conflict", "enqueue cannot be used with sampler=grid, which tries each point."))
    for key, value in (entry for point in _enqueued(draft) for entry in point.items()):
        if key not in space and key not in draft.ranges:
            message = f"enqueue: {key} is not searched.{suggestion(key, space)}"
            faults.append(Fault("enqueue", "unknown", message))
        elif key in space and not space[key].contains(value):
            message = f"enqueue: {key} must lie in {space[key].written}, got {types.as_typed(value)}."
            faults.append(Fault("enqueue", "range", message))
    return faults


def _objectives(settings: Mapping[str, str], faults: list[Fault]) -> tuple[Objective, ...]:
    """Returns the objectives, whose metrics and modes have commas between them; by default validation accuracy."""
    for name in set(settings) - {"metric", "mode"}:
        message = f"objective has no {name!r}.{suggestion(name, ('metric', 'mode'))} It has metric and mode."
        faults.append(Fault(f"objective.{name}", "unknown", message))
    metrics = settings.get("metric", "val/accuracy").split(",")
    modes = settings["mode"].split(",") if "mode" in settings else [METRICS.get(metric, "") for metric in metrics]
    if len(modes) != len(metrics) or len(set(metrics)) < len(metrics):
        message = (
            f"objective.metric={','.join(metrics)}, objective.mode={','.join(modes)}: give one mode for each metric."
        )
        faults.append(Fault("objective.mode", "conflict", message))
    objectives = []
    for metric, mode in zip(metrics, modes, strict=False):
        better = METRICS.get(metric)
        if better is None:
            message = f"there is no metric {metric!r}.{suggestion(metric, METRICS)} There are {', '.join(METRICS)}."
            faults.append(Fault("objective.metric", "unknown", f"objective.metric={metric}: {message}"))
        elif mode != better:
            message = f"objective.mode of {metric} must be {better}, got {mode}."
            faults.append(Fault("objective.mode", "range", message))
        else:
            objectives.append(Objective(metric, "max" if mode == "max" else "min"))
    return tuple(objectives)


def _parsed(settings: Mapping[str, str]) -> dict[str, Any]:
    return {key: types.parse(text) for key, text in settings.items()}


def _component(kind: str, default: str, draft: Draft, faults: list[Fault]) -> dict[str, Any]:
    """Returns the settings of a sampler or pruner; one by `_target_` runs code, and so needs `trust=true`."""
    settings = _parsed(draft.components[kind])
    target = settings.get(TARGET)
    if target is None:
        return {"name": default} | settings
    if not draft.trust:
        message = f"{kind}._target_={target} runs the code of that class: type trust=true if you trust it."
        faults.append(Fault(f"{kind}.{TARGET}", "unsafe", message))
        return {"name": default}
    return settings | {"name": target}


def _space(draft: Draft, faults: list[Fault]) -> tuple[dict[str, Dimension], Mapping[str, Any]]:
    """Returns the checked space of a study and the settings of one trial; refuses settings that a sweep sets."""
    faults += [
        Fault(key, "unsupported", f"{key}={text}: a sweep sets {key} itself; {DECIDED[key]}.")
        for key, text in draft.overrides.items()
        if key in DECIDED
    ]
    if not draft.ranges:
        message = "there is nothing to search: type a range such as model.attention.hops=range(1,31), or sweep=NAME."
        faults.append(Fault("space", "missing", message))
    space = read_space(draft, faults)
    return space, check_space(draft, space, faults)
