"""A sweep as it is written, in a file of `sweeps/`, on the command line, or both: read, and checked as a whole.

All keys of a file may be typed, by the same names; what is typed extends or replaces the file key by key.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ValidationError

from sentattn import run
from sentattn.config import types
from sentattn.config.arguments import split_folders
from sentattn.config.command_line import CONFIG_DIR, read_values, take_cfg
from sentattn.config.groups import Choices, conf_dir, load
from sentattn.config.request import read_request
from sentattn.config.schema import FOLDS, INIT_FROM, TOP
from sentattn.config.search_space import (
    Dimension,
    Value,
    When,
    combinations,
    is_one_of,
    is_range,
    override,
    points,
    read_dimension,
)
from sentattn.config.types import Node, Tree
from sentattn.errors import Fault, SettingError, UserError, closest, suggestion
from sentattn.jobs.slots import require_one_device
from sentattn.sweep import journal
from sentattn.sweep.plan import (
    DECIDED,
    DEFAULT_SAMPLER,
    NOT_SEARCHED,
    OBJECTIVE_METRICS,
    OPTION_TYPES,
    Objective,
    Options,
    Plan,
    check_pruner,
    check_sampler,
    default_pruner,
    unknown,
)

SWEEP, DEFAULT, TRUST = "sweep", "default", "trust"
COMPONENTS = {"sampler": "sampler", "pruner": "pruner", "objective": "objective.metric"}
"""Components, which have settings such as `sampler.multivariate`, and the key that chooses each."""
KEYS = (SWEEP, *OPTION_TYPES, *COMPONENTS.values(), "objective.mode")
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
DEFAULT_TRIALS = 20
RUNS = ("from", INIT_FROM)
"""Settings of a training that name a run."""
COMBINATIONS = 12
"""Up to so many combinations of choices each is composed; of more, each choice at least once."""

Entry: TypeAlias = tuple[str, str, Mapping[str, Any]]
"""Key, text, and for a range its conditions."""
Values: TypeAlias = dict[str, Value]


@dataclass
class Draft:
    """A sweep as it is written, not checked yet.

    Attributes:
        choices: Groups and choices.
        folders: `--config-dir=FOLDER`.
        texts: All settings and ranges: text by key.
        conditions: The keys that are searched, each with its conditions.
        studies: What each study of a file changes, where it starts several.
    """

    choices: Choices
    folders: list[str]
    texts: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    studies: dict[str, list[Entry]] = field(default_factory=dict)

    @property
    def overrides(self) -> dict[str, str]:
        """Settings of a training that all trials have: text by key."""
        return {key: text for key, text in self.texts.items() if key not in self.conditions and not _is_own(key)}

    def component(self, name: str) -> dict[str, str]:
        """Returns the settings of a component, the one that chooses it as `name` or `metric`."""
        settings = {key: text for key, text in self.texts.items() if key.partition(".")[0] == name}
        return {key.partition(".")[2] or "name": text for key, text in settings.items()}

    def arguments(self) -> tuple[str, ...]:
        """Returns the arguments that all trials have."""
        return (*self.folders, *(f"{key}={text}" for key, text in self.overrides.items()))

    def add(self, entries: Sequence[Entry], faults: list[Fault]) -> None:
        """Adds or replaces settings; a range keeps its conditions where it gets no new ones."""
        legal, added = [*KEYS, *DECIDED, *TOP, *self.choices.groups()], dict[str, str]()
        for key, text, when in entries:
            component = key.partition(".")[0]
            if added.setdefault(key, text) != text:
                message = f"{key} is typed twice, as {added[key]} and as {text}: leave one out."
                faults.append(Fault(key, "conflict", message))
            elif key in DECIDED:
                message = f"{key}={text}: a sweep sets {key} itself; {DECIDED[key]}."
                faults.append(Fault(key, "unsupported", message))
            elif not {".", "/"} & {*key} and key not in legal and (near := closest(key, legal)) in KEYS:
                message = f"{key}={text}: there is no setting {key!r}. Did you mean {near!r}?"
                faults.append(Fault(key, "unknown", message))
            elif key != SWEEP:
                if key in RUNS and text == run.LATEST_RUN:  # for all trials
                    text = str(run.load(text).path)
                if key in COMPONENTS.values() and text != self.texts.get(key):  # the settings are those of another
                    kept = {k: t for k, t in self.texts.items() if k in added or k.partition(".")[0] != component}
                    self.texts = kept
                if component not in COMPONENTS and (when or is_range(key, text)):
                    self.conditions[key] = when or self.conditions.get(key, {})
                else:
                    self.conditions.pop(key, None)
                self.texts[key] = text


def _is_own(key: str) -> bool:
    return key in KEYS or key.partition(".")[0] in COMPONENTS


def _entries(words: Sequence[str]) -> list[Entry]:
    return [(key, text, {}) for key, _, text in (word.partition("=") for word in words)]


def _or(key: str) -> BeforeValidator:
    """Reads what is no mapping as the value of a key in one."""
    return BeforeValidator(lambda value: value if isinstance(value, dict) else {key: value})


Component: TypeAlias = Annotated[dict[str, Any], _or("name")]


class _Range(BaseModel, extra="forbid"):
    space: str
    when: dict[str, Any] = {}


class _Study(BaseModel, extra="forbid"):
    overrides: list[str] = []
    space: dict[str, Annotated[_Range, _or("space")]] = {}

    def entries(self) -> list[Entry]:
        return _entries(self.overrides) + [(key, entry.space, entry.when) for key, entry in self.space.items()]


class _Objective(BaseModel, extra="forbid"):
    metric: str
    mode: str = ""


class _File(_Study):
    studies: dict[str, Annotated[_Study, _or("overrides")]] = {}
    budget: dict[Literal["trials", "hours"], Any] = {}
    sampler: Component = {}
    pruner: Component = {}
    objective: list[_Objective] = []

    def own(self) -> dict[str, object]:
        """The sweep's own keys, save those at the top, as they are typed."""
        settings: dict[str, object] = {str(key): value for key, value in self.budget.items()}
        for kind, component in (("sampler", self.sampler), ("pruner", self.pruner)):
            settings |= {f"{kind}.{key}".removesuffix(".name"): value for key, value in component.items()}
        if self.objective:
            settings["objective.metric"] = ",".join(entry.metric for entry in self.objective)
            modes = [entry.mode or OBJECTIVE_METRICS.get(entry.metric, "") for entry in self.objective]
            settings["objective.mode"] = ",".join(modes)
        return settings


