"""A sweep as it is written: a YAML file, and the command line, which replaces or extends it key by key."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ValidationError

from sentattn.config.arguments import closest, split_folders
from sentattn.config.command_line import CONFIG_DIR
from sentattn.config.groups import Choices, conf_dir, load
from sentattn.config.schema import TOP
from sentattn.config.targets import TARGET
from sentattn.config.types import as_typed
from sentattn.errors import Fault, SettingError, suggestion
from sentattn.sweep.spec.plan import DECIDED, METRICS, Budget, Options
from sentattn.sweep.spec.search_space import Value, is_range

SWEEP, DEFAULT = "sweep", "default"
OPTIONS: dict[str, Any] = {
    "study": str | None,
    **typing.get_type_hints(Budget, include_extras=True),
    **typing.get_type_hints(Options, include_extras=True),
}
"""The sweep's own keys with their types; `study=null` names a study by model and data."""
COMPONENTS = {"sampler": "sampler", "pruner": "pruner", "engine": "engine", "objective": "objective.metric"}
"""Components, which have settings such as `sampler.multivariate`, and the key that chooses each."""
KEYS = (SWEEP, *OPTIONS, *COMPONENTS.values(), "objective.mode")

Entry: TypeAlias = tuple[str, str, Mapping[str, Any]]
"""Key, text, and for a range its conditions."""


@dataclass
class Draft:
    """A sweep as it is written, not checked yet.

    Attributes:
        choices: Groups and choices.
        folders: `--config-dir=FOLDER`.
        overrides: Arguments that all trials have: text by key.
        ranges: What is searched: text and conditions by key.
        options: The sweep's own keys: text by key.
        components: Settings by component, its name or metric among them.
        studies: What each study of a file changes, where it starts several.
        enqueue: Points to try first.
        trust: Whether `trust=true` is typed.
        is_default: Whether its file is `sweeps/default.yaml` because no range and no file is typed.
    """

    choices: Choices
    folders: list[str]
    overrides: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    components: dict[str, dict[str, str]] = field(default_factory=lambda: {name: {} for name in COMPONENTS})
    studies: dict[str, list[Entry]] = field(default_factory=dict)
    enqueue: list[dict[str, Value]] = field(default_factory=list)
    trust: bool = False
    is_default: bool = False

    def add(self, entries: Sequence[Entry], faults: list[Fault]) -> None:
        """Adds or replaces settings; a range keeps its conditions where it gets no new ones."""
        added: dict[str, str] = {}
        for component, key in COMPONENTS.items():
            names = [text for other, text, _ in entries if other == key]
            if names and names[0] != self.components[component].get(_setting(key)):
                self.components[component] = {}
        for key, text, when in entries:
            if added.setdefault(key, text) != text:
                message = f"{key} is typed twice, as {added[key]} and as {text}: leave one out."
                faults.append(Fault(key, "conflict", message))
            elif fault := self._fault(key, text):
                faults.append(fault)
            elif key.partition(".")[0] in COMPONENTS:
                self.components[key.partition(".")[0]][_setting(key)] = text
            elif when or is_range(key, text):
                self.overrides.pop(key, None)
                self.ranges[key] = (text, when or self.ranges.get(key, ("", {}))[1])
            elif key in OPTIONS:
                self.options[key] = text
            elif key != SWEEP:
                self.ranges.pop(key, None)
                self.overrides[key] = text

    def study(self, entries: Sequence[Entry], faults: list[Fault]) -> Draft:
        """Returns one study of several: what it has of its own on top of what all have."""
        draft = replace(self, overrides=dict(self.overrides), ranges=dict(self.ranges))
        draft.add(entries, faults)
        return draft

    def _fault(self, key: str, text: str) -> Fault | None:
        legal = [*KEYS, *DECIDED, *TOP, *self.choices.groups()]
        if not text and _is_own(key):
            return Fault(key, "missing", f"{key} has no value: type {key}=VALUE.")
        if "." not in key and "/" not in key and key not in legal and (near := closest(key, legal)) in KEYS:
            return Fault(key, "unknown", f"{key}={text}: there is no setting {key!r}. Did you mean {near!r}?")
        return None


def _setting(key: str) -> str:
    return key.partition(".")[2] or "name"


def _is_own(key: str) -> bool:
    return key in KEYS or key.partition(".")[0] in COMPONENTS


def _entries(words: Sequence[str]) -> list[Entry]:
    return [(key, text, {}) for key, _, text in (word.partition("=") for word in words)]


def _or(key: str) -> BeforeValidator:
    """Reads what is no mapping as the value of a key in one."""
    return BeforeValidator(lambda value: value if isinstance(value, dict) else {key: value})


_IN_LIST = BeforeValidator(lambda value: value if isinstance(value, list) else [value])


