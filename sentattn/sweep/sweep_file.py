"""A sweep file: plain YAML, and what it asks for, key by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sentattn.config.arguments import Faults
from sentattn.config.groups import conf_dir, load
from sentattn.config.types import given
from sentattn.errors import SettingError, suggestion
from sentattn.sweep import keys
from sentattn.sweep.grammar import is_range

EXAMPLE = '{space: "range(8,129)", when: {model/pooling: prune}}'


@dataclass
class Draft:
    """What is asked for.

    Attributes:
        overrides: What all trials have: text by key.
        ranges: What is searched: text and conditions by key.
        options: The sweep's own keys: by key, budget among them.
        components: Of sampler and pruner, name and settings.
        objectives: Metric and mode.
        studies: Overrides and ranges of each study that a file starts.
        positions: Where a key was typed, those of a file before those of the command line.
        folders: `--config-dir=FOLDER`.
    """

    overrides: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    components: dict[str, dict[str, Any]] = field(default_factory=lambda: {name: {} for name in keys.COMPONENTS})
    objectives: list[dict[str, Any]] = field(default_factory=list)
    studies: dict[str, Draft] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    def place(self, key: str) -> int:
        """Notes where a key is given, and returns that."""
        return self.positions.setdefault(key, len(self.positions))

    def give(self, key: str, text: str) -> None:
        """Gives a setting one value; a range of it is over."""
        self.place(key)
        self.ranges.pop(key, None)
        self.overrides[key] = text

    def search(self, key: str, text: str, when: Mapping[str, Any]) -> None:
        """Gives a setting a range; its conditions stay where none are given."""
        self.place(key)
        self.overrides.pop(key, None)
        self.ranges[key] = (text, when or self.ranges.get(key, ("", {}))[1])


def sweeps_dir() -> Path:
    """Returns the folder of the sweep files: beside the configuration."""
    return conf_dir().parent / "sweeps"


def read_file(draft: Draft, name: str, faults: Faults) -> None:
    """Takes in a sweep file, by the name of one of ours or by its path.

    Raises:
        SettingError: If there is none, or it cannot be read.
    """
    names = sorted(file.stem for file in sweeps_dir().glob("*.yaml"))
    file = sweeps_dir() / f"{name}.yaml" if name in names else Path(name)
    if name not in names and not (file.suffix in (".yaml", ".yml") and file.is_file()):
        there = f"There are {', '.join(names)}; a file of your own is given by its path, ending in .yaml."
        raise SettingError(f"sweep={name}: there is no such sweep.{suggestion(name, names)} {there}")
    content = load(file)
    shown = f"sweep={name}"
    for key in content:
        if key in keys.BUDGET:
            faults.add(f"{shown}: {key} stands under budget, as budget: {{{key}: {given(content[key])}}}.")
        elif key not in keys.IN_FILES:
            close = suggestion(key, keys.IN_FILES)
            faults.add(f"{shown}: there is no key {key!r}.{close} There are {', '.join(keys.IN_FILES)}.")
    _settings(draft, content, shown, faults)
    _own(draft, content, shown, faults)
    for study, inner in _mapping(content.get("studies"), f"{shown}: studies", faults).items():
        part = draft.studies[str(study)] = Draft()
        inside = {"overrides": inner} if isinstance(inner, list) else _mapping(inner, f"{shown}: {study}", faults)
        if unknown := [key for key in inside if key not in ("overrides", "space")]:
            faults.add(f"{shown}: {study} has no key {unknown[0]!r}; it has overrides and space.")
        _settings(part, inside, f"{shown}: {study}", faults)


def _settings(draft: Draft, content: Mapping[str, Any], shown: str, faults: Faults) -> None:
    """Takes in `overrides` and `space`."""
    overrides = content.get("overrides") or []
    if not isinstance(overrides, list) or not all(isinstance(word, str) for word in overrides):
        faults.add(f"{shown}: overrides is a list such as [model=structured, data=imdb].")
        overrides = []
    for word in overrides:
        key, equals, text = word.partition("=")
        if not equals:
            faults.add(f"{shown}: {word!r} is no override; it is written key=value.")
        elif key.startswith("-") or key == "trust":
            faults.add(f"{shown}: {word} belongs on the command line; a file is not asked what to trust.")
        elif key in draft.overrides:
            faults.add(f"{shown}: {key} is given twice among the overrides: leave one out.")
        elif key in keys.TYPED or key.partition(".")[0] in keys.COMPONENTS:
            faults.add(f"{shown}: {word} is the sweep's own; it stands in the file by itself, beside overrides.")
        elif is_range(key, text):
            faults.add(f"{shown}: {word} is a range; it stands under space, as {key}: {text}.")
        else:
            draft.give(key, text)
    _space(draft, content, shown, faults)


def _space(draft: Draft, content: Mapping[str, Any], shown: str, faults: Faults) -> None:
    for key, value in _mapping(content.get("space"), f"{shown}: space", faults).items():
        position = draft.place(str(key))
        entry = value if isinstance(value, Mapping) else {"space": value}
        unknown = [name for name in entry if name not in ("space", "when")]
        when = entry.get("when") or {}
        if key in draft.overrides:
            faults.add(f"{shown}: {key} stands among the overrides and in the space: leave one out.", position)
        elif unknown or not isinstance(when, Mapping):
            faults.add(f"{shown}: {key} is a range, or a range with a condition such as {EXAMPLE}.", position)
        elif not isinstance(entry.get("space"), str):
            faults.add(f"{shown}: {key}: {_no_range(key, entry.get('space'))}.", position)
        else:
            draft.search(str(key), entry["space"], when)


def _no_range(key: str, value: Any) -> str:
    if isinstance(value, list):
        return f"a list is written choice({','.join(map(given, value))})"
    return f"{given(value)} is no range; a fixed value stands among the overrides, as {key}={given(value)}"


def _own(draft: Draft, content: Mapping[str, Any], shown: str, faults: Faults) -> None:
    """Takes in the sweep's own keys."""
    budget = _mapping(content.get("budget"), f"{shown}: budget", faults)
    if unknown := [key for key in budget if key not in keys.BUDGET]:
        faults.add(f"{shown}: budget has no {unknown[0]!r}; it has trials and hours.")
    own = {key: value for key, value in content.items() if key in keys.OPTIONS and key not in keys.BUDGET}
    draft.options |= own | {key: value for key, value in budget.items() if key in keys.BUDGET}
    for name in keys.COMPONENTS:
        component = content.get(name)
        named = {"name": component} if isinstance(component, str) else _mapping(component, f"{shown}: {name}", faults)
        draft.components[name] = dict(named)
    objective = content.get("objective")
    listed = objective if isinstance(objective, list) else [] if objective is None else [objective]
    for one in listed:
        if not isinstance(one, Mapping) or set(one) - {"metric", "mode"} or "metric" not in one:
            faults.add(f"{shown}: objective is a list such as [{{metric: val/accuracy, mode: max}}].")
        else:
            draft.objectives.append(dict(one))


def _mapping(value: Any, shown: str, faults: Faults) -> Mapping[str, Any]:
    if value is None or isinstance(value, Mapping):
        return value or {}
    faults.add(f"{shown} holds lines `key: value`, not {given(value)}.")
    return {}