def sweeps_dir() -> Path:
    """Returns the folder of the sweep files: next to the configuration."""
    return conf_dir().parent / "sweeps"


def _read_file(draft: Draft, name: str, faults: list[Fault]) -> None:
    """Adds a sweep file, by its name in `sweeps/` or by its path.

    Raises:
        SettingError: If it is missing or cannot be read.
    """
    names = sorted(file.stem for file in sweeps_dir().glob("*.yaml"))
    file = sweeps_dir() / f"{name}.yaml" if name in names else Path(name)
    if not (file.suffix in (".yaml", ".yml") and file.is_file()):
        legal = f"There are {', '.join(names)}; type a file of your own as a path that ends in .yaml."
        message = f"sweep={name}: there is no such sweep.{suggestion(name, names)} {legal}"
        raise SettingError(Fault(SWEEP, "not_found", message))
    content = {key: value for key, value in load(file).items() if value is not None}
    options = {key: content.pop(key) for key in OPTION_TYPES if key in content}
    try:
        sweep = _File.model_validate(content)
    except ValidationError as error:
        raise SettingError(*(_file_fault(name, detail) for detail in error.errors())) from error
    draft.studies = {study: content.entries() for study, content in sweep.studies.items()}
    entries = [entry for entries in draft.studies.values() for entry in entries]
    misplaced = [key for key, text, _ in entries if _is_own(key) and not is_range(key, text)]
    misplaced += [key for key, _, _ in entries + sweep.entries() if key in (TRUST, SWEEP) or key.startswith("-")]
    if misplaced:
        legal = "the sweep's own keys stand at the top of a file, `trust` and options on the command line only"
        raise SettingError(Fault(SWEEP, "unsupported", f"sweep={name}: {' and '.join(misplaced)}: {legal}."))
    own: list[Entry] = [(key, types.as_typed(value), {}) for key, value in (options | sweep.own()).items()]
    draft.add([*sweep.entries(), *own], faults)


def _file_fault(name: str, detail: Mapping[str, Any]) -> Fault:
    """Returns an error of pydantic with the place in the file and what came in."""
    place = ".".join(map(str, detail["loc"]))
    is_unknown = detail["type"] == "extra_forbidden"
    close = suggestion(str(detail["loc"][-1]), [*_File.model_fields, *OPTION_TYPES]) if is_unknown else ""
    message = f"sweep={name}: {place}: {detail['msg']}, got {types.as_typed(detail['input'])}.{close}"
    return Fault(SWEEP, "unknown" if is_unknown else "type", message)


