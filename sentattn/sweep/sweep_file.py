"""A sweep as it is written: a YAML file, and the command line, which replaces or extends it key by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sentattn.config import types
from sentattn.config.arguments import Faults, closest, split_folders
from sentattn.config.command_line import CONFIG_DIR
from sentattn.config.groups import Choices, conf_dir, load
from sentattn.config.schema import TOP
from sentattn.config.types import as_typed
from sentattn.errors import Fault, SettingError, suggestion
from sentattn.sweep import options
from sentattn.sweep.grammar import is_range

DEFAULT = "default"
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
    components: dict[str, dict[str, Any]] = field(default_factory=lambda: {name: {} for name in options.COMPONENTS})
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
        raise SettingError(
            Fault("sweep", "not_found", f"sweep={name}: there is no such sweep.{suggestion(name, names)} {there}")
        )
    content = load(file)
    shown = f"sweep={name}"
    for key in content:
        if key in options.BUDGET:
            message = f"{shown}: {key} stands under budget, as budget: {{{key}: {as_typed(content[key])}}}."
            faults.add(Fault("sweep", "type", message))
        elif key not in options.IN_FILES:
            close = suggestion(key, options.IN_FILES)
            faults.add(
                Fault(
                    "sweep",
                    "unknown",
                    f"{shown}: there is no key {key!r}.{close} There are {', '.join(options.IN_FILES)}.",
                )
            )
    _settings(draft, content, shown, faults)
    _own(draft, content, shown, faults)
    for study, inner in _mapping(content.get("studies"), f"{shown}: studies", faults).items():
        part = draft.studies[str(study)] = Draft()
        inside = {"overrides": inner} if isinstance(inner, list) else _mapping(inner, f"{shown}: {study}", faults)
        if unknown := [key for key in inside if key not in ("overrides", "space")]:
            faults.add(
                Fault("sweep", "unknown", f"{shown}: {study} has no key {unknown[0]!r}; it has overrides and space.")
            )
        _settings(part, inside, f"{shown}: {study}", faults)


def _settings(draft: Draft, content: Mapping[str, Any], shown: str, faults: Faults) -> None:
    """Takes in `overrides` and `space`."""
    overrides = content.get("overrides") or []
    if not isinstance(overrides, list) or not all(isinstance(word, str) for word in overrides):
        faults.add(Fault("sweep", "type", f"{shown}: overrides is a list such as [model=structured, data=imdb]."))
        overrides = []
    for word in overrides:
        key, equals, text = word.partition("=")
        if not equals:
            faults.add(Fault("sweep", "type", f"{shown}: {word!r} is no override; it is written key=value."))
        elif key.startswith("-") or key == "trust":
            faults.add(
                Fault(
                    "sweep", "type", f"{shown}: {word} belongs on the command line; a file is not asked what to trust."
                )
            )
        elif key in draft.overrides:
            faults.add(Fault("sweep", "conflict", f"{shown}: {key} is given twice among the overrides: leave one out."))
        elif key in options.TYPED or key.partition(".")[0] in options.COMPONENTS:
            faults.add(
                Fault(
                    "sweep",
                    "type",
                    f"{shown}: {word} is the sweep's own; it stands in the file by itself, beside overrides.",
                )
            )
        elif is_range(key, text):
            faults.add(Fault("sweep", "type", f"{shown}: {word} is a range; it stands under space, as {key}: {text}."))
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
            faults.add(
                Fault(
                    "sweep", "conflict", f"{shown}: {key} stands among the overrides and in the space: leave one out."
                ),
                position,
            )
        elif unknown or not isinstance(when, Mapping):
            faults.add(
                Fault("sweep", "type", f"{shown}: {key} is a range, or a range with a condition such as {EXAMPLE}."),
                position,
            )
        elif not isinstance(entry.get("space"), str):
            faults.add(Fault("sweep", "type", f"{shown}: {key}: {_no_range(key, entry.get('space'))}."), position)
        else:
            draft.search(str(key), entry["space"], when)


def _no_range(key: str, value: Any) -> str:
    if isinstance(value, list):
        return f"a list is written choice({','.join(map(as_typed, value))})"
    return f"{as_typed(value)} is no range; a fixed value stands among the overrides, as {key}={as_typed(value)}"


def _own(draft: Draft, content: Mapping[str, Any], shown: str, faults: Faults) -> None:
    """Takes in the sweep's own options."""
    budget = _mapping(content.get("budget"), f"{shown}: budget", faults)
    if unknown := [key for key in budget if key not in options.BUDGET]:
        faults.add(Fault("sweep", "unknown", f"{shown}: budget has no {unknown[0]!r}; it has trials and hours."))
    own = {key: value for key, value in content.items() if key in options.OPTIONS and key not in options.BUDGET}
    draft.options |= own | {key: value for key, value in budget.items() if key in options.BUDGET}
    for name in options.COMPONENTS:
        component = content.get(name)
        named = {"name": component} if isinstance(component, str) else _mapping(component, f"{shown}: {name}", faults)
        draft.components[name] = dict(named)
    objective = content.get("objective")
    listed = objective if isinstance(objective, list) else [] if objective is None else [objective]
    for one in listed:
        if not isinstance(one, Mapping) or set(one) - {"metric", "mode"} or "metric" not in one:
            faults.add(
                Fault("sweep", "type", f"{shown}: objective is a list such as [{{metric: val/accuracy, mode: max}}].")
            )
        else:
            draft.objectives.append(dict(one))


