"""Plans: files that declare the pairs that are tested, before looking at results."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from sentattn.compare.pairs import Plan
from sentattn.compare.runs import Setting, rest
from sentattn.config import types
from sentattn.config.schema import FOLDS, SEEDS
from sentattn.config.targets import TARGET_KEY
from sentattn.config.types import Kind, Node, Tree
from sentattn.console import plural
from sentattn.errors import MALFORMED, Fault, RunError, SettingError, UserError
from sentattn.run import RUN_FORMAT

if TYPE_CHECKING:
    from sentattn.compare.comparison import Comparison

KEYS: dict[str, Kind] = {
    "split": 'Literal["test", "val"]',
    "metric": "str",
    "margin": "Positive",
    "seeds": "list[Seed]",
    "base": "list[str]",
    "pairs": "list[Any]",
    "data": "list[str]",
}
OPTIONAL = ("data",)
SIDES = ("a", "b")
TESTS = "tests.jsonl"
"""The file of the output folder with the tests of all plans, so that the reuse of test rows is seen."""
RESOLVED_LATER = "auto"  # a value that a training resolves by the machine; a run with any value fits it
OF_TABLE = "setting"  # a side that is a setting of a table of predictions, by its name
LABEL = "model.name"  # the name of a preset, which changes no result
FILES = ("data.train", "data.val", "data.test")  # whose rows are compared, wherever they lie
EXAMPLE = """\
split: test
metric: accuracy
margin: 0.5
seeds: [0, 1, 2]
base: [model=structured, data=imdb]
pairs:
  - {a: {model/attention: structured}, b: {model/attention: uniform}}
  - {a: {model.freeze_attention: false}, b: {model.freeze_attention: true}}