def read_plan(arguments: Sequence[str]) -> Plan:
    """Reads a sweep from the command line and the file that it names.

    Args:
        arguments: `sweep=NAME` or a file's path, the sweep's own keys, overrides, and ranges. A bare command reads
            `sweeps/default.yaml`, and so does one that gives no range, save that it resumes a study by its name.

    Raises:
        SettingError: With all faults.
    """
    words, folders = split_folders(arguments)
    words, is_shown = take_cfg(_with_stored(words))
    others = [*(["--cfg job"] if is_shown else []), *(word for word in words if word in ("-m", "--multirun"))]
    words = [word for word in words if word not in others]
    bare = [word for word in words if "=" not in word and not word.startswith("-")]
    rule = "settings and ranges are written key=value, and the only command is status"
    faults = [Fault(word, "missing", f"{word} has no value: {rule}.{suggestion(word, ['status'])}") for word in bare]
    advice = "an option of python -m sentattn.train: leave it out"
    faults += [Fault(option, "unsupported", f"{option} is {advice}.") for option in others]
    entries = _entries([word for word in words if word not in bare])
    draft = Draft(Choices.of(*folders), [f"{CONFIG_DIR}={folder.resolve()}" for folder in folders])
    names = [text for key, text, _ in entries if key == SWEEP]
    is_default = not names and not any(is_range(key, text) for key, text, _ in entries)
    if names or is_default:
        _read_file(draft, names[0] if names else DEFAULT, faults)
    draft.add(entries, faults)
    name, options = _options(draft, faults)
    objectives = _objectives(draft.component("objective"), faults)
    drafts = {study: deepcopy(draft) for study in draft.studies} or {"": draft}
    for study, changed in draft.studies.items():
        drafts[study].add(changed, faults)
    spaces = {study: _read_space(draft, faults) for study, draft in drafts.items()}
    settings = [_check_space(drafts[study], space, faults) for study, space in spaces.items()]
    first = next(iter(spaces.values()))
    sampler = _component("sampler", DEFAULT_SAMPLER, draft)
    pruner = _component("pruner", default_pruner(len(objectives), options.repeats), draft)
    faults += check_sampler(sampler, first, len(objectives))
    faults += check_pruner(pruner, len(objectives), options.repeats)
    if options.trials and not faults:
        faults += [fault for space in spaces.values() for fault in _choices_fault(space, options.trials)]
    if len(objectives) > 1 and options.confirm:
        message = f"confirm={options.confirm} cannot be used with several objectives, which have no single best."
        faults.append(Fault("confirm", "conflict", message))
    if faults:
        if is_default and {fault.key for fault in faults} & (draft.texts.keys() - {key for key, _, _ in entries}):
            message = "No range is typed, and so sweep=default is read: type a range, or sweep=FILE."
            faults.append(Fault(SWEEP, "conflict", message))
        raise SettingError(*dict.fromkeys(faults))
    name = name or f"{'models' if 'model' in first else settings[0]['model']['name']}-{settings[0]['data']['name']}"
    started = {key: text for key, text, _ in entries if key != TRUST}
    started |= {key: draft.texts[key] for key in RUNS if key in draft.texts}  # the run that was the latest
    plan = Plan(
        study=name,
        overrides=draft.arguments(),
        space=first,
        objectives=objectives,
        sampler=sampler,
        pruner=pruner,
        words=() if draft.studies else tuple(f"{key}={text}" for key, text in started.items()),
        **vars(options),
    )
    studies = (
        replace(plan, study=f"{name}-{study}", overrides=drafts[study].arguments(), space=space)
        for study, space in spaces.items()
        if study
    )
    return replace(plan, studies=tuple(studies))


def _with_stored(words: list[str]) -> list[str]:
    """Returns the words after those with which a study was started, where they name it and no setting of a training."""
    typed = dict(word.partition("=")[::2] for word in words)
    if not typed.get("study") or not all(key == TRUST or (key != SWEEP and _is_own(key)) for key in typed):
        return words
    folder = Path(typed.get("output_dir", Options.output_dir)).expanduser() / run.SWEEP_FOLDER / typed["study"]
    study = journal.stored(folder)
    stored = {word: word.partition("=")[0] for word in study.user_attrs.get(journal.WORDS, [])} if study else {}
    # Settings of a sampler or pruner are left out where another one is typed.
    return [*(word for word, key in stored.items() if not {key, key.partition(".")[0]} & typed.keys()), *words]