def _mapping(value: Any, shown: str, faults: Faults) -> Mapping[str, Any]:
    if value is None or isinstance(value, Mapping):
        return value or {}
    faults.add(Fault("sweep", "type", f"{shown} holds lines `key: value`, not {as_typed(value)}."))
    return {}


def read_draft(arguments: Sequence[str], faults: Faults) -> tuple[Draft, Choices]:
    """Reads the command line on top of the sweep file that it names; a bare one names `default`."""
    words, folders = split_folders(arguments)
    choices = Choices.of(*folders)
    named = [word.partition("=")[2] for word in words if word.partition("=")[0] == options.SWEEP]
    searches = any(is_range(*_parted(word)) for word in words)
    draft = Draft(folders=[f"{CONFIG_DIR}={folder.resolve()}" for folder in folders])
    if named or not searches:
        read_file(draft, named[0] if named else DEFAULT, faults)
    _read_words(draft, [word for word in words if word.partition("=")[0] != options.SWEEP], choices, faults)
    if len(set(named)) > 1:
        faults.add(Fault("sweep", "conflict", f"sweep is given twice, as {named[0]} and as {named[1]}: leave one out."))
    return draft, choices


def _parted(word: str) -> tuple[str, str]:
    key, _, text = word.partition("=")
    return key, text


def _read_words(draft: Draft, words: Sequence[str], choices: Choices, faults: Faults) -> None:
    seen: dict[str, str] = {}
    components: dict[str, dict[str, Any]] = {name: {} for name in options.COMPONENTS}
    objective: dict[str, str] = {}
    draft.positions = {key: place - len(draft.positions) for key, place in draft.positions.items()}
    for position, word in enumerate(words):
        key, equals, text = word.partition("=")
        draft.positions[key] = position
        if key in seen:
            if seen[key] != text:
                faults.add(
                    Fault(key, "conflict", f"{key} is given twice, as {seen[key]} and as {text}: leave one out."),
                    position,
                )
            continue
        seen[key] = text
        component, _, setting = key.partition(".")
        own = key in options.TYPED or component in options.COMPONENTS
        if message := _no_word(word, key, equals, text, own, choices):
            faults.add(Fault(key, "unknown", message), position)
        elif component in options.COMPONENTS:
            components[component][setting or "name"] = types.parse(text)
        elif key in options.OBJECTIVE:
            objective[key.partition(".")[2]] = text
        elif is_range(key, text):
            draft.search(key, text, {})
        elif key in options.OPTIONS:
            draft.options[key] = text
        else:
            draft.give(key, text)
    for name, typed in components.items():
        kept = {} if "name" in typed and typed["name"] != draft.components[name].get("name") else draft.components[name]
        draft.components[name] = kept | typed
    if objective:
        draft.objectives = _objectives(objective, draft.objectives, faults)


def _no_word(word: str, key: str, equals: str, text: str, own: bool, choices: Choices) -> str | None:
    """Returns why a word is neither one of the sweep's own keys nor a setting, as far as can be told here."""
    bare = key.lstrip("-+")
    if own and not text:
        return f"{word} has no value: type {key}=VALUE."
    if bare != key and (bare in options.TYPED or bare.partition(".")[0] in options.COMPONENTS):
        return f"{word}: settings are written without dashes and plus signs; type {bare}={text or 'VALUE'}."
    if key.startswith("budget."):
        return f"{word}: type {key.partition('.')[2]}={text}."
    others = [*options.TYPED, *options.DECIDED, *TOP, *choices.groups()]
    if equals and "." not in key and "/" not in key and key not in others and closest(key, others) in options.TYPED:
        return f"{word}: there is no setting {key!r}. Did you mean {closest(key, others)!r}?"
    return None


def _objectives(typed: Mapping[str, str], listed: list[dict[str, Any]], faults: Faults) -> list[dict[str, Any]]:
    """What was typed, several metrics with commas between them; a mode alone belongs to the metric that there is."""
    metrics = typed.get("metric", "").split(",") if "metric" in typed else [one["metric"] for one in listed]
    modes = typed["mode"].split(",") if "mode" in typed else [None] * len(metrics)
    metrics = metrics or ["val/accuracy"]
    if len(modes) != len(metrics):
        faults.add(
            Fault(
                "objective.mode",
                "conflict",
                f"objective.mode={typed['mode']} does not fit {','.join(metrics)}: give one for each, or none.",
            )
        )
        return []
    return [{"metric": metric} | ({"mode": mode} if mode else {}) for metric, mode in zip(metrics, modes, strict=True)]
