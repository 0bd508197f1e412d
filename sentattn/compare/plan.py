"""A plan: the pairs of settings that are tested, their seeds and rows, written before looking at results."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import yaml

from sentattn.compare.comparison import Comparison
from sentattn.compare.pairs import Plan, declared_indices
from sentattn.compare.runs import VECTORS, EvaluatedRun, Setting, group_by_setting, read_runs, rest
from sentattn.config import types
from sentattn.config.compose import ENCODER, PRETRAINED, REVISION, TOKENIZER, compose
from sentattn.config.groups import get_path
from sentattn.config.schema import CHOICES, SEEDS
from sentattn.config.targets import TARGET
from sentattn.config.types import Kind, Node, Tree
from sentattn.errors import Fault, RunError, SettingError, UserError
from sentattn.run import write_atomically

KEYS: dict[str, Kind] = {
    "split": 'Literal["test", "val"]',
    "metric": 'Literal["accuracy"]',
    "margin": "Positive",
    "seeds": "list[Seed]",
    "base": "list[str]",
    "pairs": "list[Any]",
}
SIDES = ("a", "b")
RESOLVED_LATER = "auto"  # a value that a training resolves by the machine; a run with any value fits it
LABEL = "model.name"  # the name of a preset, which changes no result
GROUPS = ("model", "model/", "data", "loss", "optimizer", "scheduler")  # whose choices a proposed plan names


def read_plan(path: Path) -> Plan:
    """Reads a plan; a `SettingError` with all its errors."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise SettingError(Fault("plan", "unreadable", f"plan={path} cannot be read: {reason}.")) from error
    if not isinstance(content, dict):
        raise SettingError(Fault("plan", "type", f"plan={path} must hold the keys {', '.join(KEYS)}."))
    faults = [
        Fault(str(key), "unknown", f"plan={path}: no key {key!r}; there are {', '.join(KEYS)}.")
        for key in content
        if key not in KEYS
    ]
    faults += [Fault(key, "missing", f"plan={path}: {key} is missing.") for key in KEYS if key not in content]
    faults += [
        Fault(fault.key, fault.kind, f"plan={path}: {fault}")
        for key, kind in KEYS.items()
        if key in content and (fault := types.fault(key, kind, content[key]))
    ]
    if faults := faults or list(_faults(path, content)):
        raise SettingError(*faults)
    return Plan(path, content)


def _faults(path: Path, content: Node) -> Iterator[Fault]:
    """Yields the errors in the values of a plan that has all its keys."""
    if len(set(content["seeds"])) < max(SEEDS, len(content["seeds"])):
        message = f"plan={path}: seeds must be {SEEDS} or more different ones, got {types.as_typed(content['seeds'])}."
        yield Fault("seeds", "range", message)
    for word in content["base"]:
        if "=" not in word:
            yield Fault("base", "type", f"plan={path}: base takes KEY=VALUE, such as data=imdb, got {word}.")
    if not content["pairs"]:
        yield Fault("pairs", "missing", f"plan={path}: pairs is empty.")
    for number, pair in enumerate(content["pairs"]):
        is_dict = isinstance(pair, dict) and all(isinstance(side, dict) for side in pair.values())
        if not is_dict or set(pair) != set(SIDES):
            message = f"plan={path}: pairs[{number}] must be {{a: {{KEY: VALUE}}, b: {{KEY: VALUE}}}}."
            yield Fault(f"pairs[{number}]", "type", message)


def _texts(side: Node) -> dict[str, str]:
    return {str(key): types.as_typed(value) for key, value in side.items()}


def apply(plan: Plan, comparisons: Sequence[Comparison]) -> Comparison:
    """Returns the comparison that a plan is about, with the plan.

    A run belongs to a side of a pair where its resolved settings are those that a training with the plan's arguments
    would have, save what changes no result: paths, devices, the name of the preset.

    Raises:
        SettingError: If a setting of the plan cannot be.
        RunError: With the commands that train the runs which are missing.
    """
    sides = [_composed(plan, number, side) for number in range(len(plan.content["pairs"])) for side in SIDES]
    matches = [[_match(wanted, comparison) for _, wanted in sides] for comparison in comparisons]
    index = max(range(len(comparisons)), key=lambda number: -matches[number].count(None))
    planned: list[Setting] = []
    commands: dict[str, None] = {}
    for (arguments, _), setting in zip(sides, matches[index], strict=True):
        runs = [run for run in setting.runs if run.seed in plan.content["seeds"]] if setting else []
        missing = sorted(set(plan.content["seeds"]) - {run.seed for run in runs})
        if setting and (setting.deterministic or not missing):
            planned.append(setting if setting.deterministic else replace(setting, runs=runs))
        else:
            commands |= dict.fromkeys(_train(arguments, missing))
    if commands:
        text = "".join(f"\n  {command}" for command in commands)
        message = f"plan={plan.path} names runs that do not exist, so nothing is tested. To train them:{text}"
        raise RunError(Fault("plan", "missing", message))
    pairs = list(zip(planned[::2], planned[1::2], strict=True))
    return replace(comparisons[index], plan=replace(plan, pairs=pairs))


def _composed(plan: Plan, number: int, side: str) -> tuple[list[str], Tree]:
    """Returns the arguments of a side of a pair, and the flat settings that count."""
    base = dict(word.split("=", 1) for word in plan.content["base"])
    arguments = [f"{key}={text}" for key, text in (base | _texts(plan.content["pairs"][number][side])).items()]
    try:
        return arguments, rest(compose(arguments))
    except UserError as error:
        place = f"plan={plan.path}, pairs[{number}].{side}"
        raise SettingError(*(Fault(fault.key, fault.kind, f"{place}: {fault}") for fault in error.faults)) from error