def _options(draft: Draft, faults: list[Fault]) -> tuple[str | None, Options]:
    """Returns the name of the study, and the options; faulty ones have their defaults."""
    own = [f"{key}={text}" for key, text in draft.texts.items() if key in OPTION_TYPES and key not in draft.conditions]
    values, wrong = read_values(own, OPTION_TYPES)
    values = {key: None if value == "null" else value for key, value in values.items()}
    faults += wrong
    name, hours = values.pop("study", None), values.get("hours")
    if name is not None and not NAME.fullmatch(name):
        message = f"study must be a name for a folder, of letters, digits, - and _, got {name}."
        faults.append(Fault("study", "type", message))
    if values.setdefault("trials", None if hours else DEFAULT_TRIALS) is None and hours is None:
        faults.append(Fault("trials", "missing", "trials=null needs hours=HOURS: one of them ends the sweep."))
    if values.get("engine") == "ray" and importlib.util.find_spec("ray") is None:
        faults.append(Fault("engine", "package", 'engine=ray needs Ray: type pip install "sentattn[ray]".'))
    if values.get("slots") is not None and "slots_per_gpu" in values:
        message = "slots and slots_per_gpu exclude each other: give the number of trials at once, or that of a GPU."
        faults.append(Fault("slots", "conflict", message))
    return name, Options(**values)


def _choices_fault(space: Mapping[str, Dimension], trials: int) -> list[Fault]:
    """Returns a fault where there are more trials than combinations of choices: some would be trained again."""
    count = points(space, trials) if all(dimension.is_categorical for dimension in space.values()) else None
    if count in (None, trials):
        return []
    advice = f"type trials={count}, or train each of them with python -m sentattn.train -m"
    return [Fault("trials", "range", f"trials={trials}: there are {count} combinations of choices; {advice}.")]


def _objectives(settings: Mapping[str, str], faults: list[Fault]) -> tuple[Objective, ...]:
    """Returns the objectives, whose metrics and modes have commas between them; by default validation accuracy."""
    legal = ("metric", "mode")
    faults += [unknown(f"objective.{name}", "setting", name, legal) for name in settings if name not in legal]
    metrics = settings.get("metric", "val/accuracy").split(",")
    faults += [
        unknown("objective.metric", "metric", name, OBJECTIVE_METRICS)
        for name in metrics
        if name not in OBJECTIVE_METRICS
    ]
    objectives = tuple(
        Objective(metric, OBJECTIVE_METRICS[metric]) for metric in metrics if metric in OBJECTIVE_METRICS
    )
    modes = ",".join(objective.mode for objective in objectives)
    if len(objectives) == len(metrics) and settings.get("mode", modes) != modes:
        message = f"objective.mode of {','.join(metrics)} must be {modes}, got {settings['mode']}."
        faults.append(Fault("objective.mode", "range", message))
    return objectives


def _component(kind: str, default: str, draft: Draft) -> Tree:
    """Returns the settings of a sampler or pruner."""
    return {"name": default} | {key: types.parse(text) for key, text in draft.component(kind).items()}


def _read_space(draft: Draft, faults: list[Fault]) -> dict[str, Dimension]:
    """Returns the dimensions that can be read, each after those that it depends on; the faults of the others are added.

    Raises:
        SettingError: If a condition leads back to itself.
    """
    if not draft.conditions:
        message = "there is nothing to search: type a range such as model.attention.hops=range(1,31), or sweep=NAME."
        faults.append(Fault("space", "missing", message))
    read: dict[str, Dimension] = {}
    for key, when in draft.conditions.items():
        text = draft.texts[key]
        if reason := NOT_SEARCHED.get("logger" if key.startswith("logger.") else key):
            faults.append(Fault(key, "unsupported", f"{key}={text}: {key} cannot be searched; {reason}."))
            continue
        try:
            read[key] = read_dimension(key, text, draft.choices, when)
        except SettingError as error:
            faults += error.faults
    space: dict[str, Dimension] = {}
    for key, dimension in read.items():
        conditions: dict[str, tuple[Value, ...]] = {}
        for name, values in draft.conditions[key].items():
            legal = tuple(values) if isinstance(values, list) else (values,)
            condition = f"{key}: when {name}={' or '.join(map(types.as_typed, legal))}"
            if name in draft.overrides:
                if types.parse(draft.overrides[name]) not in legal:
                    break  # it never holds
            elif name not in draft.conditions:
                message = f"{condition}: {name} is not searched.{suggestion(name, draft.conditions)}"
                faults.append(Fault(key, "unknown", message))
            elif name in read and not all(map(read[name].contains, legal)):
                faults.append(Fault(key, "range", f"{condition}: the range of {name} is {read[name].written}."))
            else:
                conditions[name] = legal
        else:
            space[key] = replace(dimension, when=conditions)
    left = {key: dimension for key, dimension in space.items() if dimension.when.keys() <= space.keys()}
    ordered: dict[str, Dimension] = {}
    while left:
        key = next((key for key, dimension in left.items() if dimension.when.keys() <= ordered.keys()), "")
        if not key:
            message = f"the conditions of {' and '.join(left)} form a cycle: leave one `when` out."
            raise SettingError(Fault("space", "conflict", message))
        ordered[key] = left.pop(key)
    return ordered