"""


def read_plan(path: Path) -> Plan:
    """Reads a plan; a `SettingError` with all its errors."""
    try:
        content = yaml.safe_load(text := path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it must hold keys and values")
    except (*MALFORMED, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        message = f"plan={path} cannot be read: {reason}. An example:\n{EXAMPLE}"
        raise SettingError(Fault("plan", "unreadable", message)) from error
    faults = [
        Fault(str(key), "unknown", f"plan={path}: no key {key!r}; there are {', '.join(KEYS)}.")
        for key in content
        if key not in KEYS
    ]
    missing = [key for key in KEYS if key not in content and key not in OPTIONAL]
    faults += [Fault(key, "missing", f"plan={path}: {key} is missing.") for key in missing]
    faults += [
        Fault(fault.key, fault.kind, f"plan={path}: {fault}")
        for key, kind in KEYS.items()
        if key in content and (fault := types.fault(key, kind, content[key]))
    ]
    if faults := faults or list(_faults(path, content)):
        raise SettingError(*faults)
    return Plan(path, content, text)


def _faults(path: Path, content: Node) -> Iterator[Fault]:
    """Yields the errors in the values of a plan that has all its keys."""
    least = 1 if any(word.startswith(f"{FOLDS}=") for word in content["base"]) else SEEDS
    if len(set(content["seeds"])) < max(least, len(content["seeds"])):
        message = f"plan={path}: seeds must be {least} or more different ones, got {types.as_typed(content['seeds'])}."
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


def apply(plan: Plan, comparisons: Sequence[Comparison], output_dir: Path) -> list[Comparison]:
    """Returns the comparisons that a plan is about, with the plan, and notes its tests in the output folder.

    A run belongs to a side of a pair where its resolved settings are those that a training with the plan's arguments
    would have, save what changes no result: paths, devices, the name of the preset; a setting of a table by its name.

    Raises:
        SettingError: If a setting of the plan cannot be.
        RunError: With the commands that train the runs which are missing.
    """
    commands: dict[str, None] = {}
    found = []
    for data in plan.content.get("data", [""]):
        sides = [_composed(plan, number, side, data) for number in range(len(plan.content["pairs"])) for side in SIDES]
        matches = [[_match(wanted, comparison) for _, wanted in sides] for comparison in comparisons]
        index = max(range(len(comparisons)), key=lambda number: -matches[number].count(None))
        planned: list[Setting] = []
        for (arguments, _), setting in zip(sides, matches[index], strict=True):
            runs = [run for run in setting.runs if run.seed in plan.content["seeds"]] if setting else []
            missing = sorted(set(plan.content["seeds"]) - {run.seed for run in runs})
            if setting and (setting.deterministic or not missing):
                planned.append(setting if setting.deterministic else replace(setting, runs=runs))
            else:
                commands[_train(arguments, missing)] = None
        found.append((comparisons[index], planned, [settings for _, settings in sides]))
    if commands:
        text = "".join(f"\n  {command}" for command in commands)
        message = f"plan={plan.path} names runs that do not exist, so nothing is tested. To train them:{text}"
        raise RunError(Fault("plan", "missing", message))
    return [_planned(plan, comparison, planned, sides, output_dir) for comparison, planned, sides in found]


def _planned(
    plan: Plan, comparison: Comparison, planned: Sequence[Setting], sides: Sequence[Tree], output_dir: Path
) -> Comparison:
    """Returns a comparison with the pairs of a plan, whose tests are noted."""
    pairs = list(zip(planned[::2], planned[1::2], strict=True))
    data = sorted({run.fingerprint or run.rows.digest for setting in planned for run in setting.runs})
    tested = [plan.content, sides, data, RUN_FORMAT, version("sentattn")]
    experiment = hashlib.sha256(json.dumps(tested, sort_keys=True).encode()).hexdigest()[:12]
    entry = {"rows": [comparison.rows.digest, comparison.split], "plan": plan.path.name, "pairs": len(pairs)}
    remark = _note_tests(output_dir / TESTS, entry | {"digest": plan.digest, "experiment": experiment})
    return replace(comparison, plan=replace(plan, pairs=pairs, experiment=experiment, remark=remark))


def _note_tests(file: Path, entry: Node) -> str:
    """Adds the tests of a plan to a file once; returns how many others were made on the same rows before."""
    before: dict[str, Node] = {}
    try:
        if file.exists():
            lines = file.read_text(encoding="utf-8").splitlines()
            before = {known["experiment"]: known for known in map(json.loads, lines) if known["rows"] == entry["rows"]}
        if before.pop(entry["experiment"], None) is None:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a", encoding="utf-8") as journal:
                journal.write(json.dumps({"date": f"{datetime.now():%Y-%m-%d}", **entry}) + "\n")
        pairs = plural(sum(known["pairs"] for known in before.values()), "pair")
    except MALFORMED as error:
        return f"{file} cannot be read and written ({error}): nothing is known of other tests of these rows."
    if not before:
        return ""
    return f"These rows were tested before: {pairs} of {plural(len(before), 'other plan')} ({file})."


def _composed(plan: Plan, number: int, side: str, data: str) -> tuple[list[str], Tree]:
    """Returns the arguments of a side of a pair, and the flat settings that count, or the name of one of a table."""
    from sentattn.config.compose import compose

    base = dict(word.split("=", 1) for word in plan.content["base"])
    own = {str(key): types.as_typed(value) for key, value in plan.content["pairs"][number][side].items()}
    if set(own) == {OF_TABLE}:
        return [], {**own, **({"data": data} if data else {})}
    base |= {"data": data} if data else {}
    arguments = [f"{key}={text}" for key, text in (base | own).items()]
    try:
        return arguments, rest(compose(arguments))
    except UserError as error:
        place = f"plan={plan.path}, pairs[{number}].{side}"
        raise SettingError(*(Fault(fault.key, fault.kind, f"{place}: {fault}") for fault in error.faults)) from error


def _match(wanted: Node, comparison: Comparison) -> Setting | None:
    """Returns the setting of a comparison that has the wanted values.

    Tables may lie anywhere, and a pretrained encoder, its tokenizer with it; of several settings the one with the
    plan's name of the encoder, its files and its name of the preset is meant.
    """
    from sentattn.config.compose import PRETRAINED, TOKENIZER_KEY

    if OF_TABLE in wanted:
        named = [setting for setting in comparison.settings if setting.name == wanted[OF_TABLE]]
        return next((each for each in named if comparison.data == wanted.get("data", comparison.data)), None)
    ignored = {LABEL, *FILES, *(key for key, value in wanted.items() if value == RESOLVED_LATER)}
    if wanted.get(f"model.embedding.{TARGET_KEY}") == PRETRAINED:
        ignored.add(TOKENIZER_KEY)
    flat = {setting.key: rest(setting.settings) for setting in comparison.settings}
    neutral = dict.fromkeys(ignored)  # replaces what does not count
    alike = [s for s in comparison.settings if flat[s.key] | neutral == {**wanted, **neutral}]
    for key in (TOKENIZER_KEY, *FILES, LABEL):
        alike = [setting for setting in alike if flat[setting.key].get(key) == wanted.get(key)] or alike
    if len(alike) > 1:
        names = "; ".join(f"{setting.name} ({setting.runs[0].path})" for setting in alike)
        message = f"Several settings fit one side of the plan: {names}. Leave all but one out, with where= or folders."
        raise RunError(Fault("plan", "conflict", message))
    return next(iter(alike), None)


def _train(arguments: Sequence[str], seeds: Sequence[int]) -> str:
    """Returns the command that trains some seeds."""
    numbers = ",".join(map(str, seeds))
    if not arguments:
        return f"a table with the seeds {numbers} of each setting of the plan: table=FILE"
    words = [*(["-m"] if len(seeds) > 1 else []), *arguments, f"seed={numbers}"]
    return f"python -m sentattn.train {shlex.join(words)}"