def _match(wanted: Node, comparison: Comparison) -> Setting | None:
    """Returns the setting of a comparison that has the wanted values.

    A pretrained encoder may lie anywhere, and its tokenizer with it; of several settings the one with the plan's name
    of the encoder and of the preset is meant.
    """
    ignored = {LABEL, *(key for key, value in wanted.items() if value == RESOLVED_LATER)}
    if wanted.get(f"model.embedding.{TARGET}") == PRETRAINED:
        ignored.add(TOKENIZER)
    flat = {setting.key: rest(setting.settings) for setting in comparison.settings}
    alike = [
        setting for setting in comparison.settings if _without(flat[setting.key], ignored) == _without(wanted, ignored)
    ]
    for key in (TOKENIZER, LABEL):
        alike = [setting for setting in alike if flat[setting.key].get(key) == wanted.get(key)] or alike
    if len(alike) > 1:
        names = "; ".join(f"{setting.name} ({setting.runs[0].path})" for setting in alike)
        message = f"Several settings fit one side of the plan: {names}. Leave all but one out, with where= or folders."
        raise RunError(Fault("plan", "conflict", message))
    return next(iter(alike), None)


def _without(flat: Node, keys: set[str]) -> Tree:
    return {key: value for key, value in flat.items() if key not in keys}


def _train(arguments: Sequence[str], seeds: Sequence[int]) -> Iterator[str]:
    """Yields the commands that train some seeds, a command for each range of consecutive seeds."""
    for _, group in groupby(enumerate(seeds), key=lambda numbered: numbered[1] - numbered[0]):
        [first, *others] = [seed for _, seed in group]
        words = [*arguments, f"seed={first}", *([f"seeds={1 + len(others)}"] if others else [])]
        yield f"python -m sentattn.train {shlex.join(words)}"


def write_plan(path: Path, folders: Sequence[Path], *, split: str, margin: float) -> tuple[Plan, list[Fault]]:
    """Writes a new plan with the pairs that are declared for the settings of runs; no prediction is read.

    Returns the plan, and an error for each run that is left out; a `RunError` if no pair is found or the file exists.
    """
    if path.exists():
        raise RunError(Fault("plan", "conflict", f"plan={path} exists; a plan is written once. Name another file."))
    runs, faults = read_runs(folders, split=None)
    by_rows: dict[object, list[EvaluatedRun]] = defaultdict(list)
    for run in runs:
        by_rows[run.result["data"], run.fingerprint].append(run)
    candidates = [
        (settings, declared_indices([setting.settings for setting in settings], [None] * len(settings)))
        for settings in map(group_by_setting, by_rows.values())
    ]
    settings, pairs = max(candidates, key=lambda candidate: len(candidate[1]))
    overrides: dict[int, Tree] = {}
    for number in sorted({number for pair in pairs for number in pair}):
        try:
            overrides[number] = as_overrides(settings[number].settings)
        except UserError as error:
            faults += error.faults
    pairs = [pair for pair in pairs if set(pair) <= overrides.keys()]
    if not pairs:
        message = "These runs hold no pair of settings that differ in one part only: there is nothing to plan."
        raise RunError(*faults, Fault("plan", "missing", message))
    used = {number: _texts(overrides[number]) for pair in pairs for number in pair}
    common = set.intersection(*(set(texts.items()) for texts in used.values()))
    seeds = sorted({run.seed for number in used for run in settings[number].runs})
    while len(seeds) < SEEDS:
        seeds.append(seeds[-1] + 1)
    sides = {
        number: {key: value for key, value in overrides[number].items() if (key, texts[key]) not in common}
        for number, texts in used.items()
    }
    content = {
        "split": split,
        "metric": "accuracy",
        "margin": margin,
        "seeds": seeds,
        "base": [f"{key}={text}" for key, text in used[pairs[0][0]].items() if (key, text) in common],
        "pairs": [{"a": sides[first], "b": sides[second]} for first, second in pairs],
    }
    write_atomically(path, Plan(path, content).text)
    return read_plan(path), faults


def as_overrides(settings: Node) -> Tree:
    """Returns the overrides that train a run's settings again: choices of groups, then single values.

    A `SettingError` if they cannot be typed, as with a class that no file in `conf/` names.
    """
    chosen = {key: name for key, name in settings.get(CHOICES, {}).items() if key.startswith(GROUPS)}
    overrides: Tree = {key: chosen[key] for key in ("model", "data") if key in chosen}
    overrides |= {key: name for key in (ENCODER, REVISION) if (name := get_path(settings, key)) is not None}

    def composed() -> Node:
        return compose([f"{key}={text}" for key, text in _texts(overrides).items()])

    standard = composed()[CHOICES]
    overrides |= {key: name for key, name in chosen.items() if standard.get(key) != name}
    flat, now = rest(settings, defaults=True), rest(composed(), defaults=True)
    overrides |= {key: value for key, value in flat.items() if key not in now or now[key] != value}
    overrides = {key: value for key, value in overrides.items() if not key.endswith(f".{TARGET}")}  # of callbacks
    if overrides.get(VECTORS):
        overrides[VECTORS] = settings["data"]["vectors"]
    now = rest(composed())
    ignored = {key for key, value in now.items() if value == RESOLVED_LATER}
    if _without(now, ignored) != _without(rest(settings), ignored):
        message = "has settings that the command line of a training does not reach; it is in no pair of the plan."
        raise SettingError(Fault("plan", "unsupported", f"{settings['model']['name']} {message}"))
    return overrides