def _check_space(draft: Draft, space: Mapping[str, Dimension], faults: list[Fault]) -> Node:
    """Composes trials in which each choice, both ends of each range and its 0 occur, and adds their faults.

    A range has one fault, since both ends have the same; choices have one each, unless all are faulty.

    Returns:
        The settings of one trial; empty where none could be composed.
    """
    settings: Node = {}
    trials: list[tuple[Values, tuple[Fault, ...]]] = []
    by_key: dict[str, dict[Fault, None]] = {}
    for values in _trials(space):
        try:
            request = read_request([*draft.arguments(), *(override(key, value) for key, value in values.items())])
            require_one_device(request.settings["trainer"], "in a sweep", "type gpus_per_trial=2")
            if folds := request.settings["data"].get("folds"):
                message = f"{FOLDS}={folds}: a sweep searches on one split of the rows; leave it out."
                raise SettingError(Fault(FOLDS, "unsupported", message))
            settings = settings or request.settings
            trials.append((values, ()))
        except UserError as error:
            trials.append((values, error.faults))
        for fault in trials[-1][1]:
            if fault.kind != "missing" or fault.key in space or fault.key not in draft.conditions:
                by_key.setdefault(fault.key, {})[fault] = None
    choices = [name for name, dimension in space.items() if dimension.is_categorical]
    for key, found in by_key.items():
        names = sorted(choices, key=lambda name: not key.startswith(f"{name.replace('/', '.')}."))
        faulty = [values for values, wrong in trials if key in {fault.key for fault in wrong}]
        legal = [values for values, wrong in trials if key not in {fault.key for fault in wrong}]
        hint = ""
        if decides := _deciding([name for name in names if name != key], faulty, legal):
            when = decides[1] if {fault.kind for fault in found} == {"missing"} else decides[2]
            condition = f"when: {{{decides[0]}: {types.as_typed(when[0] if len(when) == 1 else when)}}}"
            hint = f' In a sweep file, write under `space`: {key}: {{space: "RANGE", {condition}}}'
        written = f"{key}={space[key].written}: " if key in space else ""
        is_one = key in space and (not space[key].is_categorical or len(found) >= len(space[key].ends()))
        for fault in list(found)[: 1 if is_one else None]:
            is_decimal = fault.kind == "type" and "interval" in written
            number = f" Type {key}=int({space[key].written})." if is_decimal else ""
            faults.append(replace(fault, message=f"{written}{fault}{number}{hint}"))
    return settings


def _deciding(
    names: Iterable[str], faulty: Sequence[Mapping[str, Value]], legal: Sequence[Mapping[str, Value]]
) -> tuple[str, list[Value], list[Value]] | None:
    """Returns the first of some settings whose value decides whether a fault occurs, with faulty and legal values."""
    for name in names:
        bad, good = ([*dict.fromkeys(each[name] for each in side if name in each)] for side in (faulty, legal))
        if bad and good and not any(is_one_of(value, good) for value in bad):
            return name, bad, good
    return None


def _trials(space: Mapping[str, Dimension]) -> Iterator[Values]:
    """Yields trials in which each choice, both ends of each range and its 0 occur."""
    unseen = {key: list(dimension.ends()) for key, dimension in space.items()}
    choices = combinations([dimension for dimension in space.values() if dimension.is_categorical])
    starts = list(islice(choices, COMBINATIONS + 1))
    starts = starts if len(starts) <= COMBINATIONS else []
    while starts or any(unseen.values()):
        if starts:
            start = starts.pop(0)
        else:
            key = next(key for key, ends in unseen.items() if ends)
            start = {**_needs(space, key), key: unseen[key][0]}
        values: Values = {}
        for key, dimension in space.items():
            if key in start or dimension.is_active(values):
                values[key] = start[key] if key in start else (unseen[key] or dimension.ends())[0]
                if values[key] in unseen[key]:
                    unseen[key].remove(values[key])
        yield values


def _needs(space: Mapping[str, Dimension], key: str) -> Values:
    """The first values under which a dimension is set."""
    when: When = space[key].when
    needs = {name: value for other in when for name, value in _needs(space, other).items()}
    return needs | {name: legal[0] for name, legal in when.items()}