class _Range(BaseModel, extra="forbid"):
    space: str
    when: dict[str, Any] = {}


class _Study(BaseModel, extra="forbid"):
    overrides: list[str] = []
    space: dict[str, Annotated[_Range, _or("space")]] = {}

    def entries(self) -> list[Entry]:
        return _entries(self.overrides) + [(key, entry.space, entry.when) for key, entry in self.space.items()]


class _File(_Study):
    studies: dict[str, Annotated[_Study, _or("overrides")]] = {}
    enqueue: list[dict[str, Value]] = []
    budget: dict[Literal["trials", "hours"], Any] = {}
    sampler: Annotated[dict[str, Any], _or("name")] = {}
    pruner: Annotated[dict[str, Any], _or("name")] = {}
    engine: Annotated[dict[str, Any], _or("name")] = {}
    objective: Annotated[list[dict[Literal["metric", "mode"], str]], _IN_LIST] = []

    def components(self) -> dict[str, dict[str, Any]]:
        metrics = [entry.get("metric", "") for entry in self.objective]
        modes = [entry.get("mode") or METRICS.get(entry.get("metric", ""), "max") for entry in self.objective]
        objective = {"metric": ",".join(metrics), "mode": ",".join(modes)} if metrics else {}
        return {"sampler": self.sampler, "pruner": self.pruner, "engine": self.engine, "objective": objective}


def sweeps_dir() -> Path:
    """Returns the folder of the sweep files: next to the configuration."""
    return conf_dir().parent / "sweeps"


def _read_file(draft: Draft, name: str, faults: list[Fault]) -> None:
    """Adds a sweep file, by its name in `sweeps/` or by its path."""
    names = sorted(file.stem for file in sweeps_dir().glob("*.yaml"))
    file = sweeps_dir() / f"{name}.yaml" if name in names else Path(name)
    if not (file.suffix in (".yaml", ".yml") and file.is_file()):
        legal = f"There are {', '.join(names)}; type a file of your own as a path that ends in .yaml."
        message = f"sweep={name}: there is no such sweep.{suggestion(name, names)} {legal}"
        raise SettingError(Fault(SWEEP, "not_found", message))
    content = {key: value for key, value in load(file).items() if value is not None}
    options = {key: content.pop(key) for key in OPTIONS if key in content}
    try:
        sweep = _File.model_validate(content)
    except ValidationError as error:
        raise SettingError(*(_file_fault(name, entry) for entry in error.errors())) from error
    options |= {str(key): value for key, value in sweep.budget.items()}
    for component, settings in sweep.components().items():
        options |= {f"{component}.{key}": value for key, value in settings.items()}
    draft.enqueue = sweep.enqueue
    draft.studies = {study: content.entries() for study, content in sweep.studies.items()}
    entries = [entry for entries in draft.studies.values() for entry in entries]
    misplaced = [key for key, text, _ in entries if _is_own(key) and not is_range(key, text)]
    misplaced += [key for key, _, _ in entries + sweep.entries() if key in ("trust", SWEEP) or key.startswith("-")]
    if misplaced:
        legal = "the sweep's own keys stand at the top of a file, `trust` and options on the command line only"
        raise SettingError(Fault(SWEEP, "unsupported", f"sweep={name}: {' and '.join(misplaced)}: {legal}."))
    draft.add([*sweep.entries(), *((key, as_typed(value), {}) for key, value in options.items())], faults)


def _file_fault(name: str, error: Mapping[str, Any]) -> Fault:
    """Returns an error of pydantic with the place in the file and what came in."""
    place = ".".join(map(str, error["loc"]))
    close = suggestion(str(error["loc"][-1]), [*_File.model_fields, *OPTIONS])
    kind, hint = ("unknown", close) if error["type"] == "extra_forbidden" else ("type", "")
    message = f"sweep={name}: {place}: {error['msg']}, got {as_typed(error['input'])}.{hint}"
    return Fault(SWEEP, kind, message)


def read_draft(arguments: Sequence[str], faults: list[Fault]) -> Draft:
    """Reads the command line on top of the sweep file that it names; one without ranges has `sweeps/default.yaml`."""
    words, folders = split_folders(arguments)
    draft = Draft(Choices.of(*folders), [f"{CONFIG_DIR}={folder.resolve()}" for folder in folders])
    entries = _entries(words)
    names = [text for key, text, _ in entries if key == SWEEP]
    draft.is_default = not names and not any(is_range(key, text) for key, text, _ in entries)
    if names or draft.is_default:
        _read_file(draft, names[0] if names else DEFAULT, faults)
    draft.add(entries, faults)
    draft.trust = draft.overrides.get("trust") == "true"
    if "from" not in draft.overrides and any(TARGET in settings for settings in draft.components.values()):
        draft.overrides.pop("trust", None)  # it is about the sampler or pruner alone
    return draft
